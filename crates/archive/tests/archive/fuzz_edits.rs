//! Edits of an archive from inputs of the fuzzer, and the correction of its checksums.

use pinion_archive::SectionKind;
use pinion_archive::layout::{DigestRow, FileHeader, HEADER_PAGE_BYTES, RecordHeader, SectionRow};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::{FromBytes, IntoBytes};

/// An edit with this bit counts from the end of the header page, otherwise from the section of that
/// kind.
const FROM_PAGE: u8 = 0x80;

/// Applies edits of four bytes each: the base (a kind: the start of that section; a kind that the
/// archive does not have: the start of the file; [`FROM_PAGE`]: the end of the header page), two
/// bytes of offset, and one that is combined with the byte there. With these bases, the meaning of
/// an input does not change when the order of sections changes.
pub(crate) fn edit(whole: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for edit in edits.chunks_exact(4) {
        let start = match edit[0] {
            FROM_PAGE.. => HEADER_PAGE_BYTES,
            kind => section_start(whole, kind).unwrap_or(0),
        };
        let offset = start + (usize::from(edit[1]) << 8 | usize::from(edit[2]));
        let length = bytes.len();
        bytes[offset % length] ^= edit[3];
    }
    bytes
}

fn section_start(whole: &[u8], kind: u8) -> Option<usize> {
    let (header, table) = FileHeader::read_from_prefix(whole).ok()?;
    let rows = table.chunks_exact(size_of::<SectionRow>()).take(header.sections.get() as usize);
    let mut rows = rows.filter_map(|row| SectionRow::read_from_bytes(row).ok());
    rows.find(|row| row.kind.get() == u32::from(kind)).map(|row| row.offset.get() as usize)
}

/// Corrects every checksum whose bytes can be found, in the order in which a reader checks them.
/// Invalid offsets stay unchanged.
pub(crate) fn correct_checksums(bytes: &mut [u8]) {
    let Ok((header, table)) = FileHeader::read_from_prefix(bytes) else { return };
    let count = (header.sections.get() as usize).min(table.len() / size_of::<SectionRow>());
    correct_body_digests(bytes, count);
    for number in 0..count {
        let offset = size_of::<FileHeader>() + number * size_of::<SectionRow>();
        let Ok((mut row, _)) = SectionRow::read_from_prefix(&bytes[offset..]) else { return };
        let (start, length) = (row.offset.get() as usize, row.bytes.get() as usize);
        let Some(end) = start.checked_add(length).filter(|&end| end <= bytes.len()) else {
            continue;
        };
        let section = &mut bytes[start..end];
        match SectionKind(row.kind.get()) {
            SectionKind::INDEX => correct_trailing_checksums(section, start as u64, 64),
            SectionKind::RECORDS => correct_record_checksums(section, start as u64),
            SectionKind::EXTERNALS => correct_trailing_checksums(section, start as u64, 32),
            _ => {}
        }
        if SectionKind(row.kind.get()) != SectionKind::BODIES {
            row.digest = *blake3::hash(section).as_bytes();
        }
        bytes[offset..offset + size_of::<SectionRow>()].copy_from_slice(row.as_bytes());
    }
    if bytes.len() >= HEADER_PAGE_BYTES {
        bytes[24..32].fill(0);
        let checksum = xxh3_64(&bytes[..HEADER_PAGE_BYTES]);
        bytes[24..32].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Corrects the digests of the bodies, before that of their section.
fn correct_body_digests(bytes: &mut [u8], count: usize) {
    for number in 0..count {
        let offset = size_of::<FileHeader>() + number * size_of::<SectionRow>();
        let Ok((row, _)) = SectionRow::read_from_prefix(&bytes[offset..]) else { return };
        let (start, length) = (row.offset.get() as usize, row.bytes.get() as usize);
        let end = start.checked_add(length).filter(|&end| end <= bytes.len());
        let Some(end) = end.filter(|_| row.kind.get() == SectionKind::DIGESTS.0) else { continue };
        for offset in (start..end).step_by(size_of::<DigestRow>()) {
            let Ok((mut row, _)) = DigestRow::read_from_prefix(&bytes[offset..end]) else { return };
            let (start, length) = (row.offset.get() as usize, row.bytes.get() as usize);
            let body = start.checked_add(length).and_then(|end| bytes.get(start..end));
            let Some(body) = body else { continue };
            row.digest = *blake3::hash(body).as_bytes();
            bytes[offset..offset + size_of::<DigestRow>()].copy_from_slice(row.as_bytes());
        }
    }
}

/// Corrects structures of `length` bytes, each with its checksum in the last 8.
fn correct_trailing_checksums(structures: &mut [u8], offset: u64, length: usize) {
    for (number, structure) in structures.chunks_exact_mut(length).enumerate() {
        let offset = offset + (number * length) as u64;
        let (content, checksum) = structure.split_at_mut(length - 8);
        checksum.copy_from_slice(&xxh3_64_with_seed(content, offset).to_le_bytes());
    }
}

/// Corrects the checksums of records, as far as their lengths are valid.
fn correct_record_checksums(records: &mut [u8], offset: u64) {
    let mut at = 0;
    while let Some((header, _)) =
        records.get(at..).and_then(|rest| RecordHeader::read_from_prefix(rest).ok())
    {
        let length = (header.bytes.get() as usize).clamp(32, records.len() - at);
        let checksum = xxh3_64_with_seed(&records[at + 8..at + length], offset + at as u64) as u32;
        records[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        at += length;
    }
}
