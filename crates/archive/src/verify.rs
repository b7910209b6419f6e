//! Every hash of an archive checked, every record read, damage named.
//!
//! A lookup checks only the parts it reads; this module checks the rest: the digests of sections
//! and bodies, the zeros between them, and that the index leads to every record and nowhere else.
//! After that the archive's digest stands for every byte of the file.

use zerocopy::FromBytes;

use crate::archive::{Archive, Scratch};
use crate::byte_span::slice;
use crate::damage::{ArchivePart, Damage, Fault, OpenError};
use crate::digest::Digest;
use crate::entry::Entry;
use crate::error_pages;
use crate::index_hash;
use crate::layout::{
    DigestRow, ERROR_PREFIX, FALLBACK_PREFIX, HEADER_PAGE_BYTES, INDEX_ERROR_PAGES,
    SINGLE_PAGE_KEY, SectionKind, VARIANT_PREFIX,
};
use crate::open::{Layout, Section};
use crate::previous_assets::PreviousAssets;

/// Damages that are kept; a file of zeros would have millions.
pub const DAMAGES_MAX: usize = 1000;

/// Slots of the index that lead to no record that can be read, after which no more are followed.
const UNREADABLE_MAX: u64 = 100_000;

/// Bytes hashed between two calls of the progress function.
const STEP_BYTES: usize = 1024 * 1024;

/// The result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The digest of the archive ([`Layout::digest`]); in a sound archive it identifies these very
    /// bytes.
    pub digest: Digest,
    /// Entries that could be read.
    pub entries: u64,
    /// Sections, of known and unknown kind.
    pub sections: u64,
    /// Damage, at most [`DAMAGES_MAX`] of them.
    pub damages: Vec<Damage>,
    /// Damage beyond those.
    pub more_damages: u64,
}

impl Report {
    /// Returns whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }

    fn add(&mut self, damage: Damage) {
        if self.damages.contains(&damage) {
            return;
        }
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(damage);
        } else {
            self.more_damages += 1;
        }
    }

    fn check(&mut self, part: ArchivePart, offset: u64, holds: bool, fault: Fault) {
        if !holds {
            self.add(Damage { part, offset, fault });
        }
    }
}

/// Checks a whole file. `progress` is called with the bytes hashed so far and the bytes to hash.
///
/// A file that cannot be opened is an error; everything else is in the report.
pub fn verify(bytes: &[u8], progress: &mut dyn FnMut(u64, u64)) -> Result<Report, OpenError> {
    let layout = Layout::open(bytes)?;
    let archive = layout.view(bytes);
    let mut report = Report {
        digest: layout.digest(),
        sections: layout.sections().len() as u64,
        ..Report::default()
    };
    let mut done = HEADER_PAGE_BYTES as u64;
    for section in layout.sections() {
        check_gap(bytes, done, section.offset, &mut report);
        let mut advance = |step: usize| {
            done += step as u64;
            progress(done, layout.total_bytes());
        };
        // By its offset too: only the bodies that lookups lead to have their digests elsewhere.
        if section.kind == SectionKind::BODIES && section.span() == layout.bodies {
            check_bodies(&archive, section, &mut advance, &mut report);
        } else {
            check_section(bytes, section, &mut advance, &mut report);
        }
        done = section.offset + section.bytes;
    }
    if let Err(damage) = archive.meta() {
        report.add(damage);
    }
    if let Err(damage) = archive.code() {
        report.add(damage);
    }
    let previous = archive.previous().unwrap_or_else(|damage| {
        report.add(damage);
        PreviousAssets::default()
    });
    for number in 0..archive.external_count() {
        if let Err(damage) = archive.external(number as u32) {
            report.add(damage);
        }
    }
    check_index(&archive, &previous, &mut report);
    progress(layout.total_bytes(), layout.total_bytes());
    Ok(report)
}

/// Hashes a section, known or not, against the digest in its row.
fn check_section(
    bytes: &[u8],
    section: &Section,
    advance: &mut dyn FnMut(usize),
    report: &mut Report,
) {
    let digest = hash(bytes, section.offset, section.bytes, advance);
    let part = ArchivePart::Section(section.kind);
    report.check(part, section.offset, digest == Some(section.digest), Fault::Checksum);
}

/// Hashes every stored body, and checks that the gaps between them are zero.
fn check_bodies(
    archive: &Archive<'_>,
    section: &Section,
    advance: &mut dyn FnMut(usize),
    report: &mut Report,
) {
    let (bodies, digests) = (archive.layout.bodies, archive.layout.digests);
    let rows = slice(archive.bytes, digests.offset, digests.bytes).unwrap_or_default();
    let rows = <[DigestRow]>::ref_from_bytes(rows).unwrap_or_default();
    let mut done = bodies.offset;
    // Each body has its digest; the section's own is spare.
    let spare = section.digest == Digest::default();
    report.check(ArchivePart::Section(SectionKind::BODIES), bodies.offset, spare, Fault::Reserved);
    for (row, row_offset) in rows.iter().zip((digests.offset..).step_by(size_of::<DigestRow>())) {
        let (offset, length) = (row.offset.get(), row.bytes.get());
        // Each byte is hashed once, for any rows.
        if length == 0 || offset < done || !bodies.contains(offset, length) {
            report.add(Damage {
                part: ArchivePart::DigestRow,
                offset: row_offset,
                fault: Fault::Outside,
            });
            continue;
        }
        check_gap(archive.bytes, done, offset, report);
        let digest = hash(archive.bytes, offset, length, advance);
        report.check(
            ArchivePart::Body,
            offset,
            digest == Some(Digest(row.digest)),
            Fault::Checksum,
        );
        done = offset + length;
    }
    check_gap(archive.bytes, done, bodies.end(), report);
}

/// Returns the digest of a range of the file; `None` when the file is shorter.
fn hash(bytes: &[u8], from: u64, length: u64, advance: &mut dyn FnMut(usize)) -> Option<Digest> {
    let mut hasher = blake3::Hasher::new();
    for step in slice(bytes, from, length)?.chunks(STEP_BYTES) {
        hasher.update(step);
        advance(step.len());
    }
    Some(Digest(*hasher.finalize().as_bytes()))
}

/// Checks that the bytes between sections and bodies are zero, or they would be a place to hide
/// something.
fn check_gap(bytes: &[u8], from: u64, to: u64, report: &mut Report) {
    let gap = slice(bytes, from, to.saturating_sub(from)).unwrap_or_default();
    report.check(ArchivePart::Gap, from, gap.iter().all(|&byte| byte == 0), Fault::NotZero);
}

/// Follows every slot of the index to its record, and searches for that record's path. Ends early
/// when there is more to follow than the records can be. Entries of earlier releases are among
/// them.
fn check_index(archive: &Archive<'_>, previous: &PreviousAssets<'_>, report: &mut Report) {
    let mut scratch = Scratch::new();
    let mut again = Scratch::new();
    let (mut slots, mut record_bytes, mut unreadable) = (0, 0, 0);
    let mut of_earlier = 0;
    'buckets: for number in 0..archive.layout.index.buckets {
        let bucket = match archive.read_bucket(number) {
            Ok(bucket) => bucket,
            Err(damage) => {
                report.add(damage);
                continue;
            }
        };
        for slot in bucket.slots.iter().filter(|slot| slot.get() != 0) {
            // Slots that all lead to one long record, sound or not, would take without end.
            if record_bytes > archive.layout.records.bytes || unreadable > UNREADABLE_MAX {
                break 'buckets;
            }
            slots += 1;
            let (_, offset) = index_hash::unpack(slot.get());
            match archive.read_record(offset, &mut scratch) {
                Ok(entry) => {
                    report.entries += 1;
                    record_bytes += entry.record_bytes();
                    of_earlier += usize::from(previous.age(entry.path()).is_some());
                    check_entry(archive, &entry, &mut again, report);
                }
                Err(damage) => {
                    unreadable += 1;
                    report.add(damage);
                }
            }
        }
    }
    let index = &archive.layout.index;
    let offset = index.first_bucket;
    report.check(ArchivePart::IndexHeader, offset, slots == index.entries, Fault::Count);
    let page = archive.load(SINGLE_PAGE_KEY, &mut scratch);
    let announced = !archive.has_single_page() || page != Ok(false);
    report.check(ArchivePart::IndexHeader, offset, announced, Fault::Unreachable);
    let part = ArchivePart::Section(SectionKind::PREVIOUS);
    let offset = archive.layout.section(SectionKind::PREVIOUS).map_or(0, |section| section.offset);
    report.check(part, offset, of_earlier == previous.len(), Fault::Count);
    let records = archive.layout.records;
    let reached = record_bytes == records.bytes;
    report.check(ArchivePart::Section(SectionKind::RECORDS), records.offset, reached, Fault::Count);
}

/// Checks that a record leads to bodies and fields, and that its path leads to the record.
fn check_entry(
    archive: &Archive<'_>,
    entry: &Entry<'_>,
    scratch: &mut Scratch,
    report: &mut Report,
) {
    let damage = |fault| Damage { part: ArchivePart::Record, offset: entry.offset(), fault };
    let found = archive.find(entry.path(), scratch);
    let leads_here =
        found.is_ok_and(|found| found.is_some_and(|found| found.offset() == entry.offset()));
    if !leads_here {
        report.add(damage(Fault::Unreachable));
    }
    if let Some(fault) = check_key(archive, entry, scratch) {
        report.add(damage(fault));
    }
    let shared = entry.representations().map(|form| form.shared()).chain(entry.shared());
    for id in shared {
        if archive.shared(id).is_err() {
            report.add(damage(Fault::SharedNumber));
        }
    }
    for representation in entry.representations() {
        if let Err(damage) = archive.body_location(&representation) {
            report.add(damage);
        }
    }
}

/// Returns the fault of an entry that responds in the place of others, or that another responds
/// for.
fn check_key(archive: &Archive<'_>, entry: &Entry<'_>, scratch: &mut Scratch) -> Option<Fault> {
    let key = entry.path();
    if let Some(directory) = key.strip_prefix(FALLBACK_PREFIX) {
        let below_root = directory.iter().filter(|&&byte| byte == b'/').count().saturating_sub(1);
        let depths = archive.layout.index.fallback_depths;
        if depths.checked_shr(below_root as u32).unwrap_or(0) & 1 == 0 {
            return Some(Fault::Unreachable);
        }
        return (!matches!(entry.status(), 200 | 404)).then_some(Fault::Status);
    }
    if key == SINGLE_PAGE_KEY {
        return (!archive.has_single_page()).then_some(Fault::Unreachable);
    }
    if key.starts_with(ERROR_PREFIX) {
        let is_flagged = archive.layout.index.flags & INDEX_ERROR_PAGES != 0;
        let is_match = key == error_pages::key(entry.status());
        return (!is_flagged || !is_match).then_some(Fault::Unreachable);
    }
    if let Some(path) = key.strip_prefix(VARIANT_PREFIX) {
        let named = archive.find(path, scratch).ok().flatten();
        return (!named.is_some_and(|entry| entry.has_variant())).then_some(Fault::Unreachable);
    }
    if entry.has_variant() {
        let variant = archive.find(&[VARIANT_PREFIX, key].concat(), scratch);
        return (!matches!(variant, Ok(Some(_)))).then_some(Fault::Variant);
    }
    None
}
