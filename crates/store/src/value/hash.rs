//! Hashes: fields with values. A field may have an expiry. After that time no command sees the
//! field, and it is removed by a later change of the hash or by the cycle that searches for expired
//! fields.

mod compact;
mod expiry_index;
mod table_form;

use compact::CompactFields;
use table_form::{FieldEntry, TableFields};

use super::hash_field_encoding::EncodedField;
use super::{Collection, StoreValue};
use crate::command::random_choice::RandomElements;
use crate::keyspace::allocation_size::allocated_bytes;
use crate::keyspace::database::Effects;
use crate::keyspace::segment_table::POSITION_BITS;
use crate::prefetch::prefetch_two;

/// Most fields of a small hash (`hash-max-listpack-entries`).
const COMPACT_FIELDS_MAX: usize = 128;

/// Longest name or value in a small hash, in bytes (`hash-max-listpack-value`).
const COMPACT_TEXT_MAX_BYTES: usize = 64;

/// A hash in one of its forms.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    Compact(CompactHash),
    Table(TableHash),
}

/// A small hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactHash(CompactFields);

/// A large hash.
#[derive(Clone, Debug)]
pub(crate) struct TableHash(Box<TableFields>);

use Hash::{Compact, Table};

impl Default for Hash {
    fn default() -> Self {
        Compact(CompactHash::default())
    }
}

impl Hash {
    /// Prefetches the data of the hash into the cache of the processor.
    pub(crate) fn prefetch(&self) {
        match self {
            Compact(CompactHash(fields)) => fields.prefetch(),
            Table(TableHash(fields)) => prefetch_two(&**fields),
        }
    }

    /// Returns the number of fields that have not expired.
    pub(crate) fn len(&self, effects: &Effects) -> usize {
        let is_due = self.earliest_expiry_ms().is_some_and(|at| at <= effects.now_ms);
        match self {
            Compact(CompactHash(fields)) if is_due => {
                fields.iter().filter(|field| !field.has_expired(effects.now_ms)).count()
            }
            Compact(CompactHash(fields)) => fields.len(),
            Table(TableHash(fields)) if is_due => {
                fields.len() - fields.expired_count(effects.now_ms)
            }
            Table(TableHash(fields)) => fields.len(),
        }
    }

    /// Returns whether all fields have expired.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        if self.earliest_expiry_ms().is_none_or(|at| at > now_ms) {
            return false;
        }
        match self {
            Compact(CompactHash(fields)) => fields.iter().all(|field| field.has_expired(now_ms)),
            Table(TableHash(fields)) => fields.all_have_expired(now_ms),
        }
    }

    pub(crate) fn get(&self, name: &[u8], effects: &Effects) -> Option<EncodedField<'_>> {
        let field = match self {
            Compact(CompactHash(fields)) => fields.get(name),
            Table(TableHash(fields)) => fields.get(name),
        };
        field.filter(|field| !field.has_expired(effects.now_ms))
    }

    /// Returns all fields.
    pub(crate) fn fields(&self, now_ms: u64) -> impl Iterator<Item = EncodedField<'_>> {
        let (compact, full) = match self {
            Compact(CompactHash(fields)) => (Some(fields.iter()), None),
            Table(TableHash(fields)) => (None, Some(fields.table().iter())),
        };
        let full = full.into_iter().flatten().map(|entry| entry.field());
        let fields = compact.into_iter().flatten().chain(full);
        fields.filter(move |field| !field.has_expired(now_ms))
    }

    /// Adds a field, or replaces the one of the same name. Returns whether the field is new.
    pub(crate) fn put(&mut self, field: EncodedField<'_>, effects: &Effects) -> bool {
        if let Compact(CompactHash(fields)) = self {
            let is_short = field.name.len().max(field.value.len()) <= COMPACT_TEXT_MAX_BYTES;
            let has_space =
                || fields.len() < COMPACT_FIELDS_MAX || fields.get(field.name).is_some();
            if !is_short || !has_space() {
                self.make_table(effects);
            }
        }
        let old = match self {
            Compact(CompactHash(fields)) => fields.put(field),
            Table(TableHash(fields)) => fields.put(field),
        };
        !existed(old, effects.now_ms)
    }

    fn make_table(&mut self, effects: &Effects) {
        let mut full = TableFields::new(effects.hasher);
        for field in self.fields(effects.now_ms) {
            full.put(field);
        }
        *self = Table(TableHash(Box::new(full)));
    }

    /// Removes a field. Returns whether it existed.
    pub(crate) fn remove(&mut self, name: &[u8], effects: &Effects) -> bool {
        let old = match self {
            Compact(CompactHash(fields)) => fields.remove(name),
            Table(TableHash(fields)) => fields.remove(name),
        };
        existed(old, effects.now_ms)
    }

    /// Returns a time before which no field expires, or `None` if no field expires at all.
    pub(crate) fn earliest_expiry_ms(&self) -> Option<u64> {
        match self {
            Compact(CompactHash(fields)) => fields.earliest_expiry_ms(),
            Table(TableHash(fields)) => fields.earliest_expiry_ms(),
        }
    }

    /// Removes fields that have expired, at most about `count` from a large hash. Returns their
    /// number.
    pub(crate) fn remove_expired(&mut self, count: usize, effects: &Effects) -> usize {
        if self.earliest_expiry_ms().is_none_or(|at| at > effects.now_ms) {
            return 0;
        }
        match self {
            Compact(CompactHash(fields)) => fields.remove_expired(effects.now_ms),
            Table(TableHash(fields)) => fields.remove_expired(effects.now_ms, count),
        }
    }

    /// Calls `visit` for about `count` fields from a position on, or for all fields of a small
    /// hash. Returns the next position, or `None` at the end.
    pub(crate) fn visit_from<'h>(
        &'h self,
        start: u64,
        count: usize,
        effects: &Effects,
        mut visit: impl FnMut(EncodedField<'h>),
    ) -> Option<u64> {
        let mut visit = |field: EncodedField<'h>| {
            if !field.has_expired(effects.now_ms) {
                visit(field);
            }
        };
        match self {
            Compact(CompactHash(fields)) => {
                fields.iter().for_each(visit);
                None
            }
            Table(_) if start >> POSITION_BITS != 0 => None,
            Table(TableHash(fields)) => {
                let visit = |entry: &'h FieldEntry| visit(entry.field());
                fields.table().visit_from(start, count, fields.entry_hasher(), visit)
            }
        }
    }

    /// Returns the bytes of memory that the hash has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Compact(CompactHash(fields)) => fields.memory_bytes(),
            Table(TableHash(fields)) => {
                allocated_bytes(size_of::<TableFields>()) + fields.memory_bytes()
            }
        }
    }

    /// Returns the approximate number of allocations of the hash.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Compact(_) => 1,
            Table(TableHash(fields)) => fields.len(),
        }
    }

    /// Returns the number of fields, including those that have expired.
    pub(crate) fn work(&self) -> usize {
        match self {
            Compact(CompactHash(fields)) => fields.len(),
            Table(TableHash(fields)) => fields.len(),
        }
    }

    /// Returns the name of the form for `OBJECT ENCODING`.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Compact(_) => "listpack",
            Table(_) => "hashtable",
        }
    }
}

/// Returns whether a field existed and had not expired.
fn existed(expiry_ms: Option<Option<u64>>, now_ms: u64) -> bool {
    expiry_ms.is_some_and(|expiry_ms| expiry_ms.is_none_or(|at| at > now_ms))
}

impl RandomElements for Hash {
    type Element<'e> = EncodedField<'e>;

    fn len(&self, effects: &Effects) -> usize {
        Self::len(self, effects)
    }

    fn all(&self, effects: &Effects) -> Vec<EncodedField<'_>> {
        self.fields(effects.now_ms).collect()
    }

    fn random(&self, effects: &mut Effects) -> Option<EncodedField<'_>> {
        let Table(TableHash(fields)) = self else { return None };
        let entry = fields.table().random(|| effects.random())?;
        Some(entry.field()).filter(|field| !field.has_expired(effects.now_ms))
    }

    fn identity(field: EncodedField<'_>) -> u64 {
        field.name.as_ptr().addr() as u64
    }
}

impl Collection for Hash {
    fn of(value: &StoreValue) -> Option<&Self> {
        match value {
            StoreValue::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn of_mut(value: &mut StoreValue) -> Option<&mut Self> {
        match value {
            StoreValue::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn into_value(self) -> StoreValue {
        StoreValue::Hash(self)
    }

    fn is_empty(&self) -> bool {
        match self {
            Compact(CompactHash(fields)) => fields.len() == 0,
            Table(TableHash(fields)) => fields.len() == 0,
        }
    }
}
