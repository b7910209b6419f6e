//! Damage of an archive. [`OpenError`] refuses the file; [`Damage`] makes one resource respond with
//! status 500 and leaves the rest of the site as it is.

use crate::layout::{FORMAT_VERSION, HEADER_PAGE_BYTES, SectionKind};

/// The reason why a file is not served at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The first bytes are not those of an archive.
    #[error("not a Pinion archive; `pinion build` makes one")]
    NotAnArchive,
    /// Not even a whole header page.
    #[error(
        "truncated archive: {bytes} bytes, and its header alone has {HEADER_PAGE_BYTES}; copy or \
         build it again"
    )]
    NoHeaderPage {
        /// Length of the file.
        bytes: u64,
    },
    /// Written in a newer (or never published) format.
    #[error(
        "archive format {found}; this program reads format {FORMAT_VERSION}: build the archive \
         again with this version of pinion, or install the one that built it"
    )]
    Version {
        /// The version the file names.
        found: u32,
    },
    /// The header page differs from the written one.
    #[error("damaged archive: the header page does not match its checksum; copy or build it again")]
    HeaderCheck,
    /// The header page is as written, but not as the format wants it.
    #[error("malformed archive: reserved bytes of the header page are not zero; build it again")]
    HeaderReserved,
    /// More sections than fit the header page.
    #[error("malformed archive: {found} sections do not fit the header page; build it again")]
    SectionCount {
        /// The number the header names.
        found: u32,
    },
    /// The file ends before the header says so.
    #[error("truncated archive: {actual} bytes of {expected}; copy or build it again")]
    Truncated {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes there are.
        actual: u64,
    },
    /// The file continues after the header says it ends.
    #[error(
        "malformed archive: {actual} bytes, its header says {expected}; copy or build it again"
    )]
    TooLong {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes there are.
        actual: u64,
    },
    /// The file continues after its last section, or there is none.
    #[error("malformed archive: {bytes} bytes, its last section ends at {end}; build it again")]
    EndOfLast {
        /// The end of the last section.
        end: u64,
        /// Bytes according to the header.
        bytes: u64,
    },
    /// One section cannot be used.
    #[error(
        "unusable archive: {} section (kind {}): {fault}; build it again with this version of \
         pinion",
        kind.name(), kind.0
    )]
    Section {
        /// Which.
        kind: SectionKind,
        /// Why.
        fault: SectionFault,
    },
    /// A part that is read when the file is opened is damaged.
    #[error(transparent)]
    Damage(#[from] Damage),
}

/// The reason why a section cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionFault {
    /// The table has no row for it.
    #[error("missing")]
    Missing,
    /// The table has two rows for it.
    #[error("listed twice")]
    Twice,
    /// It is required and this program does not know it.
    #[error("required, but this program does not know it")]
    Unknown,
    /// It is required and this program does not know this version of it.
    #[error("this program does not read version {0} of it")]
    Version(u16),
    /// Flags or reserved bytes that have no meaning.
    #[error("unknown flags")]
    Flags,
    /// Not at a multiple of 64.
    #[error("misaligned")]
    Alignment,
    /// It reaches over the end of the file, or into the header page.
    #[error("outside the file")]
    Outside,
    /// It begins before the one listed ahead of it ends.
    #[error("overlaps the section before it")]
    Overlap,
    /// Its length is impossible.
    #[error("impossible length")]
    Length,
    /// Its content does not match its digest.
    #[error("does not match its digest")]
    Digest,
}

/// One damaged structure.
///
/// Its fields fill whole words (hence `repr(u32)` on [`ArchivePart`] and [`Fault`]): nearly every
/// step of a lookup returns it or a value, and a tail of single bytes would make each such return
/// a misaligned move that stalls. Measured: 15 ns of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part} at byte {offset}: {fault}")]
pub struct Damage {
    /// The part that was read.
    pub part: ArchivePart,
    /// Its beginning, from the first byte of the file.
    pub offset: u64,
    /// Its fault.
    pub fault: Fault,
}

/// A structure that is read and checked separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum ArchivePart {
    /// A whole section.
    #[error("{} section", .0.name())]
    Section(SectionKind),
    /// The first 64 bytes of the index.
    #[error("index header")]
    IndexHeader,
    /// One bucket of the index.
    #[error("index bucket")]
    Bucket,
    /// One record.
    #[error("record")]
    Record,
    /// One shared block.
    #[error("shared block")]
    Shared,
    /// One rule.
    #[error("rule")]
    Rule,
    /// One rule for fields.
    #[error("rule for fields")]
    FieldRule,
    /// One row of the externals section.
    #[error("external file row")]
    External,
    /// The build facts.
    #[error("build facts")]
    Meta,
    /// One stored body.
    #[error("body")]
    Body,
    /// One row of the digests section.
    #[error("digest of a body")]
    DigestRow,
    /// Bytes between two sections or two bodies.
    #[error("gap")]
    Gap,
}

/// A fault of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Fault {
    /// Its checksum or digest is that of other bytes.
    #[error("does not match its checksum")]
    Checksum,
    /// It is not, or not wholly, inside its section.
    #[error("outside its section")]
    Outside,
    /// It does not begin where such a part may begin.
    #[error("misaligned")]
    Alignment,
    /// Its lengths do not add up or are over a limit.
    #[error("impossible length")]
    Length,
    /// Reserved bytes or unknown flags are set.
    #[error("reserved bytes are not zero")]
    Reserved,
    /// A path search did not end within the bound.
    #[error("search does not end")]
    Endless,
    /// A status code outside 200..=599.
    #[error("impossible status")]
    Status,
    /// The target string has bytes that may not stand in a field.
    #[error("target has forbidden bytes")]
    Target,
    /// The entity tag has bytes that may not stand in one.
    #[error("entity tag has forbidden bytes")]
    Tag,
    /// A resource without representations, or an entry whose first one is not the identity, or
    /// whose codings do not rise.
    #[error("representations are not in order")]
    Representations,
    /// It names a shared block that does not exist.
    #[error("names a shared block that does not exist")]
    SharedNumber,
    /// It names an external file that does not exist.
    #[error("names an external file that does not exist")]
    ExternalNumber,
    /// It names a capture that does not exist.
    #[error("names a capture that does not exist")]
    CaptureNumber,
    /// There are more of them, or in it, than a reader takes.
    #[error("too many")]
    TooMany,
    /// Its text breaks the rules of its kind.
    #[error("malformed text")]
    Syntax,
    /// The variant that it names does not exist.
    #[error("its variant does not exist")]
    Variant,
    /// Bytes that nothing refers to are not zero.
    #[error("not zero")]
    NotZero,
    /// A body that the digests section does not know.
    #[error("has no digest")]
    Unlisted,
    /// The index does not lead to it.
    #[error("the index does not lead here")]
    Unreachable,
    /// Two counts that must agree do not.
    #[error("counts do not agree")]
    Count,
}
