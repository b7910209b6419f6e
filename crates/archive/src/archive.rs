//! The reader: path → entry, entry → body.
//!
//! A lookup costs three cache lines or so of the file (bucket, record, body) and no allocation:
//! the record is read once into the caller's [`Scratch`], and everything said about it afterwards
//! is said about the copy.

use pinion_http::prepared_response::{ArchiveRange, ExternalRange};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::{FromBytes, IntoBytes};

use crate::byte_span::slice;
use crate::damage::{ArchivePart, Damage, Fault};
use crate::digest::Digest;
use crate::entry::{Entry, Representation, record_checksum, validate_row};
use crate::entry_iterator::Entries;
use crate::error_pages::ErrorPage;
use crate::field_rules::FieldRules;
use crate::index_hash;
use crate::layout::{
    Bucket, ExternalRow, FALLBACK_PREFIX, INDEX_NO_ETAGS, INDEX_NO_SLASH_REDIRECTS,
    INDEX_SINGLE_PAGE, RECORD_ALIGN_BYTES, RecordHeader, RepresentationRow, STORAGE_EXTERNAL_FILE,
};
use crate::limits::{FALLBACK_DEPTH_MAX, PATH_MAX_BYTES, PROBE_MAX_BUCKETS, RECORD_MAX_BYTES};
use crate::open::Layout;
use crate::rules::Rules;
use crate::shared_blocks::{Role, SharedBlock, SharedId};

/// An archive: its bytes and the findings of [`Layout::open`]. It is made by [`Layout::view`];
/// copying it costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: &'a Layout,
}

/// The buffers that a lookup copies the record to. They are allocated once, at their largest size,
/// and kept between requests.
#[derive(Debug)]
pub struct Scratch {
    record: Vec<u8>,
    offset: u64,
    key: Vec<u8>,
}

/// The location of the bytes of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLocation {
    /// The bytes are in the archive.
    Archive(ArchiveRange),
    /// The bytes are in a file beside it.
    External(ExternalRange),
}

impl Scratch {
    /// Makes buffers with room for any record and any key.
    pub fn new() -> Scratch {
        Scratch {
            record: Vec::with_capacity(RECORD_MAX_BYTES),
            offset: 0,
            key: Vec::with_capacity(FALLBACK_PREFIX.len() + PATH_MAX_BYTES),
        }
    }

    /// Returns the entry that the last successful [`Archive::load`] left here.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        Entry::split(&self.record, self.offset).ok()
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

fn slashes(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count()
}

impl<'a> Archive<'a> {
    /// Returns the entry of a path key, `None` when there is none.
    pub fn find<'s>(
        &self,
        key: &[u8],
        scratch: &'s mut Scratch,
    ) -> Result<Option<Entry<'s>>, Damage> {
        Ok(if self.load(key, scratch)? { scratch.entry() } else { None })
    }

    /// Works like [`find`](Self::find), but leaves the entry in `scratch`: a caller that goes on
    /// searching when there is none can use the scratch again.
    pub fn load(&self, key: &[u8], scratch: &mut Scratch) -> Result<bool, Damage> {
        let found = self.search(key, scratch);
        if found != Ok(true) {
            scratch.record.clear();
        }
        found
    }

    /// Loads the fallback page nearest to `path`: that of its directory, else of the one above,
    /// and so on up to the root. One search when the only page is that of the root. Its status is
    /// 200 or 404.
    pub fn load_fallback(&self, path: &[u8], scratch: &mut Scratch) -> Result<bool, Damage> {
        if self.layout.index.fallback_depths == 0 {
            return Ok(false);
        }
        let mut depth = slashes(path);
        let mut directory = path;
        while let Some(slash) = directory.iter().rposition(|&byte| byte == b'/') {
            depth -= 1;
            directory = path.get(..slash).unwrap_or_default();
            if self.fallback_at(directory, depth, scratch)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Loads the fallback page of the directory `path` itself, which has no slash at its end.
    pub fn load_fallback_of(&self, path: &[u8], scratch: &mut Scratch) -> Result<bool, Damage> {
        if self.layout.index.fallback_depths == 0 {
            return Ok(false);
        }
        self.fallback_at(path, slashes(path), scratch)
    }

    /// Searches only when some directory as deep has a page. The root is empty, at depth 0.
    fn fallback_at(
        &self,
        directory: &[u8],
        depth: usize,
        scratch: &mut Scratch,
    ) -> Result<bool, Damage> {
        let depths = self.layout.index.fallback_depths;
        if depth > FALLBACK_DEPTH_MAX || depths >> depth & 1 == 0 {
            return Ok(false);
        }
        let mut key = core::mem::take(&mut scratch.key);
        key.clear();
        key.extend_from_slice(FALLBACK_PREFIX);
        key.extend_from_slice(directory);
        key.push(b'/');
        let found = self.load(&key, scratch);
        scratch.key = key;
        found
    }

    /// Returns whether there is a single-page fallback, under
    /// [`SINGLE_PAGE_KEY`](crate::layout::SINGLE_PAGE_KEY).
    pub fn has_single_page(&self) -> bool {
        self.layout.index.flags & INDEX_SINGLE_PAGE != 0
    }

    /// Returns whether a path without an entry leads to its other slash form, if that has one.
    pub fn redirects_slashes(&self) -> bool {
        self.layout.index.flags & INDEX_NO_SLASH_REDIRECTS == 0
    }

    /// Returns whether responses have the entity tags of representations.
    #[inline]
    pub fn has_etags(&self) -> bool {
        self.layout.index.flags & INDEX_NO_ETAGS == 0
    }

    /// Returns the site's page in place of the built-in page of a status.
    pub fn error_page(&self, status: u16) -> Option<ErrorPage<'a>> {
        let (shared, body) = self.layout.error_pages.of(status)?;
        Some(ErrorPage { shared: self.layout.shared.get(shared)?, body })
    }

    /// Returns the rules that are left to be walked.
    #[inline]
    pub fn rules(&self) -> &'a Rules {
        &self.layout.rules
    }

    /// Returns the rules for fields, which the fields that are stored with entries have already.
    #[inline]
    pub fn field_rules(&self) -> &'a FieldRules {
        &self.layout.field_rules
    }

    /// Returns a shared block by its number.
    #[inline(always)]
    pub fn shared(&self, id: SharedId) -> Result<SharedBlock<'a>, Damage> {
        self.layout.shared.get(id).ok_or(Damage {
            part: ArchivePart::Shared,
            offset: self.layout.shared_offset,
            fault: Fault::SharedNumber,
        })
    }

    /// Returns the block that the server uses for `role` without being asked by an entry, if the
    /// archive has one.
    pub fn shared_for(&self, role: Role) -> Option<SharedBlock<'a>> {
        self.layout.shared.with_role(role)
    }

    /// Returns where the bytes of a representation are, after a look at its other values. The range
    /// lies inside the bodies section, or in the external file as it was when the archive was
    /// built.
    #[inline(always)]
    pub fn body_location(
        &self,
        representation: &Representation<'_>,
    ) -> Result<BodyLocation, Damage> {
        let row = representation.row;
        validate_row(row).map_err(|fault| Damage {
            part: ArchivePart::Record,
            offset: representation.record,
            fault,
        })?;
        let (offset, bytes) = (row.offset.get(), row.bytes.get());
        if row.storage == STORAGE_EXTERNAL_FILE {
            return self.external_location(row);
        }
        if !self.layout.bodies.contains(offset, bytes) {
            return Err(Damage { part: ArchivePart::Body, offset, fault: Fault::Outside });
        }
        Ok(BodyLocation::Archive(ArchiveRange { offset, bytes }))
    }

    #[cold]
    fn external_location(&self, row: &RepresentationRow) -> Result<BodyLocation, Damage> {
        let (file, offset, bytes) = (row.external.get(), row.offset.get(), row.bytes.get());
        let external = self.external(file)?;
        let (size, modified_ns) = (external.bytes.get(), external.modified_ns.get());
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(Damage { part: ArchivePart::External, offset, fault: Fault::Outside });
        }
        Ok(BodyLocation::External(ExternalRange { file, offset, bytes, size, modified_ns }))
    }

    /// Returns the stored bytes of a representation; `None` when they are in an external file.
    pub fn body(&self, representation: &Representation<'_>) -> Result<Option<&'a [u8]>, Damage> {
        let BodyLocation::Archive(range) = self.body_location(representation)? else {
            return Ok(None);
        };
        let offset = range.offset;
        slice(self.bytes, offset, range.bytes).map(Some).ok_or(Damage {
            part: ArchivePart::Body,
            offset,
            fault: Fault::Outside,
        })
    }

    /// Returns the number of external files that representations may name.
    pub fn external_count(&self) -> u64 {
        self.layout.externals.map_or(0, |span| span.bytes / size_of::<ExternalRow>() as u64)
    }

    /// Returns the build facts, as `(key, value)`, checked against their digest; empty when there
    /// are none.
    pub fn meta(&self) -> Result<impl Iterator<Item = (&'a str, &'a str)> + use<'a>, Damage> {
        let text = match &self.layout.meta {
            None => "",
            Some(section) => {
                let damage =
                    |fault| Damage { part: ArchivePart::Meta, offset: section.offset, fault };
                let bytes = slice(self.bytes, section.offset, section.bytes)
                    .ok_or(damage(Fault::Outside))?;
                if Digest::of(bytes) != section.digest {
                    return Err(damage(Fault::Checksum));
                }
                core::str::from_utf8(bytes).map_err(|_| damage(Fault::Syntax))?
            }
        };
        Ok(text.lines().filter_map(|line| line.split_once('=')))
    }

    /// Returns every entry in file order, internal ones too.
    pub fn entries(&self) -> Entries<'a> {
        Entries::new(*self)
    }

    /// Returns the findings of [`Layout::open`].
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    #[inline]
    fn search(&self, key: &[u8], scratch: &mut Scratch) -> Result<bool, Damage> {
        let index = &self.layout.index;
        let hash = index_hash::hash(key, index.seed);
        let tag = index_hash::tag(hash);
        let mut number = index_hash::home(hash, index.buckets);
        for _ in 0..index.buckets.min(PROBE_MAX_BUCKETS) {
            let bucket = self.read_bucket(number)?;
            for slot in &bucket.slots {
                if slot.get() == 0 {
                    return Ok(false);
                }
                let (slot_tag, offset) = index_hash::unpack(slot.get());
                if slot_tag == tag && self.read_record(offset, scratch)?.path() == key {
                    return Ok(true);
                }
            }
            number = if number + 1 == index.buckets { 0 } else { number + 1 };
        }
        let offset = index.first_bucket;
        Err(Damage { part: ArchivePart::Bucket, offset, fault: Fault::Endless })
    }

    /// Copies a bucket and checks the copy; `number` is below the count of buckets.
    #[inline]
    pub(crate) fn read_bucket(&self, number: u64) -> Result<Bucket, Damage> {
        let offset = self.layout.index.first_bucket + number * size_of::<Bucket>() as u64;
        let damage = |fault| Damage { part: ArchivePart::Bucket, offset, fault };
        let bytes =
            slice(self.bytes, offset, size_of::<Bucket>() as u64).ok_or(damage(Fault::Outside))?;
        let bucket = Bucket::read_from_bytes(bytes).map_err(|_| damage(Fault::Outside))?;
        if index_hash::bucket_checksum(&bucket, offset) != bucket.checksum.get() {
            return Err(damage(Fault::Checksum));
        }
        Ok(bucket)
    }

    /// Copies the record at `offset` and checks the copy, which is then [`Scratch::entry`].
    #[inline]
    pub(crate) fn read_record<'s>(
        &self,
        offset: u64,
        scratch: &'s mut Scratch,
    ) -> Result<Entry<'s>, Damage> {
        let damage = |fault| Damage { part: ArchivePart::Record, offset, fault };
        let records = self.layout.records;
        if !offset.is_multiple_of(RECORD_ALIGN_BYTES) {
            return Err(damage(Fault::Alignment));
        }
        let header_bytes = size_of::<RecordHeader>() as u64;
        if !records.contains(offset, header_bytes) {
            return Err(damage(Fault::Outside));
        }
        let header = slice(self.bytes, offset, header_bytes).ok_or(damage(Fault::Outside))?;
        let (header, _) =
            RecordHeader::ref_from_prefix(header).map_err(|_| damage(Fault::Length))?;
        let length = u64::from(header.bytes.get());
        if length < header_bytes || length > RECORD_MAX_BYTES as u64 {
            return Err(damage(Fault::Length));
        }
        if !records.contains(offset, length) {
            return Err(damage(Fault::Outside));
        }
        let record = slice(self.bytes, offset, length).ok_or(damage(Fault::Outside))?;
        scratch.record.clear();
        scratch.record.extend_from_slice(record);
        scratch.offset = offset;
        let copy = &scratch.record;
        let stored = copy.first_chunk::<4>().map_or(0, |checksum| u32::from_le_bytes(*checksum));
        if record_checksum(copy, offset) != stored {
            return Err(damage(Fault::Checksum));
        }
        let entry = Entry::split(copy, offset).map_err(damage)?;
        if entry.record_bytes() != length {
            return Err(damage(Fault::Length));
        }
        entry.validate().map_err(damage)?;
        Ok(entry)
    }

    pub(crate) fn external(&self, number: u32) -> Result<ExternalRow, Damage> {
        let row_bytes = size_of::<ExternalRow>() as u64;
        let span = self.layout.externals;
        let first = span.map_or(0, |span| span.offset);
        let offset = first + u64::from(number) * row_bytes;
        let damage = |fault| Damage { part: ArchivePart::External, offset, fault };
        let bytes = span
            .filter(|span| span.contains(offset, row_bytes))
            .and_then(|_| slice(self.bytes, offset, row_bytes))
            .ok_or(damage(Fault::ExternalNumber))?;
        let row = ExternalRow::read_from_bytes(bytes).map_err(|_| damage(Fault::Outside))?;
        if external_checksum(&row, offset) != row.checksum.get() {
            return Err(damage(Fault::Checksum));
        }
        if row.reserved != [0; 8] {
            return Err(damage(Fault::Reserved));
        }
        Ok(row)
    }
}

/// Returns the checksum of an externals row at `offset`.
pub(crate) fn external_checksum(row: &ExternalRow, offset: u64) -> u64 {
    let bytes = row.as_bytes();
    xxh3_64_with_seed(bytes.split_last_chunk::<8>().map_or(bytes, |(rest, _)| rest), offset)
}
