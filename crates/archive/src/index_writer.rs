//! The index as it is written: the offsets of records, in buckets.

use std::io::{Seek, Write};

use zerocopy::{FromZeros, IntoBytes};

use crate::index_hash;
use crate::layout::{Bucket, IndexHeader, SectionKind};
use crate::limits::{INDEX_SEEDS_MAX, PROBE_MAX_BUCKETS, RECORD_OFFSET_MAX};
use crate::record_writer::RecordKeys;
use crate::section_output::{SectionOutput, write_section};
use crate::write_error::WriteError;

/// The facts in the index header about the site as a whole.
#[derive(Clone, Copy, Default)]
pub(crate) struct SiteFacts {
    /// Bit *d*: a fallback page *d* levels below the root.
    pub(crate) fallback_depths: u64,
    /// [`INDEX_FLAGS`](crate::layout::INDEX_FLAGS).
    pub(crate) flags: u64,
}

/// Writes the index of the records that begin at `records`.
pub(crate) fn write<W: Write + Seek>(
    output: &mut SectionOutput<W>,
    keys: &RecordKeys,
    records: u64,
    site_facts: SiteFacts,
) -> Result<(), WriteError> {
    let last = keys.iter().last().map_or(0, |(_, record)| record);
    if records + last > RECORD_OFFSET_MAX {
        return Err(WriteError::TooLarge);
    }
    let index_start = output.begin_section()?;
    let entries = keys.count();
    let buckets = index_hash::buckets_for(entries);
    let (seed, mut table) = fill(keys, records, buckets)?;

    let mut header = IndexHeader {
        buckets: buckets.into(),
        entries: entries.into(),
        seed: seed.into(),
        fallback_depths: site_facts.fallback_depths.into(),
        flags: site_facts.flags.into(),
        reserved: [0; 16],
        checksum: 0.into(),
    };
    header.checksum = index_hash::header_checksum(&header, index_start).into();
    let mut offset = index_start + size_of::<IndexHeader>() as u64;
    for bucket in &mut table {
        bucket.checksum = index_hash::bucket_checksum(bucket, offset).into();
        offset += size_of::<Bucket>() as u64;
    }
    write_section(output, SectionKind::INDEX, true, &[header.as_bytes(), table.as_bytes()])?;
    Ok(())
}

/// Returns the first seed with which no search gets too long, and the table filled with it.
fn fill(keys: &RecordKeys, start: u64, buckets: u64) -> Result<(u64, Vec<Bucket>), WriteError> {
    for seed in 0..INDEX_SEEDS_MAX {
        if let Some(table) = try_fill(keys, start, buckets, seed)? {
            return Ok((seed, table));
        }
    }
    Err(WriteError::Index)
}

/// Returns the table filled with one seed; `None` when a search would get too long.
fn try_fill(
    keys: &RecordKeys,
    start: u64,
    buckets: u64,
    seed: u64,
) -> Result<Option<Vec<Bucket>>, WriteError> {
    let count = usize::try_from(buckets).map_err(|_| WriteError::TooLarge)?;
    let mut table = vec![Bucket::new_zeroed(); count];
    for (path, record) in keys.iter() {
        let hash = index_hash::hash(path, seed);
        let mut number = index_hash::home(hash, buckets) as usize;
        let mut visited = 0;
        let slot = 'free: loop {
            let bucket = table.get_mut(number).filter(|_| visited < PROBE_MAX_BUCKETS);
            let Some(bucket) = bucket else { return Ok(None) };
            for slot in &mut bucket.slots {
                if slot.get() == 0 {
                    break 'free slot;
                }
                let (tag, offset) = index_hash::unpack(slot.get());
                let alike = tag == index_hash::tag(hash);
                if alike && keys.of_record(offset - start) == Some(path) {
                    return Err(WriteError::Duplicate(path.into()));
                }
            }
            visited += 1;
            number = if number + 1 == count { 0 } else { number + 1 };
        };
        slot.set(index_hash::slot(hash, start + record));
    }
    Ok(Some(table).filter(|table| longest_full_run(table) < PROBE_MAX_BUCKETS))
}

/// Returns the longest row of buckets without a free slot, the last one being followed by the
/// first: a search for a path without an entry visits all of them.
fn longest_full_run(table: &[Bucket]) -> u64 {
    let (mut run, mut longest) = (0, 0);
    for bucket in table.iter().chain(table) {
        let full = bucket.slots.iter().all(|slot| slot.get() != 0);
        run = if full { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
