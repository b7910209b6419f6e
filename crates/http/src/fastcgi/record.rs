//! Encodes and decodes the headers of records (§3.3), and the contents of records.

use super::error::FastCgiError;

/// The version of the protocol, in each record (§8: `FCGI_VERSION_1`).
pub(super) const VERSION: u8 = 1;

/// The number of each request. Connections are not multiplexed: an application need not be able to
/// (§4.1: `FCGI_MPXS_CONNS`), and php-fpm is not.
pub(super) const REQUEST_ID: u16 = 1;

/// Bytes of the header of a record.
pub(super) const HEADER_BYTES: usize = 8;

/// Types of records that a server sends (§8).
pub(super) const BEGIN_REQUEST: u8 = 1;
pub(super) const ABORT_REQUEST: u8 = 2;
pub(super) const PARAMS: u8 = 4;
pub(super) const STDIN: u8 = 5;

/// Makes the header of a record. `content` is at most
/// [`RECORD_CONTENT_MAX_BYTES`](super::limits::RECORD_CONTENT_MAX_BYTES).
pub(super) const fn header(kind: u8, content: u16, padding: u8) -> [u8; HEADER_BYTES] {
    let [id_1, id_0] = REQUEST_ID.to_be_bytes();
    let [content_1, content_0] = content.to_be_bytes();
    [VERSION, kind, id_1, id_0, content_1, content_0, padding, 0]
}

/// Returns how many bytes of padding bring so many bytes to a multiple of 8 (§3.3).
pub(super) const fn padding(bytes: usize) -> u8 {
    (bytes.wrapping_neg() % 8) as u8
}

/// The kind of a record that an application sends (§8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// Output: the response (§5.3).
    Stdout,
    /// Messages for the log (§5.3).
    Stderr,
    /// The end of the request (§5.5).
    EndRequest,
    /// `FCGI_GET_VALUES_RESULT` and `FCGI_UNKNOWN_TYPE` (§4.1, §4.2).
    Management,
}

/// The header of a record that an application sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    pub(super) kind: RecordKind,
    pub(super) content_bytes: u16,
    pub(super) padding_bytes: u8,
}

impl RecordHeader {
    /// Parses a header. The last byte is reserved, and has no meaning.
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<RecordHeader, FastCgiError> {
        let [version, kind, id_1, id_0, content_1, content_0, padding_bytes, _] = *bytes;
        if version != VERSION {
            return Err(FastCgiError::Version { version });
        }
        let id = u16::from_be_bytes([id_1, id_0]);
        let (kind, wanted_id) = match kind {
            3 => (RecordKind::EndRequest, REQUEST_ID),
            6 => (RecordKind::Stdout, REQUEST_ID),
            7 => (RecordKind::Stderr, REQUEST_ID),
            10 | 11 => (RecordKind::Management, 0),
            kind => return Err(FastCgiError::RecordType { kind }),
        };
        if id != wanted_id {
            return Err(FastCgiError::RequestId { id });
        }
        let content_bytes = u16::from_be_bytes([content_1, content_0]);
        Ok(RecordHeader { kind, content_bytes, padding_bytes })
    }
}
