//! The content of a response that is an open file.

use super::limits::{LIVE_COPY_MAX_BYTES, LIVE_RETRY_SECONDS};
use super::{FileStamp, OpenLiveFile, OpenLiveFiles};
use pinion_engine::exchange::Exchange;
use pinion_http::field::KnownField;
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody};
use pinion_http::request_head::RequestHead;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Bytes of the text that separates several ranges.
const BOUNDARY_BYTES: usize = 32;

/// How often a small file is opened that changes while it is read: most are written in one step.
const READ_ATTEMPTS_MAX: usize = 3;

/// The source of the content of a response.
pub(crate) enum FileContent {
    /// The whole content of a small file.
    Held(Vec<u8>),
    /// An open file.
    Open(Arc<File>),
}

impl FileContent {
    /// Returns the source of the content of a response; `None` for an empty file. A small file is
    /// opened `again` if it has changed while it was read. A large one counts as open in `open`.
    ///
    /// # Errors
    /// The status of the response if too many files are open, or the file is never the same.
    pub(crate) fn of(
        file: &mut OpenLiveFile,
        (open, again): (&OpenLiveFiles, impl Fn(&OpenLiveFile) -> Option<OpenLiveFile>),
        exchange: &mut Exchange<'_>,
    ) -> Result<Option<Self>, u16> {
        if file.stamp.bytes == 0 {
            return Ok(None);
        }
        for _ in 0..READ_ATTEMPTS_MAX {
            if file.stamp.bytes > LIVE_COPY_MAX_BYTES {
                if !open.admit(&file.file) {
                    let retry = format!("Retry-After: {LIVE_RETRY_SECONDS}\r\n");
                    exchange.add_fields(retry.as_bytes());
                    return Err(503);
                }
                return Ok(Some(Self::Open(Arc::clone(&file.file))));
            }
            let FileStamp { bytes, .. } = file.stamp;
            let mut held = vec![0; bytes as usize];
            let is_read = file.file.read_exact_at(&mut held, 0).is_ok();
            if is_read && file.is_unchanged() {
                return Ok(Some(Self::Held(held)));
            }
            let again = again(file).ok_or(404_u16)?;
            let location = file.location.take();
            *file = OpenLiveFile { location, ..again };
        }
        Err(500)
    }

    /// Sends a response whose ranges are of this content.
    pub(crate) fn send(
        content: Option<&Self>,
        response: &Prepared<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        match content {
            None => exchange.prepared(response, None),
            Some(Self::Open(file)) => exchange.prepared_file(response, file),
            Some(Self::Held(held)) => {
                let body = held_body(response.body, held);
                let body = PreparedBody::Bytes(&body);
                exchange.prepared(&Prepared { body, ..*response }, None);
            }
        }
    }
}

/// Returns the text that separates several ranges, if the request asks for some. It is random, so
/// that the author of the content cannot have put it there.
pub(crate) fn range_boundary(head: &RequestHead<'_>) -> String {
    let mut random = [0; BOUNDARY_BYTES / 2];
    let is_asked = head.value(KnownField::Range).is_some_and(|value| value.contains(&b','));
    if !is_asked || getrandom::fill(&mut random).is_err() {
        return String::new();
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a body whose ranges are of this content.
fn held_body(body: PreparedBody<'_>, held: &[u8]) -> Vec<u8> {
    let pieces = match body {
        PreparedBody::None => return Vec::new(),
        PreparedBody::Bytes(bytes) => return bytes.to_vec(),
        PreparedBody::Archive(pieces) => pieces,
    };
    let bytes = pieces.iter().map(|piece| match *piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Archive(_) => &[],
        Piece::External(range) => {
            let start = range.offset as usize;
            held.get(start..start + range.bytes as usize).unwrap_or_default()
        }
    });
    bytes.collect::<Vec<_>>().concat()
}
