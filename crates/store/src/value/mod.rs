//! The types of values.

mod field_encoding;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_set;

use std::sync::Arc;

pub(crate) use field_encoding::EncodedField;
use hash::Hash;
use list::ListValue;
use set::Set;
use sorted_set::SortedSet;

use crate::keyspace::allocation::allocated_bytes;
use crate::limits::WORK_UNIT_BYTES;
use crate::prefetch::prefetch_one;

/// A value that is no short string.
#[derive(Clone, Debug)]
pub(crate) enum StoreValue {
    /// A long string. Replies that carry it share it.
    Bytes(Arc<Vec<u8>>),
    Hash(Hash),
    Set(Set),
    List(ListValue),
    SortedSet(SortedSet),
}

/// A type of value that has elements. A key whose value has none left does not exist.
pub(crate) trait Collection: Default {
    /// Returns the collection, unless the value has another type.
    fn of(value: &StoreValue) -> Option<&Self>;
    /// Returns the collection to be changed, unless the value has another type.
    fn of_mut(value: &mut StoreValue) -> Option<&mut Self>;
    fn into_value(self) -> StoreValue;
    fn is_empty(&self) -> bool;
}

impl StoreValue {
    /// Returns how many bytes of memory it occupies, without itself. Takes the same time for any
    /// number of elements.
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

    /// Begins to fetch what it points to into the cache.
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Bytes(bytes) => prefetch_one(&**bytes),
            Self::Hash(hash) => hash.prefetch(),
            Self::Set(set) => set.prefetch(),
            Self::List(list) => list.prefetch(),
            Self::SortedSet(set) => set.prefetch(),
        }
    }

    /// Returns how many allocations it has, about: what it takes to free it. A long string counts
    /// for more, since its pages are given back.
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

    /// Returns what it takes to go through all of it, in elements (see
    /// [`WORK_MAX`](crate::limits::WORK_MAX)).
    pub(crate) fn work(&self) -> usize {
        let (elements, memory_bytes) = self.size();
        elements.max(memory_bytes / WORK_UNIT_BYTES)
    }

    /// Returns how many elements it has, and how many bytes of memory they occupy.
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

    /// Returns the name of the form of a collection, as `OBJECT ENCODING` has it.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "raw",
            Self::Hash(hash) => hash.encoding(),
            Self::Set(set) => set.encoding(),
            Self::List(list) => list.encoding(),
            Self::SortedSet(set) => set.encoding(),
        }
    }

    /// Returns the name of the type that `TYPE` has.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "string",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }

    /// Returns a time before which no part of the value expires, if one does.
    pub(crate) fn earliest_part_expiry_ms(&self) -> Option<u64> {
        match self {
            Self::Hash(hash) => hash.earliest_expiry_ms(),
            _ => None,
        }
    }

    /// Returns whether the value does not exist any more because all its parts have expired.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        match self {
            Self::Hash(hash) => hash.has_expired(now_ms),
            _ => false,
        }
    }
}
