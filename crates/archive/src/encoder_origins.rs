//! The encoder that made each stored body, and the content of the body: read by later builds, which
//! then need not encode it again. A server never looks at it.

use pinion_http::content_coding::Coding;

use crate::body_writer::{BodyNumber, BodyRef};
use crate::layout::{ORIGIN_NOT_KEPT, OriginRow};

/// The result of one encoder for one content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrigin {
    /// The content.
    pub content: BodyRef,
    /// Its coded form; `None` when that did not pay.
    pub stored: Option<BodyRef>,
    /// Coding of that form.
    pub coding: Coding,
    /// The encoder, see [`OriginRow::method`].
    pub method: u8,
    /// Level, on the method's own scale.
    pub level: u8,
    /// Changes when the method at that level gives other bytes.
    pub edition: u8,
}

/// The section as it grows.
#[derive(Default)]
pub(crate) struct OriginTable(Vec<OriginRow>);

impl OriginTable {
    pub(crate) fn add(&mut self, origin: &NewOrigin) {
        let number = |body: BodyRef| match body.0 {
            BodyNumber::Stored(number) => Some(number),
            BodyNumber::Empty | BodyNumber::External(_) => None,
        };
        let Some(content) = number(origin.content) else { return };
        self.0.push(OriginRow {
            content: content.into(),
            stored: origin.stored.and_then(number).unwrap_or(ORIGIN_NOT_KEPT).into(),
            coding: origin.coding.number(),
            method: origin.method,
            level: origin.level,
            edition: origin.edition,
        });
    }

    /// Returns the rows in the order of the section, each but once.
    pub(crate) fn into_rows(mut self) -> Vec<OriginRow> {
        self.0.sort_unstable_by_key(|row| (row.content.get(), row.method, row.level, row.edition));
        self.0.dedup();
        self.0
    }
}
