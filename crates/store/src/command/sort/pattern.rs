//! Patterns of `BY` and `GET`, which derive a key from an element.

use std::borrow::Cow;

use memchr::memmem;

use crate::keyspace::key::Key;
use crate::keyspace::record::KeyRecord;
use crate::keyspace::shard_locks::Locks;
use crate::value::Collection;
use crate::value::hash::Hash;

/// A pattern. `#` is the element itself. In any other pattern, the first `*` stands for the
/// element; `->` and a name after that select a field of a hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern<'a>(pub(super) &'a [u8]);

impl<'a> Pattern<'a> {
    /// Returns whether the pattern refers to a key.
    pub(super) fn has_key(self) -> bool {
        self.0.contains(&b'*')
    }

    fn parts(self) -> Option<PatternParts<'a>> {
        let star = self.0.iter().position(|&byte| byte == b'*')?;
        let (before, behind) = (&self.0[..star], &self.0[star + 1..]);
        let arrow = memmem::find(behind, b"->").filter(|arrow| arrow + 2 < behind.len());
        let (behind, field) = match arrow {
            Some(arrow) => (&behind[..arrow], Some(&behind[arrow + 2..])),
            None => (behind, None),
        };
        Some(PatternParts { before, behind, field })
    }
}

/// The parts of a pattern: the key before and after the element, and the field.
struct PatternParts<'a> {
    before: &'a [u8],
    behind: &'a [u8],
    field: Option<&'a [u8]>,
}

/// Looks up keys whose shards are locked.
#[derive(Debug)]
pub(super) struct Lookup<'v, 's> {
    pub(super) locks: &'v Locks<'s>,
    pub(super) database: usize,
    pub(super) now_ms: u64,
}

impl<'v> Lookup<'v, '_> {
    /// Returns the record of a key.
    pub(super) fn record(&self, key: Key<'_>) -> Option<&'v KeyRecord> {
        self.locks.peek(self.database, key)?.peek(key, self.now_ms)
    }

    /// Returns the value to which a pattern refers for an element: a string, or the value of a
    /// field.
    pub(super) fn get<'e>(&self, pattern: Pattern<'_>, element: &'e [u8]) -> Option<Cow<'e, [u8]>>
    where
        'v: 'e,
    {
        if pattern.0 == b"#" {
            return Some(Cow::Borrowed(element));
        }
        let PatternParts { before, behind, field } = pattern.parts()?;
        let bytes = [before, element, behind].concat();
        let key = self.locks.store().key(&bytes);
        let record = self.record(key)?;
        let Some(field) = field else { return record.bytes().map(Cow::Borrowed) };
        let hash = record.value().and_then(Hash::of)?;
        let context = self.locks.context(key)?;
        hash.get(field, context).map(|field| Cow::Borrowed(field.value))
    }
}
