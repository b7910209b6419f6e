//! Changes an archive and makes its checks right again, as an attacker would.

use pinion_archive::layout::{
    Bucket, DigestRow, FileHeader, HEADER_PAGE_BYTES, IndexHeader, RecordHeader, SectionRow,
};
use pinion_archive::{Layout, Scratch, SectionKind};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::{FromBytes, IntoBytes};

use crate::sample::site;

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
            // The check covers as much as the header now says, as far as there are bytes.
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

/// Makes every check right again that covers bytes which can be found, in the order in which a
/// reader comes to them. What leads nowhere stays as it is.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let Ok((header, table)) = FileHeader::read_from_prefix(bytes) else { return };
    let count = (header.sections.get() as usize).min(table.len() / size_of::<SectionRow>());
    reseal_bodies(bytes, count);
    for number in 0..count {
        let place = size_of::<FileHeader>() + number * size_of::<SectionRow>();
        let Ok((mut row, _)) = SectionRow::read_from_prefix(&bytes[place..]) else { return };
        let (start, length) = (row.offset.get() as usize, row.bytes.get() as usize);
        let Some(end) = start.checked_add(length).filter(|&end| end <= bytes.len()) else {
            continue;
        };
        let section = &mut bytes[start..end];
        match SectionKind(row.kind.get()) {
            SectionKind::INDEX => reseal_tails(section, start as u64, 64),
            SectionKind::RECORDS => reseal_records(section, start as u64),
            SectionKind::EXTERNALS => reseal_tails(section, start as u64, 32),
            _ => {}
        }
        if SectionKind(row.kind.get()) != SectionKind::BODIES {
            row.digest = *blake3::hash(section).as_bytes();
        }
        bytes[place..place + size_of::<SectionRow>()].copy_from_slice(row.as_bytes());
    }
    if bytes.len() >= HEADER_PAGE_BYTES {
        bytes[24..32].fill(0);
        let check = xxh3_64(&bytes[..HEADER_PAGE_BYTES]);
        bytes[24..32].copy_from_slice(&check.to_le_bytes());
    }
}

/// The digests of the bodies, before that of their section.
fn reseal_bodies(bytes: &mut [u8], count: usize) {
    for number in 0..count {
        let place = size_of::<FileHeader>() + number * size_of::<SectionRow>();
        let Ok((row, _)) = SectionRow::read_from_prefix(&bytes[place..]) else { return };
        let (start, length) = (row.offset.get() as usize, row.bytes.get() as usize);
        let end = start.checked_add(length).filter(|&end| end <= bytes.len());
        let Some(end) = end.filter(|_| row.kind.get() == SectionKind::DIGESTS.0) else { continue };
        for place in (start..end).step_by(size_of::<DigestRow>()) {
            let Ok((mut row, _)) = DigestRow::read_from_prefix(&bytes[place..end]) else { return };
            let (start, length) = (row.offset.get() as usize, row.bytes.get() as usize);
            let body = start.checked_add(length).and_then(|end| bytes.get(start..end));
            let Some(body) = body else { continue };
            row.digest = *blake3::hash(body).as_bytes();
            bytes[place..place + size_of::<DigestRow>()].copy_from_slice(row.as_bytes());
        }
    }
}

/// Structures of `length` bytes, each with its check in the last 8.
fn reseal_tails(structures: &mut [u8], offset: u64, length: usize) {
    for (number, structure) in structures.chunks_exact_mut(length).enumerate() {
        let place = offset + (number * length) as u64;
        let (content, check) = structure.split_at_mut(length - 8);
        check.copy_from_slice(&xxh3_64_with_seed(content, place).to_le_bytes());
    }
}

fn reseal_records(records: &mut [u8], offset: u64) {
    let mut at = 0;
    while let Some((header, _)) =
        records.get(at..).and_then(|rest| RecordHeader::read_from_prefix(rest).ok())
    {
        let length = (header.bytes.get() as usize).clamp(32, records.len() - at);
        let check = xxh3_64_with_seed(&records[at + 8..at + length], offset + at as u64) as u32;
        records[at..at + 4].copy_from_slice(&check.to_le_bytes());
        at += length;
    }
}
