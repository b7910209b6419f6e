//! Opens an archive: turns bytes into a [`Layout`]. It reads the header page, the index header, the
//! shared blocks, the rules and the error pages, independent of the number of entries.

use xxhash_rust::xxh3::xxh3_64;
use zerocopy::FromBytes;

use crate::archive::Archive;
use crate::byte_span::{ByteSpan, slice};
use crate::damage::{ArchivePart, Damage, Fault, OpenError, SectionFault};
use crate::digest::Digest;
use crate::error_pages::ErrorPages;
use crate::field_rules::FieldRules;
use crate::index_hash;
use crate::layout::{
    Bucket, DigestRow, ExternalRow, FORMAT_VERSION, FileHeader, HEADER_PAGE_BYTES,
    INDEX_ERROR_PAGES, INDEX_FLAGS, IndexHeader, MAGIC, SECTION_ALIGN_BYTES, SECTION_REQUIRED,
    SectionKind, SectionRow,
};
use crate::limits::{
    CODE_SECTION_MAX_BYTES, FIELD_RULES_SECTION_MAX_BYTES, META_MAX_BYTES, RULES_SECTION_MAX_BYTES,
    SECTIONS_MAX, SHARED_SECTION_MAX_BYTES,
};
use crate::rules::Rules;
use crate::shared_blocks::SharedTable;

/// The layout of an archive: plain values and owned copies of the shared blocks, the rules and the
/// error pages, nothing borrowed, so that it can be kept beside the mapping it was made from.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(crate) digest: Digest,
    pub(crate) total_bytes: u64,
    pub(crate) bodies: ByteSpan,
    pub(crate) records: ByteSpan,
    pub(crate) index: IndexSpan,
    pub(crate) shared: SharedTable,
    pub(crate) shared_offset: u64,
    pub(crate) externals: Option<ByteSpan>,
    pub(crate) meta: Option<Section>,
    pub(crate) digests: ByteSpan,
    pub(crate) rules: Rules,
    pub(crate) field_rules: FieldRules,
    pub(crate) error_pages: ErrorPages,
    pub(crate) sections: Vec<Section>,
}

/// The offset of the hash table, and its facts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSpan {
    pub(crate) first_bucket: u64,
    pub(crate) buckets: u64,
    pub(crate) entries: u64,
    pub(crate) seed: u64,
    pub(crate) fallback_depths: u64,
    pub(crate) flags: u64,
}

/// One row of the section table, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The kind of its content.
    pub kind: SectionKind,
    /// Version of its content.
    pub version: u16,
    /// Whether a reader that does not know it must refuse the file.
    pub required: bool,
    /// Its offset, from the first byte of the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// blake3 of its bytes, for `verify`; zero for the bodies, which have one each.
    pub digest: Digest,
}

impl Layout {
    /// Checks the header page, the section table and all bounds, hashes and copies the shared
    /// blocks and the rules. `bytes` is the whole file.
    pub fn open(bytes: &[u8]) -> Result<Layout, OpenError> {
        let page = header_page(bytes)?;
        let (header, table) = FileHeader::ref_from_prefix(&page).map_err(|_| short(bytes))?;
        let total_bytes = header.total_bytes.get();
        let actual = bytes.len() as u64;
        match actual.cmp(&total_bytes) {
            core::cmp::Ordering::Less => {
                return Err(OpenError::Truncated { expected: total_bytes, actual });
            }
            core::cmp::Ordering::Greater => {
                return Err(OpenError::TooLong { expected: total_bytes, actual });
            }
            core::cmp::Ordering::Equal => {}
        }
        let (digest, sections) = section_table(header, table)?;
        let known = KnownSections::among(&sections)?;
        let index = index_span(bytes, &known)?;
        let (shared, shared_offset) = shared_table(bytes, &known)?;
        let mut layout = Layout {
            digest,
            total_bytes,
            bodies: known.bodies.span(),
            records: known.records.span(),
            index,
            shared,
            shared_offset,
            externals: known.externals.map(|section| section.span()),
            meta: known.meta,
            digests: known.digests.span(),
            rules: rules(bytes, &known)?,
            field_rules: field_rules(bytes, &known)?,
            error_pages: ErrorPages::default(),
            sections,
        };
        if layout.index.flags & INDEX_ERROR_PAGES != 0 {
            layout.error_pages = ErrorPages::load(&layout.view(bytes));
        }
        Ok(layout)
    }

    /// Returns the archive, given the same bytes that were opened.
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> Archive<'a> {
        Archive { bytes, layout: self }
    }

    /// Returns the digest that identifies this archive: blake3 over the section table, whose rows
    /// have the digests of the sections. Opening does not compare it with the content,
    /// [`verify`](crate::verify()) does.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the length of the file.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns the number of entries in the index, of all kinds.
    pub fn entry_count(&self) -> u64 {
        self.index.entries
    }

    /// Returns the number of shared blocks.
    pub fn shared_count(&self) -> usize {
        self.shared.len()
    }

    /// Returns the section table, by rising offset.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the section of a kind, in the version that this program knows.
    pub(crate) fn section(&self, kind: SectionKind) -> Option<&Section> {
        section(&self.sections, kind)
    }
}

/// Returns the first section of a kind, in the version that this program knows.
pub(crate) fn section(sections: &[Section], kind: SectionKind) -> Option<&Section> {
    let known = |section: &&Section| section.kind == kind && section.version == SECTION_VERSION;
    sections.iter().find(known)
}

impl Section {
    /// Returns the span, whose bounds were checked against the length of the file when the table
    /// was read.
    pub(crate) fn span(&self) -> ByteSpan {
        ByteSpan { offset: self.offset, bytes: self.bytes }
    }
}

fn short(bytes: &[u8]) -> OpenError {
    OpenError::NoHeaderPage { bytes: bytes.len() as u64 }
}

/// Returns a copy of the header page that has the right magic, version and checksum.
pub(crate) fn header_page(bytes: &[u8]) -> Result<[u8; HEADER_PAGE_BYTES], OpenError> {
    if !bytes.starts_with(&MAGIC) {
        // An archive cut short within its first 8 bytes is still distinguished from other files.
        let cut = !bytes.is_empty() && MAGIC.starts_with(bytes);
        return Err(if cut { short(bytes) } else { OpenError::NotAnArchive });
    }
    let mut page = *bytes.first_chunk::<HEADER_PAGE_BYTES>().ok_or_else(|| short(bytes))?;
    let (header, _) = FileHeader::mut_from_prefix(&mut page).map_err(|_| short(bytes))?;
    let version = header.version.get();
    if version != FORMAT_VERSION {
        return Err(OpenError::Version { found: version });
    }
    let checksum = header.checksum.get();
    header.checksum.set(0);
    if xxh3_64(&page) != checksum {
        return Err(OpenError::HeaderCheck);
    }
    Ok(page)
}

/// Returns the rows of the table, inside the file, aligned, in order, apart from each other, and
/// the digest they give the archive.
pub(crate) fn section_table(
    header: &FileHeader,
    table: &[u8],
) -> Result<(Digest, Vec<Section>), OpenError> {
    let found = header.sections.get();
    let count = usize::try_from(found).unwrap_or(usize::MAX);
    if count > SECTIONS_MAX {
        return Err(OpenError::SectionCount { found });
    }
    let (rows, unused) = <[SectionRow]>::ref_from_prefix_with_elems(table, count)
        .map_err(|_| OpenError::SectionCount { found })?;
    if header.reserved.iter().chain(unused).any(|&byte| byte != 0) {
        return Err(OpenError::HeaderReserved);
    }
    let mut sections: Vec<Section> = Vec::with_capacity(count);
    let mut end_of_last = HEADER_PAGE_BYTES as u64;
    for row in rows {
        let kind = SectionKind(row.kind.get());
        let fault = |fault| OpenError::Section { kind, fault };
        let span = ByteSpan::new(row.offset.get(), row.bytes.get())
            .filter(|span| span.end() <= header.total_bytes.get())
            .filter(|span| span.offset >= HEADER_PAGE_BYTES as u64)
            .ok_or(fault(SectionFault::Outside))?;
        if span.offset < end_of_last {
            return Err(fault(SectionFault::Overlap));
        }
        if span.offset % SECTION_ALIGN_BYTES != 0 {
            return Err(fault(SectionFault::Alignment));
        }
        if row.flags.get() & !SECTION_REQUIRED != 0 || row.reserved != [0; 8] {
            return Err(fault(SectionFault::Flags));
        }
        end_of_last = span.end();
        sections.push(Section {
            kind,
            version: row.version.get(),
            required: row.flags.get() & SECTION_REQUIRED != 0,
            offset: span.offset,
            bytes: span.bytes,
            digest: Digest(row.digest),
        });
    }
    if end_of_last != header.total_bytes.get() {
        return Err(OpenError::EndOfLast { end: end_of_last, bytes: header.total_bytes.get() });
    }
    Ok((Digest::of_archive(rows), sections))
}

/// The sections this program reads.
struct KnownSections {
    bodies: Section,
    index: Section,
    records: Section,
    shared: Section,
    meta: Option<Section>,
    externals: Option<Section>,
    digests: Section,
    rules: Option<Section>,
    field_rules: Option<Section>,
    code: Option<Section>,
}

/// Version of the content of every section this program knows.
pub(crate) const SECTION_VERSION: u16 = 1;

impl KnownSections {
    fn among(sections: &[Section]) -> Result<KnownSections, OpenError> {
        const KINDS: [SectionKind; 12] = [
            SectionKind::BODIES,
            SectionKind::INDEX,
            SectionKind::RECORDS,
            SectionKind::SHARED,
            SectionKind::META,
            SectionKind::EXTERNALS,
            SectionKind::DIGESTS,
            SectionKind::RULES,
            SectionKind::FIELD_RULES,
            SectionKind::CODE,
            SectionKind::PREVIOUS,
            SectionKind::ORIGINS,
        ];
        let mut found: [Option<Section>; KINDS.len()] = [None; KINDS.len()];
        for section in sections {
            let fault = |fault| OpenError::Section { kind: section.kind, fault };
            let index = KINDS.iter().position(|&kind| kind == section.kind);
            match index.and_then(|index| found.get_mut(index)) {
                Some(slot) => {
                    // In any versions: one of the two would be bytes that no reader reads.
                    if slot.replace(*section).is_some() {
                        return Err(fault(SectionFault::Twice));
                    }
                    if section.required && section.version != SECTION_VERSION {
                        return Err(fault(SectionFault::Version(section.version)));
                    }
                }
                None if section.required => return Err(fault(SectionFault::Unknown)),
                None => {}
            }
        }
        let readable = |section: &Section| section.version == SECTION_VERSION;
        // The last two are for builds, which find them by themselves.
        let found = found.map(|section| section.filter(readable));
        let [bodies, index, records, shared, meta, externals, digests, ..] = found;
        let [.., rules, field_rules, code, _, _] = found;
        let needed = |section: Option<Section>, kind| {
            section.ok_or(OpenError::Section { kind, fault: SectionFault::Missing })
        };
        let known = KnownSections {
            bodies: needed(bodies, SectionKind::BODIES)?,
            index: needed(index, SectionKind::INDEX)?,
            records: needed(records, SectionKind::RECORDS)?,
            shared: needed(shared, SectionKind::SHARED)?,
            meta,
            externals,
            digests: needed(digests, SectionKind::DIGESTS)?,
            rules,
            field_rules,
            code,
        };
        known.check_lengths()?;
        Ok(known)
    }

    fn check_lengths(&self) -> Result<(), OpenError> {
        let row_bytes = size_of::<ExternalRow>() as u64;
        let digest_bytes = size_of::<DigestRow>() as u64;
        let fits = [
            (Some(self.shared), self.shared.bytes <= SHARED_SECTION_MAX_BYTES),
            (self.meta, self.meta.is_none_or(|meta| meta.bytes <= META_MAX_BYTES)),
            (self.externals, self.externals.is_none_or(|rows| rows.bytes % row_bytes == 0)),
            (Some(self.digests), self.digests.bytes.is_multiple_of(digest_bytes)),
            (self.rules, self.rules.is_none_or(|rules| rules.bytes <= RULES_SECTION_MAX_BYTES)),
            (
                self.field_rules,
                self.field_rules.is_none_or(|rules| rules.bytes <= FIELD_RULES_SECTION_MAX_BYTES),
            ),
            (self.code, self.code.is_none_or(|code| code.bytes <= CODE_SECTION_MAX_BYTES)),
        ];
        for (section, fits) in fits {
            if let (Some(section), false) = (section, fits) {
                let fault = SectionFault::Length;
                return Err(OpenError::Section { kind: section.kind, fault });
            }
        }
        Ok(())
    }
}

fn index_span(bytes: &[u8], known: &KnownSections) -> Result<IndexSpan, OpenError> {
    let section = known.index;
    let length = OpenError::Section { kind: section.kind, fault: SectionFault::Length };
    let content = slice(bytes, section.offset, section.bytes).ok_or(length)?;
    let (header, _) = IndexHeader::read_from_prefix(content).map_err(|_| length)?;
    let damage = |fault| Damage { part: ArchivePart::IndexHeader, offset: section.offset, fault };
    if index_hash::header_checksum(&header, section.offset) != header.checksum.get() {
        return Err(damage(Fault::Checksum).into());
    }
    if header.reserved != [0; 16] || header.flags.get() & !INDEX_FLAGS != 0 {
        return Err(damage(Fault::Reserved).into());
    }
    let header_bytes = size_of::<IndexHeader>() as u64;
    let buckets = header.buckets.get();
    let expected = buckets
        .checked_mul(size_of::<Bucket>() as u64)
        .and_then(|table| table.checked_add(header_bytes));
    if buckets == 0 || expected != Some(section.bytes) {
        return Err(length);
    }
    Ok(IndexSpan {
        first_bucket: section.offset + header_bytes,
        buckets,
        entries: header.entries.get(),
        seed: header.seed.get(),
        fallback_depths: header.fallback_depths.get(),
        flags: header.flags.get(),
    })
}

fn shared_table(bytes: &[u8], known: &KnownSections) -> Result<(SharedTable, u64), OpenError> {
    let section = known.shared;
    let copy = checked_copy(bytes, &section)?;
    Ok((SharedTable::parse(copy, section.offset)?.render(), section.offset))
}

fn rules(bytes: &[u8], known: &KnownSections) -> Result<Rules, OpenError> {
    let Some(section) = known.rules else { return Ok(Rules::default()) };
    Ok(Rules::parse(checked_copy(bytes, &section)?, section.offset)?)
}

fn field_rules(bytes: &[u8], known: &KnownSections) -> Result<FieldRules, OpenError> {
    let Some(section) = known.field_rules else { return Ok(FieldRules::default()) };
    Ok(FieldRules::parse(checked_copy(bytes, &section)?, section.offset)?)
}

/// Returns the bytes of a section that match its digest.
fn checked_copy(bytes: &[u8], section: &Section) -> Result<Box<[u8]>, OpenError> {
    let fault = |fault| OpenError::Section { kind: section.kind, fault };
    let content =
        slice(bytes, section.offset, section.bytes).ok_or(fault(SectionFault::Outside))?;
    // Copied before it is hashed: a mapped file can change between two reads.
    let copy: Box<[u8]> = content.into();
    if Digest::of(&copy) != section.digest {
        return Err(fault(SectionFault::Digest));
    }
    Ok(copy)
}
