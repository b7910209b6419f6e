//! The table form of a hash, which large hashes have.

use super::PreviousField;
use super::expiry_index::{ExpiryIndex, LeafBound};
use crate::keyspace::allocation_size::allocated_bytes;
use crate::keyspace::key::KeyHasher;
use crate::keyspace::segment_table::SegmentTable;
use crate::value::hash_field_encoding::{EncodedField, decode_head};

/// The fields of a large hash: a table of fields, and an index of their expiry.
#[derive(Clone, Debug)]
pub(super) struct TableFields {
    hasher: KeyHasher,
    table: SegmentTable<FieldEntry>,
    expiries: ExpiryIndex,
    /// The bytes of memory that all entries occupy, without the table.
    entry_bytes: usize,
}

/// One encoded field: its head (name and expiry), then its value.
#[derive(Clone, Debug)]
pub(super) struct FieldEntry(Box<[u8]>);

impl FieldEntry {
    fn new(field: EncodedField<'_>) -> Self {
        let mut bytes = Vec::with_capacity(field.head_bytes() + field.value.len());
        field.encode_head(&mut bytes);
        bytes.extend_from_slice(field.value);
        Self(bytes.into_boxed_slice())
    }

    pub(super) fn field(&self) -> EncodedField<'_> {
        let (name, expiry_ms, head_bytes) = decode_head(&self.0);
        EncodedField { name, value: &self.0[head_bytes..], expiry_ms }
    }

    fn name(&self) -> &[u8] {
        decode_head(&self.0).0
    }

    /// Replaces the value in place if the expiry is the same and the value has the same length.
    /// Returns whether that was possible.
    fn replace_in_place(&mut self, field: EncodedField<'_>) -> bool {
        let (_, expiry_ms, head_bytes) = decode_head(&self.0);
        let value = &mut self.0[head_bytes..];
        let fits = expiry_ms == field.expiry_ms && value.len() == field.value.len();
        if fits {
            value.copy_from_slice(field.value);
        }
        fits
    }

    fn memory_bytes(&self) -> usize {
        allocated_bytes(self.0.len())
    }
}

/// Returns a function that looks up the expiry of a field by its hash. Of several fields with this
/// hash, it finds one that expires.
fn expiry_of(table: &SegmentTable<FieldEntry>, hasher: KeyHasher) -> impl Fn(u64) -> Option<u64> {
    move |hash| {
        let expires_and_has_hash = |entry: &FieldEntry| {
            let field = entry.field();
            field.expiry_ms.is_some() && hasher.hash(field.name) == hash
        };
        table.find(hash, expires_and_has_hash)?.field().expiry_ms
    }
}

impl TableFields {
    pub(super) fn new(hasher: KeyHasher) -> Self {
        let (table, expiries) = (SegmentTable::default(), ExpiryIndex::default());
        Self { hasher, table, expiries, entry_bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn table(&self) -> &SegmentTable<FieldEntry> {
        &self.table
    }

    /// Returns the function that computes the hash of an entry.
    pub(super) fn entry_hasher(&self) -> impl Fn(&FieldEntry) -> u64 + use<> {
        let hasher = self.hasher;
        move |entry| hasher.hash(entry.name())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.allocated_bytes() + self.entry_bytes + self.expiries.memory_bytes()
    }

    pub(super) fn earliest_expiry_ms(&self) -> Option<u64> {
        self.expiries.earliest_ms()
    }

    /// Returns the number of fields that have expired but were not removed yet.
    pub(super) fn expired_count(&self, now_ms: u64) -> usize {
        self.expiries.expired_count(now_ms, expiry_of(&self.table, self.hasher))
    }

    /// Returns whether all fields have expired.
    pub(super) fn have_all_expired(&self, now_ms: u64) -> bool {
        // Cheap checks come first: no field of the last leaf of the index expires before the bound
        // of the leaf, and fields that are not in the index never expire.
        let is_due = self.expiries.latest_bound_ms().is_some_and(|at| at <= now_ms);
        is_due && self.expiries.len() >= self.len() && self.expired_count(now_ms) >= self.len()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<EncodedField<'_>> {
        let entry = self.table.find(self.hasher.hash(name), |entry| entry.name() == name)?;
        Some(entry.field())
    }

    /// Adds a field, or replaces the one of the same name. Returns the replaced field, if there was
    /// one.
    pub(super) fn put(&mut self, field: EncodedField<'_>) -> Option<PreviousField> {
        let hash = self.hasher.hash(field.name);
        let location = self.table.locate(hash, |entry| entry.name() == field.name);
        let mut replaced = None;
        if let Some(entry) = location.and_then(|location| self.table.at_mut(location)) {
            replaced = Some(PreviousField { expiry_ms: entry.field().expiry_ms });
            if entry.replace_in_place(field) {
                return replaced;
            }
            self.entry_bytes -= entry.memory_bytes();
            *entry = FieldEntry::new(field);
            self.entry_bytes += entry.memory_bytes();
        } else {
            let entry = FieldEntry::new(field);
            self.entry_bytes += entry.memory_bytes();
            let entry_hasher = self.entry_hasher();
            self.table.insert(hash, entry, entry_hasher);
        }
        let old_expiry_ms = replaced.and_then(|field| field.expiry_ms);
        if old_expiry_ms != field.expiry_ms {
            if let Some(expiry_ms) = old_expiry_ms {
                self.expiries.remove(expiry_ms, hash);
            }
            if let Some(expiry_ms) = field.expiry_ms {
                self.expiries.insert(expiry_ms, hash, expiry_of(&self.table, self.hasher));
            }
        }
        replaced
    }

    /// Removes a field. Returns the removed field, or `None` if it did not exist.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<PreviousField> {
        let hash = self.hasher.hash(name);
        let has_name = |entry: &FieldEntry| entry.name() == name;
        let entry_hasher = self.entry_hasher();
        let entry = self.table.remove(hash, has_name, entry_hasher)?;
        self.entry_bytes -= entry.memory_bytes();
        let expiry_ms = entry.field().expiry_ms;
        if let Some(expiry_ms) = expiry_ms {
            self.expiries.remove(expiry_ms, hash);
        }
        Some(PreviousField { expiry_ms })
    }

    /// Examines at most `count` fields of leaves that are due, and removes the expired ones.
    /// Returns the number of removed fields.
    pub(super) fn remove_expired(&mut self, now_ms: u64, count: usize) -> usize {
        let (mut examined, mut removed) = (0, 0);
        while examined < count
            && let Some(mut leaf) = self.expiries.take_due_leaf(now_ms)
        {
            // The hashes of fields of the leaf that have not expired.
            let mut kept = Vec::new();
            let mut bound = LeafBound::MAX;
            while examined < count
                && let Some(hash) = leaf.pop()
            {
                examined += 1;
                let Some(expiry_ms) = expiry_of(&self.table, self.hasher)(hash) else { continue };
                if expiry_ms <= now_ms {
                    removed += usize::from(self.remove_expired_field(hash, now_ms));
                } else {
                    kept.push(hash);
                    bound = bound.min(LeafBound { expiry_ms, hash });
                }
            }
            if !leaf.is_empty() {
                // The rest of the leaf was not examined and may have expired long ago, so its bound
                // must be the lowest.
                bound = LeafBound::MIN;
                leaf.append(&mut kept);
                kept = leaf;
            }
            if !kept.is_empty() {
                self.expiries.put_back(bound, kept);
            }
        }
        removed
    }

    /// Removes an expired field with this hash from the table. The caller has already taken it out
    /// of the index. Returns whether there was such a field.
    fn remove_expired_field(&mut self, hash: u64, now_ms: u64) -> bool {
        let hasher = self.hasher;
        let has_expired = |entry: &FieldEntry| {
            let field = entry.field();
            field.has_expired(now_ms) && hasher.hash(field.name) == hash
        };
        let entry_hasher = self.entry_hasher();
        let removed = self.table.remove(hash, has_expired, entry_hasher);
        self.entry_bytes -= removed.as_ref().map_or(0, FieldEntry::memory_bytes);
        removed.is_some()
    }
}

#[cfg(test)]
mod tests;
