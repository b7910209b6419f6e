//! The index's arithmetic, the same for reader and writer: path → hash → bucket and tag.
//!
//! The table is open addressing over buckets of one cache line. A path's home bucket is taken from
//! the high bits of its hash, the tag from the low 24; a full bucket spills into the next one, the
//! last into the first. A search ends at the first free slot.

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::IntoBytes;

use crate::layout::{BUCKET_SLOTS, Bucket, IndexHeader};

const TAG_SHIFT: u32 = 40;
const TAG_MASK: u64 = (1 << 24) - 1;

/// Returns the hash of a path key.
pub(crate) fn hash(key: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(key, seed)
}

/// Returns the bucket at which a search begins: the hash, scaled to `buckets`.
pub(crate) fn home(hash: u64, buckets: u64) -> u64 {
    ((u128::from(hash) * u128::from(buckets)) >> 64) as u64
}

/// Returns the required value of the upper 24 bits of a slot.
pub(crate) fn tag(hash: u64) -> u64 {
    hash & TAG_MASK
}

/// Returns a filled slot: `offset` is a multiple of 8, above zero, at most
/// [`RECORD_OFFSET_MAX`](crate::limits::RECORD_OFFSET_MAX).
pub(crate) fn slot(hash: u64, offset: u64) -> u64 {
    (tag(hash) << TAG_SHIFT) | (offset / 8)
}

/// Returns the tag and the record offset of a filled slot.
pub(crate) fn unpack(slot: u64) -> (u64, u64) {
    (slot >> TAG_SHIFT, (slot & ((1 << TAG_SHIFT) - 1)) * 8)
}

/// Returns the number of buckets for `entries` entries: a load of 0.7, so that one path in twenty
/// is not in its home bucket, at 13 bytes per entry.
pub(crate) fn buckets_for(entries: u64) -> u64 {
    (entries * 10).div_ceil(BUCKET_SLOTS as u64 * 7).max(1)
}

/// Returns the checksum of a bucket at `offset`.
pub(crate) fn bucket_checksum(bucket: &Bucket, offset: u64) -> u64 {
    xxh3_64_with_seed(bucket.slots.as_bytes(), offset)
}

/// Returns the checksum of an index header at `offset`.
pub(crate) fn header_checksum(header: &IndexHeader, offset: u64) -> u64 {
    let bytes = header.as_bytes();
    xxh3_64_with_seed(bytes.split_last_chunk::<8>().map_or(bytes, |(rest, _)| rest), offset)
}
