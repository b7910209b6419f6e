//! A hash table that grows and shrinks by one small segment at a time (extendible hashing).
//!
//! A directory maps the first bits of an entry's position to a segment, which is a hash table of at
//! most [`SEGMENT_ENTRIES_MAX`] entries. A full segment is split in two; two segments that have
//! become small are merged. No operation moves more than one segment, however large the table is.
//!
//! The position of an entry is its hash, rotated so that the bits that a segment uses for its own
//! control bytes come last. An enumeration walks the positions in order. So it sees every entry
//! that exists from its beginning to its end exactly once, even if segments are split or merged
//! meanwhile.

use hashbrown::HashTable;

/// Most entries of a segment: 7/8 of 512 buckets, which is the load up to which a table does not
/// grow. A split takes some microseconds, and an enumeration examines one segment for each step.
pub(crate) const SEGMENT_ENTRIES_MAX: usize = 448;

/// Most entries of two segments together at which they are merged: half of a full segment, so that
/// a segment that was just split is not merged by the next removal.
const MERGED_ENTRIES_MAX: usize = SEGMENT_ENTRIES_MAX / 2;

/// Most bits that the directory uses. It has 2^24 slots then, for more than 5 * 10^9 entries.
const DEPTH_MAX: u32 = 24;

/// Number of bits of a position that an enumeration uses.
pub(crate) const POSITION_BITS: u32 = 40;

/// A hash table that grows and shrinks by one segment at a time.
#[derive(Clone, Debug)]
pub(crate) struct SegmentTable<T> {
    /// The segment of each prefix of `depth` bits.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment<T>>,
    /// Segments that are not in the directory.
    unused: Vec<u32>,
    len: usize,
    /// The bytes of memory that the segments occupy.
    segment_bytes: usize,
}

#[derive(Clone, Debug)]
struct Segment<T> {
    table: HashTable<T>,
    /// The number of leading bits that all positions of the segment share.
    depth: u32,
}

impl<T> Default for SegmentTable<T> {
    fn default() -> Self {
        Self {
            directory: vec![0],
            depth: 0,
            segments: vec![Segment { table: HashTable::new(), depth: 0 }],
            unused: Vec::new(),
            len: 0,
            segment_bytes: 0,
        }
    }
}

/// The location of an entry in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLocation {
    segment: usize,
    bucket: usize,
}

/// Returns the position of an entry with this hash.
fn position(hash: u64) -> u64 {
    hash.rotate_left(7)
}

/// Returns the first `depth` bits of a position.
fn prefix(position: u64, depth: u32) -> usize {
    position.checked_shr(64 - depth).unwrap_or(0) as usize
}

impl<T> SegmentTable<T> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of memory that the table has allocated, without the memory that its
    /// entries point to.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.segment_bytes
            + self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment<T>>()
    }

    fn segment_index(&self, hash: u64) -> usize {
        self.directory[prefix(position(hash), self.depth)] as usize
    }

    /// Returns the entry with this hash for which `is_match` holds.
    pub(crate) fn find(&self, hash: u64, is_match: impl FnMut(&T) -> bool) -> Option<&T> {
        self.segments[self.segment_index(hash)].table.find(hash, is_match)
    }

    /// Returns the location of the entry with this hash for which `is_match` holds. The location is
    /// valid until the next insertion or removal.
    pub(crate) fn locate(
        &self,
        hash: u64,
        is_match: impl FnMut(&T) -> bool,
    ) -> Option<EntryLocation> {
        let segment = self.segment_index(hash);
        let bucket = self.segments[segment].table.find_bucket_index(hash, is_match)?;
        Some(EntryLocation { segment, bucket })
    }

    /// Returns the entry at a location for changes. The hash of the entry must stay the same.
    pub(crate) fn at_mut(&mut self, location: EntryLocation) -> Option<&mut T> {
        self.segments[location.segment].table.get_bucket_mut(location.bucket)
    }

    /// Adds a new entry. `hash_of` returns the hash of any entry.
    pub(crate) fn insert(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) -> &mut T {
        let mut index = self.segment_index(hash);
        // All entries may share one more bit, so one split may not be enough.
        while self.segments[index].table.len() >= SEGMENT_ENTRIES_MAX
            && self.segments[index].depth < DEPTH_MAX
        {
            self.split(index, position(hash), &hash_of);
            index = self.segment_index(hash);
        }
        let table = &mut self.segments[index].table;
        if table.len() == table.capacity() {
            self.segment_bytes -= table.allocation_size();
            make_room(table, &hash_of);
            self.segment_bytes += table.allocation_size();
        }
        self.len += 1;
        self.segments[index].table.insert_unique(hash, entry, hash_of).into_mut()
    }

    /// Removes the entry with this hash for which `is_match` holds.
    pub(crate) fn remove(
        &mut self,
        hash: u64,
        is_match: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let index = self.segment_index(hash);
        let entry = self.segments[index].table.find_entry(hash, is_match).ok()?;
        let (removed, _) = entry.remove();
        self.len -= 1;
        self.shrink(index, position(hash), &hash_of);
        Some(removed)
    }

    /// Splits a segment that contains `position` by one more bit.
    fn split(&mut self, index: usize, position_of_one: u64, hash_of: &impl Fn(&T) -> u64) {
        let depth = self.segments[index].depth;
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&segment| [segment; 2]).collect();
            self.depth += 1;
        }
        let bit = 63 - depth;
        let old = &mut self.segments[index];
        old.depth += 1;
        let mut table = HashTable::with_capacity(SEGMENT_ENTRIES_MAX);
        let is_upper = |entry: &mut T| position(hash_of(entry)) >> bit & 1 == 1;
        for entry in old.table.extract_if(is_upper) {
            table.insert_unique(hash_of(&entry), entry, hash_of);
        }
        self.segment_bytes += table.allocation_size();
        let upper = self.add_segment(Segment { table, depth: depth + 1 });
        let first = (prefix(position_of_one, depth) << 1 | 1) << (self.depth - depth - 1);
        let count = 1 << (self.depth - depth - 1);
        self.directory[first..first + count].fill(upper);
    }

    fn add_segment(&mut self, segment: Segment<T>) -> u32 {
        match self.unused.pop() {
            Some(index) => {
                self.segments[index as usize] = segment;
                index
            }
            None => {
                self.segments.push(segment);
                (self.segments.len() - 1) as u32
            }
        }
    }

    /// Frees memory after a removal from a segment that contains `position`.
    fn shrink(&mut self, index: usize, position_of_one: u64, hash_of: &impl Fn(&T) -> u64) {
        let segment = &mut self.segments[index];
        let (len, depth) = (segment.table.len(), segment.depth);
        if len * 8 <= segment.table.capacity() {
            self.segment_bytes -= segment.table.allocation_size();
            segment.table.shrink_to(len * 2, hash_of);
            self.segment_bytes += segment.table.allocation_size();
        }
        if depth == 0 || len > MERGED_ENTRIES_MAX / 2 {
            return;
        }
        let buddy_prefix = prefix(position_of_one, depth) ^ 1;
        let buddy = self.directory[buddy_prefix << (self.depth - depth)] as usize;
        let is_whole = self.segments[buddy].depth == depth;
        if is_whole && len + self.segments[buddy].table.len() <= MERGED_ENTRIES_MAX {
            self.merge(index, buddy, position_of_one, hash_of);
        }
    }

    /// Moves the entries of segment `from` to `to`, which covers both ranges from then on.
    fn merge(
        &mut self,
        from: usize,
        to: usize,
        position_of_one: u64,
        hash_of: &impl Fn(&T) -> u64,
    ) {
        let depth = self.segments[from].depth - 1;
        let table = std::mem::take(&mut self.segments[from].table);
        self.segment_bytes -= table.allocation_size();
        let kept = &mut self.segments[to];
        kept.depth = depth;
        self.segment_bytes -= kept.table.allocation_size();
        for entry in table {
            kept.table.insert_unique(hash_of(&entry), entry, hash_of);
        }
        self.segment_bytes += kept.table.allocation_size();
        self.unused.push(from as u32);
        let count = 1 << (self.depth - depth);
        let first = prefix(position_of_one, depth) * count;
        self.directory[first..first + count].fill(to as u32);
        self.halve_directory();
    }

    /// Halves the directory as long as no segment needs its last bit.
    fn halve_directory(&mut self) {
        while self.depth > 0 && self.directory.chunks_exact(2).all(|pair| pair[0] == pair[1]) {
            self.directory = self.directory.chunks_exact(2).map(|pair| pair[0]).collect();
            self.depth -= 1;
        }
    }

    /// Returns all entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().flat_map(|segment| &segment.table)
    }

    /// Calls `visit` for the entries from `start` on, in the order of their positions, until about
    /// `count` were visited. Returns the next start, or `None` at the end. Starts are numbers of
    /// [`POSITION_BITS`] bits, and 0 is the beginning.
    pub(crate) fn visit_from<'t>(
        &'t self,
        start: u64,
        count: usize,
        hash_of: impl Fn(&T) -> u64,
        mut visit: impl FnMut(&'t T),
    ) -> Option<u64> {
        const REST_BITS: u32 = 64 - POSITION_BITS;
        let first = start << REST_BITS;
        let segment = &self.segments[self.directory[prefix(first, self.depth)] as usize];
        // The segment is divided into parts of about `count` entries each.
        let parts = (segment.table.len() / count.max(1)).max(1).next_power_of_two();
        let bits = (segment.depth + parts.trailing_zeros()).min(POSITION_BITS);
        let last = first | u64::MAX.checked_shr(bits).unwrap_or(0);
        for entry in &segment.table {
            if parts == 1 && first.trailing_zeros() >= 64 - segment.depth
                || (first..=last).contains(&position(hash_of(entry)))
            {
                visit(entry);
            }
        }
        let next = (last >> REST_BITS) + 1;
        (next < 1 << POSITION_BITS).then_some(next)
    }

    /// Returns a random entry. All entries are about equally likely.
    pub(crate) fn random(&self, mut random: impl FnMut() -> u64) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let buckets = if self.segments.len() == 1 {
            self.segments[0].table.num_buckets()
        } else {
            SEGMENT_BUCKETS_MAX
        };
        // All segments are equally likely. A bucket is chosen among those of the largest segments;
        // if the segment has no such bucket or the bucket is empty, the choice is repeated.
        loop {
            let choice = random();
            let segment = (choice >> 32) as usize % self.segments.len();
            let bucket = choice as usize & (buckets - 1);
            if let Some(entry) = self.segments[segment].table.get_bucket(bucket) {
                return Some(entry);
            }
        }
    }
}

/// Number of buckets of a full segment.
const SEGMENT_BUCKETS_MAX: usize = 512;

/// Makes room for one more entry of a segment. Removed entries leave marks in buckets. A segment
/// whose buckets all have an entry or a mark is rebuilt without marks instead of growing beyond its
/// largest size, on which the choice of random entries depends.
fn make_room<T>(table: &mut HashTable<T>, hash_of: &impl Fn(&T) -> u64) {
    if table.num_buckets() < SEGMENT_BUCKETS_MAX || table.len() >= SEGMENT_ENTRIES_MAX {
        table.reserve(1, hash_of);
        return;
    }
    let old = std::mem::replace(table, HashTable::with_capacity(SEGMENT_ENTRIES_MAX));
    for entry in old {
        table.insert_unique(hash_of(&entry), entry, hash_of);
    }
}

#[cfg(test)]
mod tests;
