//! The types of values.
//!
//! | Module | Contents |
//! |---|---|
//! | `hash`, `hash_field_encoding` | hashes, whose fields can expire; the encoding of a field |
//! | `list`, `set` | lists and sets of strings |
//! | `sorted_set` | members with scores, in the order of the scores |

pub(crate) mod hash;
mod hash_field_encoding;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_set;

use std::sync::Arc;

use hash::Hash;
pub(crate) use hash_field_encoding::EncodedField;
use list::ListValue;
use set::Set;
use sorted_set::SortedSet;

use crate::keyspace::allocation_size::allocated_bytes;
use crate::limits::WORK_UNIT_BYTES;
use crate::prefetch::prefetch_one;

/// A value that is not a short string.
#[derive(Clone, Debug)]
pub(crate) enum StoreValue {
    /// A long string. Replies share it instead of copying it.
    Bytes(Arc<Vec<u8>>),
    Hash(Hash),
    Set(Set),
    List(ListValue),
    SortedSet(SortedSet),
}

/// A type of value that has elements. A key is removed when its collection becomes empty.
pub(crate) trait Collection: Default {
    /// Returns the collection, unless the value has another type.
    fn of(value: &StoreValue) -> Option<&Self>;
    /// Returns the collection for changes, unless the value has another type.
    fn of_mut(value: &mut StoreValue) -> Option<&mut Self>;
    fn into_value(self) -> StoreValue;
    fn is_empty(&self) -> bool;
}

impl StoreValue {
    /// Returns the bytes of memory that the value has allocated. Takes constant time.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => {
                const COUNTS_BYTES: usize = 16;
                allocated_bytes(size_of::<Vec<u8>>() + COUNTS_BYTES)
                    + allocated_bytes(bytes.capacity())
            }
            Self::Hash(hash) => hash.memory_bytes(),
            Self::Set(set) => set.memory_bytes(),
            Self::List(list) => list.memory_bytes(),
            Self::SortedSet(set) => set.memory_bytes(),
        }
    }

    /// Prefetches the data of the value into the cache of the processor.
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Bytes(bytes) => prefetch_one(&**bytes),
            Self::Hash(hash) => hash.prefetch(),
            Self::Set(set) => set.prefetch(),
            Self::List(list) => list.prefetch(),
            Self::SortedSet(set) => set.prefetch(),
        }
    }

    /// Returns the approximate number of allocations of the value, a measure of the cost of freeing
    /// it. A long string counts for more, since its pages are returned to the system.
    pub(crate) fn parts(&self) -> usize {
        const PART_BYTES: usize = 16 * 1024;
        match self {
            Self::Bytes(bytes) => 1 + bytes.capacity() / PART_BYTES,
            Self::Hash(hash) => hash.parts(),
            Self::Set(set) => set.parts(),
            Self::List(list) => list.parts(),
            Self::SortedSet(set) => set.parts(),
        }
    }

    /// Returns the work of an iteration over the whole value, in elements (see
    /// [`WORK_MAX`](crate::limits::WORK_MAX)).
    pub(crate) fn work(&self) -> usize {
        let (elements, memory_bytes) = self.size();
        elements.max(memory_bytes / WORK_UNIT_BYTES)
    }

    /// Returns the number of elements of the value, and the bytes of memory that they occupy.
    pub(crate) fn size(&self) -> (usize, usize) {
        let elements = match self {
            Self::Bytes(_) => 0,
            Self::Hash(hash) => hash.work(),
            Self::Set(set) => set.len(),
            Self::List(list) => list.len(),
            Self::SortedSet(set) => set.len(),
        };
        (elements, self.memory_bytes())
    }

    /// Returns the name of the form of a collection for `OBJECT ENCODING`.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "raw",
            Self::Hash(hash) => hash.encoding(),
            Self::Set(set) => set.encoding(),
            Self::List(list) => list.encoding(),
            Self::SortedSet(set) => set.encoding(),
        }
    }

    /// Returns the name of the type for `TYPE`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "string",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }

    /// Returns a time before which no part of the value expires, or `None` if no part expires at
    /// all.
    pub(crate) fn earliest_part_expiry_ms(&self) -> Option<u64> {
        match self {
            Self::Hash(hash) => hash.earliest_expiry_ms(),
            _ => None,
        }
    }

    /// Returns whether the value has ceased to exist because all its parts have expired.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        match self {
            Self::Hash(hash) => hash.has_expired(now_ms),
            _ => false,
        }
    }
}
