//! Every entry in file order.

use crate::archive::{Archive, Scratch};
use crate::damage::Damage;
use crate::entry::Entry;

/// Walks the records one after the other. A lending iterator: each entry is valid until the next
/// call.
///
/// A damaged record ends the walk, since its length cannot be trusted; `verify`
/// goes through the index and finds the others.
#[derive(Debug)]
pub struct Entries<'a> {
    archive: Archive<'a>,
    scratch: Scratch,
    next: u64,
}

impl<'a> Entries<'a> {
    pub(crate) fn new(archive: Archive<'a>) -> Entries<'a> {
        Entries { archive, scratch: Scratch::new(), next: archive.layout.records.offset }
    }

    /// Returns the next entry, `None` after the last.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, Damage> {
        let end = self.archive.layout.records.end();
        if self.next >= end {
            return Ok(None);
        }
        let at = core::mem::replace(&mut self.next, end);
        let entry = self.archive.read_record(at, &mut self.scratch)?;
        self.next = at + entry.record_bytes();
        Ok(Some(entry))
    }
}
