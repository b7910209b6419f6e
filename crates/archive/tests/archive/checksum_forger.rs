//! Changes a valid archive and recalculates its checksums, as an attacker would.

use core::mem::offset_of;
use core::ops::Range;

use pinion_archive::layout::{
    Bucket, FileHeader, HEADER_PAGE_BYTES, IndexHeader, RecordHeader, SectionRow,
};
use pinion_archive::{Layout, Scratch, SectionKind};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::{FromBytes, IntoBytes};

use crate::sample_archive::site;

/// The bytes of the archive of [`site`], with changes and correct checksums.
#[derive(Clone)]
pub(crate) struct ForgedArchive {
    pub(crate) bytes: Vec<u8>,
}

impl ForgedArchive {
    pub(crate) fn new() -> ForgedArchive {
        ForgedArchive { bytes: site() }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::open(&self.bytes).expect("still opens")
    }

    /// Changes the header of the file.
    pub(crate) fn change_header(mut self, change: impl FnOnce(&mut FileHeader)) -> ForgedArchive {
        change(FileHeader::mut_from_prefix(&mut self.bytes).expect("a header").0);
        self.update_header_checksum()
    }

    /// Changes the row of a section in the table.
    pub(crate) fn change_section_row(
        mut self,
        kind: SectionKind,
        change: impl FnOnce(&mut SectionRow),
    ) -> ForgedArchive {
        change(self.row_of(kind));
        self.update_header_checksum()
    }

    /// Changes the content of a section, and its digest.
    pub(crate) fn change_section(
        mut self,
        kind: SectionKind,
        change: impl FnOnce(&mut [u8]),
    ) -> ForgedArchive {
        let range = self.section_range(kind);
        change(&mut self.bytes[range.clone()]);
        let digest = *blake3::hash(&self.bytes[range]).as_bytes();
        self.change_section_row(kind, |row| row.digest = digest)
    }

    /// Adds a section of this kind and version at the end. Its row has no flag, so readers may skip
    /// the section, and its digest is zero.
    pub(crate) fn append_section(
        mut self,
        kind: SectionKind,
        version: u16,
        content: &[u8],
    ) -> ForgedArchive {
        let offset = self.bytes.len().next_multiple_of(64);
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(content);
        let total = self.bytes.len() as u64;
        let (header, table) = FileHeader::mut_from_prefix(&mut self.bytes).expect("a header");
        let count = header.sections.get() as usize;
        header.sections += 1;
        header.total_bytes.set(total);
        let rows = <[SectionRow]>::mut_from_prefix_with_elems(table, count + 1);
        let row = &mut rows.expect("a free row").0[count];
        row.kind.set(kind.0);
        row.version.set(version);
        row.offset.set(offset as u64);
        row.bytes.set(content.len() as u64);
        self.update_header_checksum()
    }

    /// Changes the header of the index, and its checksum.
    pub(crate) fn change_index_header(
        mut self,
        change: impl FnOnce(&mut IndexHeader),
    ) -> ForgedArchive {
        let offset = self.section_range(SectionKind::INDEX).start as u64;
        self.change_section(SectionKind::INDEX, |index| {
            let (header, _) = IndexHeader::mut_from_prefix(index).expect("an index header");
            change(header);
            header.checksum = xxh3_64_with_seed(&header.as_bytes()[..56], offset).into();
        })
    }

    /// Changes every bucket, and its checksum.
    pub(crate) fn change_buckets(mut self, change: impl Fn(&mut Bucket)) -> ForgedArchive {
        let start = self.section_range(SectionKind::INDEX).start;
        self.change_section(SectionKind::INDEX, |index| {
            for (number, bucket) in index[64..].chunks_exact_mut(64).enumerate() {
                let offset = (start + 64 + number * 64) as u64;
                let bucket = Bucket::mut_from_bytes(bucket).expect("64 bytes");
                change(bucket);
                bucket.checksum = xxh3_64_with_seed(bucket.slots.as_bytes(), offset).into();
            }
        })
    }

    /// Changes the record of a key, and its checksum. `change` gets the header of the record, and
    /// the bytes that follow.
    pub(crate) fn change_record(
        mut self,
        key: &[u8],
        change: impl FnOnce(&mut RecordHeader, &mut [u8]),
    ) -> ForgedArchive {
        let layout = self.layout();
        let mut scratch = Scratch::new();
        let archive = layout.view(&self.bytes);
        let offset = archive.find(key, &mut scratch).expect("sound").expect("there").offset();
        let start = offset as usize - self.section_range(SectionKind::RECORDS).start;
        self.change_section(SectionKind::RECORDS, |records| {
            let record = &mut records[start..];
            let (header, _) = RecordHeader::read_from_prefix(record).expect("a record");
            let record = &mut record[..header.bytes.get() as usize];
            let (header, rest) = RecordHeader::mut_from_prefix(record).expect("a record");
            change(header, rest);
            // The checksum covers as many bytes of the record as its header says, which `change`
            // may have altered, but no more than the section has.
            let length = (header.bytes.get() as usize).clamp(32, records.len() - start);
            let checksum = xxh3_64_with_seed(&records[start + 8..start + length], offset) as u32;
            records[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        })
    }

    /// Returns the range of bytes of a section in the file.
    fn section_range(&mut self, kind: SectionKind) -> Range<usize> {
        let row = *self.row_of(kind);
        let start = row.offset.get() as usize;
        start..start + row.bytes.get() as usize
    }

    fn row_of(&mut self, kind: SectionKind) -> &mut SectionRow {
        let (header, table) = FileHeader::mut_from_prefix(&mut self.bytes).expect("a header");
        let count = header.sections.get() as usize;
        let (rows, _) = <[SectionRow]>::mut_from_prefix_with_elems(table, count).expect("rows");
        rows.iter_mut().find(|row| row.kind.get() == kind.0).expect("in the table")
    }

    /// Recalculates the checksum of the header page.
    fn update_header_checksum(mut self) -> ForgedArchive {
        let start = offset_of!(FileHeader, checksum);
        let range = start..start + size_of::<u64>();
        self.bytes[range.clone()].fill(0);
        let checksum = xxh3_64(&self.bytes[..HEADER_PAGE_BYTES]);
        self.bytes[range].copy_from_slice(&checksum.to_le_bytes());
        self
    }
}
