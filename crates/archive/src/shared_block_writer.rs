//! The shared section as it is written: each block once.

use std::collections::HashMap;

use zerocopy::IntoBytes;

use crate::damage::Fault;
use crate::field_lines;
use crate::layout::SharedHeader;
use crate::limits::SHARED_SECTION_MAX_BYTES;
use crate::shared_blocks::{self, Role, SharedId};
use crate::write_error::WriteError;

/// A shared block to be written. The fields that the server writes itself (ETag, Content-Length,
/// Location, Date and so on) may not be among the lines.
#[derive(Clone, Copy, Debug)]
pub struct NewShared<'a> {
    /// The purpose for which the server uses it without being asked by an entry.
    pub role: Role,
    /// Status of the responses it belongs to.
    pub status: u16,
    /// `Content-Type`, written as the first line.
    pub content_type: Option<&'a str>,
    /// The other fields of a full response, as `(name, value)`.
    pub fields: &'a [(&'a str, &'a str)],
    /// The fields of a 304.
    pub not_modified: &'a [(&'a str, &'a str)],
}

/// The section as it grows.
#[derive(Default)]
pub(crate) struct SharedWriter {
    bytes: Vec<u8>,
    ids: HashMap<Vec<u8>, SharedId>,
}

impl SharedWriter {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of an equal block, or of this one, which is then the last. `plain` is the
    /// block that rules for fields have made it of.
    pub(crate) fn store(
        &mut self,
        shared: &NewShared<'_>,
        plain: Option<SharedId>,
    ) -> Result<SharedId, WriteError> {
        if plain.is_some_and(|plain| plain.0 as usize >= self.len()) {
            return Err(WriteError::Shared(Fault::SharedNumber));
        }
        let block = encode_shared(shared, plain)?;
        if let Some(&id) = self.ids.get(&block) {
            return Ok(id);
        }
        shared_blocks::validate(&block).map_err(WriteError::Shared)?;
        if (self.bytes.len() + block.len()) as u64 > SHARED_SECTION_MAX_BYTES {
            return Err(WriteError::TooManyShared);
        }
        let id = SharedId(self.ids.len() as u32);
        self.bytes.extend_from_slice(&block);
        self.ids.insert(block, id);
        Ok(id)
    }
}

fn encode_shared(shared: &NewShared<'_>, plain: Option<SharedId>) -> Result<Vec<u8>, WriteError> {
    let mut full = Vec::new();
    let mut not_modified = Vec::new();
    let content_type = shared.content_type.map(|media_type| ("Content-Type", media_type));
    let type_fits =
        content_type.is_none_or(|(name, value)| field_lines::push(&mut full, name, value));
    let type_line_bytes = full.len();
    let full_fits =
        shared.fields.iter().all(|(name, value)| field_lines::push(&mut full, name, value));
    let not_modified_fits = shared
        .not_modified
        .iter()
        .all(|(name, value)| field_lines::push(&mut not_modified, name, value));
    if !(type_fits && full_fits && not_modified_fits) {
        return Err(WriteError::Shared(Fault::Syntax));
    }
    let used = size_of::<SharedHeader>() + full.len() + not_modified.len();
    let length = used.next_multiple_of(8);
    let header = SharedHeader {
        bytes: (length as u32).into(),
        status: shared.status.into(),
        role: (shared.role as u16).into(),
        type_line_bytes: (type_line_bytes as u32).into(),
        h1_full_bytes: (full.len() as u32).into(),
        h1_not_modified_bytes: (not_modified.len() as u32).into(),
        hpack_full_bytes: 0.into(),
        hpack_not_modified_bytes: 0.into(),
        qpack_full_bytes: 0.into(),
        qpack_not_modified_bytes: 0.into(),
        plain: plain.map_or(0, |plain| plain.0 + 1).into(),
    };
    let mut block = header.as_bytes().to_vec();
    block.extend_from_slice(&full);
    block.extend_from_slice(&not_modified);
    block.resize(length, 0);
    Ok(block)
}
