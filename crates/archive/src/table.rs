//! The index and the records as they are written: record checks, then buckets.

use std::io::{Seek, Write};

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::damage::Fault;
use crate::entry::{Entry, record_check};
use crate::index;
use crate::layout::{Bucket, IndexHeader, RecordHeader, SECTION_ALIGN_BYTES, SectionKind};
use crate::limits::{INDEX_SEEDS_MAX, PROBE_MAX_BUCKETS, RECORD_OFFSET_MAX};
use crate::sink::{Sink, write_section};
use crate::span::padding;
use crate::writer::WriteError;

/// What the index header says about the site as a whole.
#[derive(Clone, Copy, Default)]
pub(crate) struct Whole {
    /// Bit *d*: a fallback page *d* levels below the root.
    pub(crate) fallback_depths: u64,
    /// [`INDEX_FLAGS`](crate::layout::INDEX_FLAGS).
    pub(crate) flags: u64,
}

/// Writes both sections. `records` are whole records one after the other, their checks not yet
/// filled in.
pub(crate) fn write<W: Write + Seek>(
    sink: &mut Sink<W>,
    records: &mut [u8],
    entries: u64,
    whole: Whole,
) -> Result<(), WriteError> {
    let index_start = sink.begin_section()?;
    let buckets = index::buckets_for(entries);
    let index_bytes = size_of::<IndexHeader>() as u64 + buckets * size_of::<Bucket>() as u64;
    let index_end = index_start + index_bytes;
    let records_start = index_end + padding(index_end, SECTION_ALIGN_BYTES);
    if records_start + records.len() as u64 > RECORD_OFFSET_MAX {
        return Err(WriteError::TooLarge);
    }
    let (seed, mut table) = fill(records, records_start, buckets)?;

    let mut header = IndexHeader {
        buckets: buckets.into(),
        entries: entries.into(),
        seed: seed.into(),
        fallback_depths: whole.fallback_depths.into(),
        flags: whole.flags.into(),
        reserved: [0; 16],
        check: 0.into(),
    };
    header.check = index::header_check(&header, index_start).into();
    let mut offset = index_start + size_of::<IndexHeader>() as u64;
    for bucket in &mut table {
        bucket.check = index::bucket_check(bucket, offset).into();
        offset += size_of::<Bucket>() as u64;
    }
    write_section(sink, SectionKind::INDEX, true, &[header.as_bytes(), table.as_bytes()])?;
    seal(records, records_start)?;
    write_section(sink, SectionKind::RECORDS, true, &[records])?;
    Ok(())
}

/// The first seed with which no search gets too long, and the table filled with it.
fn fill(records: &[u8], start: u64, buckets: u64) -> Result<(u64, Vec<Bucket>), WriteError> {
    for seed in 0..INDEX_SEEDS_MAX {
        if let Some(table) = try_fill(records, start, buckets, seed)? {
            return Ok((seed, table));
        }
    }
    Err(WriteError::Index)
}

/// None when a search would get too long.
fn try_fill(
    records: &[u8],
    start: u64,
    buckets: u64,
    seed: u64,
) -> Result<Option<Vec<Bucket>>, WriteError> {
    let count = usize::try_from(buckets).map_err(|_| WriteError::TooLarge)?;
    let mut table = vec![Bucket::new_zeroed(); count];
    let mut at = 0;
    while let Some(record) = record_at(records, at) {
        let path = path_of(record)?;
        let hash = index::hash(path, seed);
        let mut number = index::home(hash, buckets) as usize;
        let mut visited = 0;
        let slot = 'free: loop {
            let bucket = table.get_mut(number).filter(|_| visited < PROBE_MAX_BUCKETS);
            let Some(bucket) = bucket else { return Ok(None) };
            for slot in &mut bucket.slots {
                if slot.get() == 0 {
                    break 'free slot;
                }
                let (tag, offset) = index::unpack(slot.get());
                if tag == index::tag(hash) {
                    let other = record_at(records, (offset - start) as usize).unwrap_or_default();
                    if path_of(other)? == path {
                        return Err(WriteError::Duplicate(path.into()));
                    }
                }
            }
            visited += 1;
            number = if number + 1 == count { 0 } else { number + 1 };
        };
        slot.set(index::slot(hash, start + at as u64));
        at += record.len();
    }
    Ok(Some(table).filter(|table| longest_full_run(table) < PROBE_MAX_BUCKETS))
}

/// The longest row of buckets without a free slot, the last one being followed by the first: a
/// search for a path without an entry visits all of them.
fn longest_full_run(table: &[Bucket]) -> u64 {
    let (mut run, mut longest) = (0, 0);
    for bucket in table.iter().chain(table) {
        let full = bucket.slots.iter().all(|slot| slot.get() != 0);
        run = if full { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Fills in the records' checks, now that their places are known.
fn seal(records: &mut [u8], start: u64) -> Result<(), WriteError> {
    let mut at = 0;
    while let Some(length) = record_at(records, at).map(<[u8]>::len) {
        let Some(record) = records.get_mut(at..at + length) else {
            return Err(WriteError::TooLarge);
        };
        let check = record_check(record, start + at as u64);
        if let Some(field) = record.first_chunk_mut::<4>() {
            *field = check.to_le_bytes();
        }
        at += length;
    }
    Ok(())
}

/// The record that begins at `at`, None at the end.
fn record_at(records: &[u8], at: usize) -> Option<&[u8]> {
    let rest = records.get(at..)?;
    let (header, _) = RecordHeader::ref_from_prefix(rest).ok()?;
    rest.get(..header.bytes.get() as usize)
}

fn path_of(record: &[u8]) -> Result<&[u8], WriteError> {
    let malformed = |fault: Fault| WriteError::Entry { path: Box::default(), fault };
    Entry::split(record, 0).map(|entry| entry.path()).map_err(malformed)
}
