//! Changes an archive and makes its checks right again, as an attacker would.

use pinion_archive::layout::{
    Bucket, FileHeader, HEADER_PAGE_BYTES, IndexHeader, RecordHeader, SectionRow,
};
use pinion_archive::{Layout, Scratch, SectionKind};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::{FromBytes, IntoBytes};

use crate::sample_archive::site;

#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) bytes: Vec<u8>,
}

impl Forge {
    pub(crate) fn new() -> Forge {
        Forge { bytes: site() }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::open(&self.bytes).expect("still opens")
    }

    pub(crate) fn header(mut self, change: impl FnOnce(&mut FileHeader)) -> Forge {
        change(FileHeader::mut_from_prefix(&mut self.bytes).expect("a header").0);
        self.seal_page()
    }

    /// Changes the row of a section in the table.
    pub(crate) fn row(mut self, kind: SectionKind, change: impl FnOnce(&mut SectionRow)) -> Forge {
        change(self.row_of(kind));
        self.seal_page()
    }

    /// Changes the content of a section, and its digest.
    pub(crate) fn content(self, kind: SectionKind, change: impl FnOnce(&mut [u8])) -> Forge {
        let (mut forge, place) = self.place(kind);
        change(&mut forge.bytes[place.clone()]);
        let digest = *blake3::hash(&forge.bytes[place]).as_bytes();
        forge.row(kind, |row| row.digest = digest)
    }

    /// Adds a section of another version at the end, optional and without a digest.
    pub(crate) fn added(mut self, kind: SectionKind, version: u16, content: &[u8]) -> Forge {
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
        self.seal_page()
    }

    pub(crate) fn index_header(self, change: impl FnOnce(&mut IndexHeader)) -> Forge {
        let (forge, place) = self.place(SectionKind::INDEX);
        let offset = place.start as u64;
        forge.content(SectionKind::INDEX, |index| {
            let (header, _) = IndexHeader::mut_from_prefix(index).expect("an index header");
            change(header);
            header.check = xxh3_64_with_seed(&header.as_bytes()[..56], offset).into();
        })
    }

    /// Changes every bucket.
    pub(crate) fn buckets(self, change: impl Fn(&mut Bucket)) -> Forge {
        let (forge, place) = self.place(SectionKind::INDEX);
        forge.content(SectionKind::INDEX, |index| {
            for (number, bucket) in index[64..].chunks_exact_mut(64).enumerate() {
                let offset = (place.start + 64 + number * 64) as u64;
                let bucket = Bucket::mut_from_bytes(bucket).expect("64 bytes");
                change(bucket);
                bucket.check = xxh3_64_with_seed(bucket.slots.as_bytes(), offset).into();
            }
        })
    }

    /// Changes the record of a key: its header, and the bytes that follow.
    pub(crate) fn record(
        self,
        key: &[u8],
        change: impl FnOnce(&mut RecordHeader, &mut [u8]),
    ) -> Forge {
        let layout = self.layout();
        let mut scratch = Scratch::new();
        let archive = layout.view(&self.bytes);
        let offset = archive.find(key, &mut scratch).expect("sound").expect("there").offset();
        let (forge, place) = self.place(SectionKind::RECORDS);
        let start = offset as usize - place.start;
        forge.content(SectionKind::RECORDS, |records| {
            let record = &mut records[start..];
            let (header, _) = RecordHeader::read_from_prefix(record).expect("a record");
            let record = &mut record[..header.bytes.get() as usize];
            let (header, rest) = RecordHeader::mut_from_prefix(record).expect("a record");
            change(header, rest);
            // The check covers the length in the header, as far as there are bytes.
            let length = (header.bytes.get() as usize).clamp(32, records.len() - start);
            let check = xxh3_64_with_seed(&records[start + 8..start + length], offset) as u32;
            records[start..start + 4].copy_from_slice(&check.to_le_bytes());
        })
    }

    fn place(self, kind: SectionKind) -> (Forge, core::ops::Range<usize>) {
        let mut forge = self;
        let row = *forge.row_of(kind);
        let start = row.offset.get() as usize;
        (forge, start..start + row.bytes.get() as usize)
    }

    fn row_of(&mut self, kind: SectionKind) -> &mut SectionRow {
        let (header, table) = FileHeader::mut_from_prefix(&mut self.bytes).expect("a header");
        let count = header.sections.get() as usize;
        let (rows, _) = <[SectionRow]>::mut_from_prefix_with_elems(table, count).expect("rows");
        rows.iter_mut().find(|row| row.kind.get() == kind.0).expect("in the table")
    }

    fn seal_page(mut self) -> Forge {
        self.bytes[24..32].fill(0);
        let check = xxh3_64(&self.bytes[..HEADER_PAGE_BYTES]);
        self.bytes[24..32].copy_from_slice(&check.to_le_bytes());
        self
    }
}
