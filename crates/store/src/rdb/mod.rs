//! The RDB format of Redis, in which `DUMP` writes values and `RESTORE` reads them.
//!
//! A payload is a byte for the type, the value, the version of the format (2 bytes) and a checksum
//! over all of that (8 bytes), both with the lowest byte first.
//!
//! | Module | Contents |
//! |---|---|
//! | `load`, `save` | the readers of values in payloads; the writer of payloads |
//! | `payload_reader` | the reader for the pieces of a payload |
//! | `listpack`, `packed_element` | packed collections of Redis 7, and their elements |
//! | `legacy_encodings` | packed collections that only older versions of Redis write |
//! | `lzf`, `crc64` | decompression of LZF; the checksum of payloads |

mod crc64;
mod legacy_encodings;
mod listpack;
mod load;
mod lzf;
mod packed_element;
mod payload_reader;
mod save;

use crc64::crc64;
pub(crate) use load::{LoadedValue, load};
pub(crate) use save::save;

use crate::limits::{RDB_VERSION, RDB_VERSION_FIELD_EXPIRY};

/// Number of bytes of the version and the checksum.
const FOOTER_BYTES: usize = 10;

/// The types of values, which are the first byte of a payload.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    /// Scores are text.
    pub(super) const SORTED_SET_TEXT: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const SORTED_SET: u8 = 5;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTEGERS: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_ZIPLISTS: u8 = 14;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(super) const LIST_LISTPACKS: u8 = 18;
    pub(super) const SET_LISTPACK: u8 = 20;
    /// A hash with fields that expire, since Redis 7.4.
    pub(super) const HASH_FIELD_EXPIRY: u8 = 24;
    /// A listpack of names, values and times, since Redis 7.4.
    pub(super) const HASH_LISTPACK_FIELD_EXPIRY: u8 = 25;
}

/// Appends the version and the checksum to a type and a value.
fn seal(mut payload: Vec<u8>) -> Vec<u8> {
    let is_new = payload.first() == Some(&kind::HASH_FIELD_EXPIRY);
    let version = if is_new { RDB_VERSION_FIELD_EXPIRY } else { RDB_VERSION };
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Returns the type and the value of a payload; `None` if the version or the checksum is wrong.
pub(crate) fn open(payload: &[u8]) -> Option<&[u8]> {
    let (value, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER_BYTES)?)?;
    let (version, checksum) = footer.split_at_checked(size_of::<u16>())?;
    let version = u16::from_le_bytes(version.try_into().ok()?);
    let checksum = u64::from_le_bytes(checksum.try_into().ok()?);
    let checked = &payload[..payload.len() - size_of::<u64>()];
    (version <= RDB_VERSION_FIELD_EXPIRY && crc64(checked) == checksum).then_some(value)
}
