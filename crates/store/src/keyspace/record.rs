//! The records of a table of keys: one key with its value, its expiry and its access data.
//!
//! A short string and its key share one allocation. Any other value is an object.

use std::sync::Arc;

use super::access_statistics::Access;
use super::allocation_size::allocated_bytes;
use crate::prefetch::{prefetch, prefetch_two};
use crate::resp::number::parse_i64;
use crate::value::StoreValue;

/// Longest string that is stored in one allocation with its key, in bytes. Longer strings are
/// shared with the replies that carry them, which costs one more allocation and saves a copy.
pub(crate) const INLINE_VALUE_MAX_BYTES: usize = 1024;

/// A key with its value, its expiry and its access data.
#[derive(Debug)]
pub(crate) enum KeyRecord {
    /// A short string.
    Inline(InlineRecord),
    /// Any other value.
    Object(Box<Object>),
}

/// A short string with its key: flags (1 byte), access data (3), expiry (6, if there is one),
/// length of the key (1 to 5), key, value.
#[derive(Debug)]
pub(crate) struct InlineRecord(Box<[u8]>);

/// A value that is not stored inline, with its key.
#[derive(Debug)]
pub(crate) struct Object {
    key: Box<[u8]>,
    /// The expiry in milliseconds since 1970; 0 if there is none.
    expiry_ms: u64,
    access: Access,
    pub(crate) value: StoreValue,
}

const HAS_EXPIRY: u8 = 1;
const ACCESS_BYTES: usize = 3;
/// Number of bytes of an expiry. Milliseconds since 1970 fit into 48 bits until the year 10889.
const EXPIRY_BYTES: usize = 6;
/// The latest time at which a key can expire, in milliseconds since 1970.
pub(crate) const EXPIRY_MAX_MS: u64 = (1 << (8 * EXPIRY_BYTES)) - 1;

/// The offsets of the parts of an inline record.
struct InlineLayout {
    key: usize,
    value: usize,
}

impl InlineRecord {
    fn new(key: &[u8], expiry_ms: Option<u64>, access: Access, value: &[u8]) -> Self {
        let expiry_bytes = if expiry_ms.is_some() { EXPIRY_BYTES } else { 0 };
        let mut length = [0; 5];
        let length = write_varint(key.len() as u32, &mut length);
        let head_bytes = 1 + ACCESS_BYTES + expiry_bytes + length.len();
        let mut bytes = Vec::with_capacity(head_bytes + key.len() + value.len());
        bytes.push(if expiry_ms.is_some() { HAS_EXPIRY } else { 0 });
        bytes.extend_from_slice(&access.to_bytes());
        if let Some(expiry_ms) = expiry_ms {
            bytes.extend_from_slice(&expiry_ms.to_le_bytes()[..EXPIRY_BYTES]);
        }
        bytes.extend_from_slice(length);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Self(bytes.into_boxed_slice())
    }

    fn expiry_ms(&self) -> Option<u64> {
        (self.0[0] & HAS_EXPIRY != 0).then(|| {
            let mut bytes = [0; 8];
            bytes[..EXPIRY_BYTES].copy_from_slice(&self.0[1 + ACCESS_BYTES..][..EXPIRY_BYTES]);
            u64::from_le_bytes(bytes)
        })
    }

    fn layout(&self) -> InlineLayout {
        let expiry_bytes = if self.0[0] & HAS_EXPIRY != 0 { EXPIRY_BYTES } else { 0 };
        let at = 1 + ACCESS_BYTES + expiry_bytes;
        let byte = self.0[at];
        if byte < 0x80 {
            return InlineLayout { key: at + 1, value: at + 1 + usize::from(byte) };
        }
        self.long_layout(at)
    }

    /// Returns the layout if the length of the key, which begins at `at`, has several bytes.
    #[cold]
    fn long_layout(&self, mut at: usize) -> InlineLayout {
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = self.0[at];
            at += 1;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return InlineLayout { key: at, value: at + length };
            }
        }
    }

    fn key(&self) -> &[u8] {
        let layout = self.layout();
        &self.0[layout.key..layout.value]
    }

    fn value(&self) -> &[u8] {
        &self.0[self.layout().value..]
    }

    fn value_mut(&mut self) -> &mut [u8] {
        let start = self.layout().value;
        &mut self.0[start..]
    }
}

/// Encodes a number as a varint: groups of seven bits, each but the last one with its highest bit
/// set.
fn write_varint(mut number: u32, out: &mut [u8; 5]) -> &[u8] {
    let mut count = 0;
    loop {
        let is_last = number < 0x80;
        out[count] = number as u8 & 0x7f | if is_last { 0 } else { 0x80 };
        number >>= 7;
        count += 1;
        if is_last {
            return &out[..count];
        }
    }
}

impl KeyRecord {
    /// Creates a record of a string. The bytes are copied if the string is short; otherwise replies
    /// can share them.
    pub(crate) fn string(key: &[u8], expiry_ms: Option<u64>, access: Access, value: &[u8]) -> Self {
        if value.len() <= INLINE_VALUE_MAX_BYTES {
            return Self::Inline(InlineRecord::new(key, expiry_ms, access, value));
        }
        Self::object(key, expiry_ms, access, StoreValue::Bytes(Arc::new(value.to_vec())))
    }

    /// Creates a record of a value of any type.
    pub(crate) fn object(
        key: &[u8],
        expiry_ms: Option<u64>,
        access: Access,
        value: StoreValue,
    ) -> Self {
        let expiry_ms = expiry_ms.unwrap_or(0);
        Self::Object(Box::new(Object { key: key.into(), expiry_ms, access, value }))
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Inline(record) => record.key(),
            Self::Object(object) => &object.key,
        }
    }

    /// Returns the expiry of the key, in milliseconds since 1970.
    pub(crate) fn expiry_ms(&self) -> Option<u64> {
        match self {
            Self::Inline(record) => record.expiry_ms(),
            Self::Object(object) => Some(object.expiry_ms).filter(|&at| at != 0),
        }
    }

    /// Returns a time before which no part of the value expires, or `None` if no part expires at
    /// all.
    pub(crate) fn earliest_part_expiry_ms(&self) -> Option<u64> {
        self.value().and_then(StoreValue::earliest_part_expiry_ms)
    }

    /// Returns the record with another expiry.
    pub(crate) fn with_expiry(self, expiry_ms: Option<u64>) -> Self {
        match self {
            Self::Inline(record) => {
                let access = Access::from_bytes([record.0[1], record.0[2], record.0[3]]);
                Self::Inline(InlineRecord::new(record.key(), expiry_ms, access, record.value()))
            }
            Self::Object(mut object) => {
                object.expiry_ms = expiry_ms.unwrap_or(0);
                Self::Object(object)
            }
        }
    }

    /// Returns the record under another key.
    pub(crate) fn with_key(self, key: &[u8]) -> Self {
        match self {
            Self::Inline(_) => self.copy(key),
            Self::Object(mut object) => {
                object.key = key.into();
                Self::Object(object)
            }
        }
    }

    /// Returns a copy under another key.
    pub(crate) fn copy(&self, key: &[u8]) -> Self {
        let (expiry_ms, access) = (self.expiry_ms(), self.access());
        match self {
            Self::Inline(record) => {
                Self::Inline(InlineRecord::new(key, expiry_ms, access, record.value()))
            }
            Self::Object(object) => Self::object(key, expiry_ms, access, object.value.clone()),
        }
    }

    /// Changes the expiry in place if the record has space for it. Returns whether it was changed.
    pub(crate) fn set_expiry_in_place(&mut self, expiry_ms: u64) -> bool {
        match self {
            Self::Inline(record) if record.0[0] & HAS_EXPIRY == 0 => false,
            Self::Inline(record) => {
                record.0[1 + ACCESS_BYTES..][..EXPIRY_BYTES]
                    .copy_from_slice(&expiry_ms.to_le_bytes()[..EXPIRY_BYTES]);
                true
            }
            Self::Object(object) => {
                object.expiry_ms = expiry_ms;
                true
            }
        }
    }

    pub(crate) fn access(&self) -> Access {
        match self {
            Self::Inline(record) => Access::from_bytes([record.0[1], record.0[2], record.0[3]]),
            Self::Object(object) => object.access,
        }
    }

    pub(crate) fn set_access(&mut self, access: Access) {
        match self {
            Self::Inline(record) => {
                record.0[1..=ACCESS_BYTES].copy_from_slice(&access.to_bytes());
            }
            Self::Object(object) => object.access = access,
        }
    }

    /// Returns the bytes of a string; `None` for a value of another type.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(record) => Some(record.value()),
            Self::Object(object) => match &object.value {
                StoreValue::Bytes(bytes) => Some(bytes),
                _ => None,
            },
        }
    }

    /// Returns the bytes of a short string if it has exactly `length` of them.
    pub(crate) fn inline_bytes_mut(&mut self, length: usize) -> Option<&mut [u8]> {
        match self {
            Self::Inline(record) => Some(record.value_mut()).filter(|bytes| bytes.len() == length),
            Self::Object(_) => None,
        }
    }

    /// Returns the value if it is not a short string.
    pub(crate) fn value(&self) -> Option<&StoreValue> {
        match self {
            Self::Inline(_) => None,
            Self::Object(object) => Some(&object.value),
        }
    }

    pub(crate) fn value_mut(&mut self) -> Option<&mut StoreValue> {
        match self {
            Self::Inline(_) => None,
            Self::Object(object) => Some(&mut object.value),
        }
    }

    /// Prefetches the record into the cache. Returns whether the record has parts that are to be
    /// prefetched next.
    #[inline]
    pub(crate) fn prefetch(&self) -> bool {
        match self {
            Self::Inline(record) => prefetch(&record.0),
            Self::Object(object) => prefetch_two(&**object),
        }
        matches!(self, Self::Object(_))
    }

    /// Prefetches the parts of an object into the cache. The object itself must be in the cache
    /// already.
    #[inline]
    pub(crate) fn prefetch_parts(&self) {
        if let Self::Object(object) = self {
            prefetch(&object.key);
            object.value.prefetch();
        }
    }

    /// Returns the name of the type of the value for `TYPE`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Inline(_) => "string",
            Self::Object(object) => object.value.type_name(),
        }
    }

    /// Returns the name of the form in which the value is stored, for `OBJECT ENCODING`.
    pub(crate) fn encoding(&self) -> &'static str {
        const EMBEDDED_MAX_BYTES: usize = 44;
        match (self.bytes(), self.value()) {
            (Some(bytes), _) if parse_i64(bytes).is_some() => "int",
            (Some(bytes), _) if bytes.len() <= EMBEDDED_MAX_BYTES => "embstr",
            (_, Some(value)) => value.encoding(),
            _ => "raw",
        }
    }

    /// Returns the bytes of memory that the record has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Inline(record) => allocated_bytes(record.0.len()),
            Self::Object(object) => {
                allocated_bytes(size_of::<Object>())
                    + allocated_bytes(object.key.len())
                    + object.value.memory_bytes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_record_has_16_bytes() {
        assert_eq!(size_of::<KeyRecord>(), 16);
    }

    proptest! {
        #[test]
        fn records_round_trip_key_value_and_expiry(
            key in prop::collection::vec(any::<u8>(), 0..300),
            value in prop::collection::vec(any::<u8>(), 0..1500),
            expiry_ms in prop::option::of(1..=EXPIRY_MAX_MS),
            later_ms in prop::option::of(1..=EXPIRY_MAX_MS),
            access in any::<[u8; 3]>(),
        ) {
            let access = Access::from_bytes(access);
            let mut record = KeyRecord::string(&key, expiry_ms, access, &value);
            let check = |record: &KeyRecord, expiry_ms| {
                assert_eq!(record.key(), key);
                assert_eq!(record.bytes(), Some(&value[..]));
                assert_eq!(record.expiry_ms(), expiry_ms);
                assert_eq!(record.access(), access);
            };
            check(&record, expiry_ms);
            if let Some(later_ms) = later_ms && record.set_expiry_in_place(later_ms) {
                check(&record, Some(later_ms));
            }
            let record = record.with_expiry(later_ms);
            check(&record, later_ms);
        }
    }
}
