//! The bytes of an archive. Little endian throughout; every offset counts from the first byte of
//! the file; every structure has a size that is proven below and documented, with an example, in
//! `docs/archive-format.md`.
//!
//! ```text
//! 0      ┌──────────────────────────────────────────────┐
//!        │ header page: FileHeader, SectionRow × n, 0…  │ 4096 bytes, xxh3 over all of it
//!        │                                              │ each row has the section's digest
//! 4096   ├──────────────────────────────────────────────┤
//!        │ bodies     stored bytes, 8- or 4096-aligned  │
//!        │ shared     SharedHeader + field lines, each  │ hashed and copied at open
//!        │ meta       key=value lines                   │
//!        │ index      IndexHeader, Bucket × n           │ each bucket has a checksum
//!        │ records    RecordHeader + path + target +    │ each record has a checksum
//!        │            RepresentationRow × n, each       │
//!        │ externals  ExternalRow × n                   │ each row has a checksum
//!        │ rules      RuleHeader + host + path + query  │ hashed and copied at open
//!        │            + target, each                    │
//!        │ digests    DigestRow × n                     │ blake3 of each stored body
//!        │ previous   age + length + path, each         │ read by builds and tools alone
//!        │ origins    OriginRow × n                     │ read by builds alone
//!        │ code       lengths + path + content, each    │ hashed and copied when it is run
//!        │ field      FieldRuleHeader + pattern +       │ hashed and copied at open
//!        │ rules      changes, each                     │
//!        └──────────────────────────────────────────────┘
//! ```
//!
//! Sections are found through the table alone; a reader must not expect this order. They do not
//! overlap, the table lists them by rising offset, bytes between them are zero, and the file ends
//! with the last one.
//!
//! **One digest names the file.** The section table is the root of a tree of blake3 digests: a row
//! has that of its section, and the digests section has one for each body. blake3 over the table
//! (`Layout::digest`) thereby stands for every byte that is served.
//!
//! **Checksums depend on the position.** Those of records, buckets and rows are xxh3 seeded with
//! the structure's own file offset, so that a block of the file that was stored at the wrong place
//! is as visible as a flipped bit.
//!
//! **Versioning.** [`FORMAT_VERSION`] changes when the header page changes shape. A section's
//! version changes when its content does. A reader skips sections of unknown kind, or of unknown
//! version, unless [`SECTION_REQUIRED`] is set: then it refuses the file. Reserved bytes are zero
//! and a reader refuses other values in the parts that it reads, so a later version can give them a
//! meaning.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every archive: a byte that no text begins with, the name, and a line feed that
/// a text-mode transfer would change.
pub const MAGIC: [u8; 8] = *b"\x89PINION\n";

/// Shape of the header page.
pub const FORMAT_VERSION: u32 = 3;

/// The header page: header, section table, zeros. Bodies begin after it, on a page.
pub const HEADER_PAGE_BYTES: usize = 4096;

/// Sections begin at a multiple of this: an index bucket is one cache line.
pub const SECTION_ALIGN_BYTES: u64 = 64;

/// Records and small bodies begin at a multiple of this.
pub const RECORD_ALIGN_BYTES: u64 = 8;

/// Large bodies begin at a multiple of this.
pub const PAGE_BYTES: u64 = 4096;

/// [`SectionRow::flags`]: a reader that does not know this section must refuse the file.
pub const SECTION_REQUIRED: u16 = 1;

/// [`RecordHeader::flags`]: the request's query is carried over to the target.
pub const RECORD_KEEPS_QUERY: u8 = 1;

/// [`RecordHeader::flags`]: a forced rule may apply to this path, so the rules are walked before
/// the entry responds.
pub const RECORD_RULES_FIRST: u8 = 2;

/// [`RecordHeader::flags`]: the entry [`VARIANT_PREFIX`] + path responds to clients that prefer
/// JSON.
pub const RECORD_HAS_VARIANT: u8 = 4;

/// [`IndexHeader::flags`]: there is a single-page fallback, the entry [`SINGLE_PAGE_KEY`].
pub const INDEX_SINGLE_PAGE: u64 = 1;

/// [`IndexHeader::flags`]: a path does not lead to its other slash form.
pub const INDEX_NO_SLASH_REDIRECTS: u64 = 2;

/// [`IndexHeader::flags`]: responses do not have the entity tags of representations.
pub const INDEX_NO_ETAGS: u64 = 4;

/// [`IndexHeader::flags`]: there are error pages, entries with [`ERROR_PREFIX`].
pub const INDEX_ERROR_PAGES: u64 = 8;

/// All flags of an index that have a meaning.
pub const INDEX_FLAGS: u64 =
    INDEX_SINGLE_PAGE | INDEX_NO_SLASH_REDIRECTS | INDEX_NO_ETAGS | INDEX_ERROR_PAGES;

/// [`RuleHeader::flags`]: the rule applies although the path has an entry.
pub const RULE_FORCED: u8 = 1;

/// [`RuleHeader::flags`]: a redirect carries the request's query over to its target.
pub const RULE_KEEPS_QUERY: u8 = 2;

/// [`RecordHeader::modified`] of an entry without a modification time.
pub const MODIFIED_NONE: i64 = i64::MIN;

/// [`RecordHeader::shared`] of an entry without a shared block of its own.
pub const SHARED_NONE: u32 = u32::MAX;

/// [`RepresentationRow::storage`]: stored in the bodies section; `offset` counts from the first
/// byte of the file and `external` is zero.
pub const STORAGE_BODIES_SECTION: u8 = 0;

/// [`RepresentationRow::storage`]: stored outside the archive; `external` is the row of the
/// externals section and `offset` counts from the first byte of that file.
pub const STORAGE_EXTERNAL_FILE: u8 = 1;

/// Keys of fallback pages, of status 404 or 200: this, then the directory (`404:/`, `404:/docs/`).
/// A request's path begins with a slash, so no request can ask for this or for the keys below.
pub const FALLBACK_PREFIX: &[u8] = b"404:";

/// Keys of JSON variants: this, then the path of the entry with [`RECORD_HAS_VARIANT`].
pub const VARIANT_PREFIX: &[u8] = b"json:";

/// Key of the page that responds to navigations to paths without an entry.
pub const SINGLE_PAGE_KEY: &[u8] = b"spa:/";

/// Prefix of the keys of pages that are sent in place of the built-in ones: this, then the status
/// (`error:500`).
pub const ERROR_PREFIX: &[u8] = b"error:";

/// Keys of files that were read and not published, such as rules: this, then the path of the file.
/// They are [private](crate::EntryKind::Private), for tools that make the folder again.
pub const FILE_PREFIX: &[u8] = b"file:";

/// [`OriginRow::stored`] of a form that did not pay.
pub const ORIGIN_NOT_KEPT: u32 = u32::MAX;

/// Slots of one [`Bucket`].
pub const BUCKET_SLOTS: usize = 7;

/// The kind of a section. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionKind(pub u32);

impl SectionKind {
    /// Stored bytes of representations.
    pub const BODIES: SectionKind = SectionKind(1);
    /// Path hash → record.
    pub const INDEX: SectionKind = SectionKind(2);
    /// One record per path.
    pub const RECORDS: SectionKind = SectionKind(3);
    /// Field lines that representations have in common.
    pub const SHARED: SectionKind = SectionKind(4);
    /// The facts about the build, as `key=value` lines.
    pub const META: SectionKind = SectionKind(5);
    /// Files that stayed outside the archive.
    pub const EXTERNALS: SectionKind = SectionKind(6);
    /// blake3 of each stored body.
    pub const DIGESTS: SectionKind = SectionKind(7);
    /// Redirects and rewrites by pattern or condition, in their order.
    pub const RULES: SectionKind = SectionKind(16);
    /// Changes of response fields by pattern, in their order.
    pub const FIELD_RULES: SectionKind = SectionKind(22);
    /// Entries that earlier archives have left.
    pub const PREVIOUS: SectionKind = SectionKind(20);
    /// The encoder that made each stored body, and the content of the body.
    pub const ORIGINS: SectionKind = SectionKind(21);
    /// Scripts, templates and the files that they include: run and never sent.
    pub const CODE: SectionKind = SectionKind(17);
    /// Not written yet. A signature of the archive's digest cannot be covered by it.
    pub const SIGNATURES: SectionKind = SectionKind(19);

    /// Returns the name of the kind, for messages. Some kinds from 16 on are reserved for sections
    /// that no program writes yet (docs/archive-format.md, "Section kinds").
    pub fn name(self) -> &'static str {
        match self.0 {
            1 => "bodies",
            2 => "index",
            3 => "records",
            4 => "shared",
            5 => "meta",
            6 => "externals",
            7 => "digests",
            16 => "rules",
            17 => "code",
            18 => "dictionaries",
            19 => "signatures",
            20 => "previous assets",
            21 => "origins",
            22 => "field rules",
            _ => "unknown",
        }
    }
}

/// The first 128 bytes of the file.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FileHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`FORMAT_VERSION`].
    pub version: U32,
    /// Rows of the section table that follows.
    pub sections: U32,
    /// Length of the whole file.
    pub total_bytes: U64,
    /// xxh3-64 of the header page with these 8 bytes zero.
    pub checksum: U64,
    /// Zero.
    pub reserved: [u8; 96],
}

/// One row of the section table.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SectionRow {
    /// [`SectionKind`].
    pub kind: U32,
    /// Version of the section's content.
    pub version: U16,
    /// [`SECTION_REQUIRED`]; the other bits are zero.
    pub flags: U16,
    /// Its offset, a multiple of [`SECTION_ALIGN_BYTES`].
    pub offset: U64,
    /// Its length.
    pub bytes: U64,
    /// blake3 of the section; zero for the bodies, which the digests section covers.
    pub digest: [u8; 32],
    /// Zero.
    pub reserved: [u8; 8],
}

/// The first 64 bytes of the index section.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct IndexHeader {
    /// Buckets that follow, at least 1.
    pub buckets: U64,
    /// Entries in them.
    pub entries: U64,
    /// Seed of the path hash.
    pub seed: U64,
    /// Bit *d* is set when a fallback page lives in a directory *d* levels below the root.
    pub fallback_depths: U64,
    /// The flags of [`INDEX_FLAGS`]; the other bits are zero.
    pub flags: U64,
    /// Zero.
    pub reserved: [u8; 16],
    /// xxh3-64 of the 56 bytes before it, seeded with the header's file offset.
    pub checksum: U64,
}

/// One cache line of the index.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Bucket {
    /// Filled from the front, zero when free: tag (low 24 bits of the path hash) << 40 | record
    /// offset ÷ 8.
    pub slots: [U64; BUCKET_SLOTS],
    /// xxh3-64 of the 56 bytes before it, seeded with the bucket's file offset.
    pub checksum: U64,
}

/// The first 32 bytes of a record. Path, target and zeros up to a multiple of 8 follow, then the
/// [`RepresentationRow`]s.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// Low 32 bits of xxh3-64 over the record from byte 8 on, seeded with its file offset.
    pub checksum: U32,
    /// Length of the whole record, a multiple of 8. It says how much is hashed, and is thereby
    /// part of the checksum; hashing from a multiple of 8 on is faster.
    pub bytes: U32,
    /// [`EntryKind`](crate::EntryKind).
    pub kind: u8,
    /// [`RECORD_KEEPS_QUERY`], [`RECORD_RULES_FIRST`], [`RECORD_HAS_VARIANT`]; the other bits are
    /// zero.
    pub flags: u8,
    /// Status of the response; for a resource 200, for a fallback page 200 or 404.
    pub status: U16,
    /// Length of the path key.
    pub path_bytes: U16,
    /// Length of the target string.
    pub target_bytes: U16,
    /// Modification time in Unix seconds, or [`MODIFIED_NONE`].
    pub modified: I64,
    /// Shared block of a response without a body, or [`SHARED_NONE`].
    pub shared: U32,
    /// Rows that follow path and target.
    pub representations: U16,
    /// Zero.
    pub reserved: U16,
}

/// One stored form of an entry's content. The rows of a record are sorted by rising coding, no
/// coding comes twice, and the first is the identity.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RepresentationRow {
    /// The offset of the body; see `storage`.
    pub offset: U64,
    /// Length of the body.
    pub bytes: U64,
    /// Opaque tag: base64url of 16 bytes, without quotes.
    pub etag: [u8; 22],
    /// Content coding: 0 identity, 1 gzip, 2 br, 3 zstd. A reader leaves out rows with a coding
    /// that it does not know.
    pub coding: u8,
    /// [`STORAGE_BODIES_SECTION`] or [`STORAGE_EXTERNAL_FILE`].
    pub storage: u8,
    /// Shared block that goes with it.
    pub shared: U32,
    /// Row of the externals section, else zero.
    pub external: U32,
}

/// The first 40 bytes of a shared block. The six variants follow in the order of their lengths,
/// then zeros up to a multiple of 8. A block's number is its rank in the section.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SharedHeader {
    /// Length of the whole block, a multiple of 8.
    pub bytes: U32,
    /// Status of the responses it belongs to.
    pub status: U16,
    /// [`Role`](crate::Role).
    pub role: U16,
    /// Length of the `Content-Type` line at the start of `h1_full` with its CRLF, or 0.
    pub type_line_bytes: U32,
    /// HTTP/1 field lines of a full response.
    pub h1_full_bytes: U32,
    /// HTTP/1 field lines of a 304.
    pub h1_not_modified_bytes: U32,
    /// HPACK lines of a full response; 0 when written and skipped when read, because these lines
    /// are made when an archive is opened.
    pub hpack_full_bytes: U32,
    /// HPACK lines of a 304.
    pub hpack_not_modified_bytes: U32,
    /// QPACK lines of a full response; 0 as those of HPACK.
    pub qpack_full_bytes: U32,
    /// QPACK lines of a 304.
    pub qpack_not_modified_bytes: U32,
    /// Number of an earlier block plus 1, that of the same fields before rules have changed them;
    /// 0: no rule has.
    pub plain: U32,
}

/// A file that stayed outside the archive; its number is its rank in the section.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExternalRow {
    /// Length of the file when the archive was built.
    pub bytes: U64,
    /// Its modification time in nanoseconds since 1970.
    pub modified_ns: I64,
    /// Zero.
    pub reserved: [u8; 8],
    /// xxh3-64 of the 24 bytes before it, seeded with the row's file offset.
    pub checksum: U64,
}

/// One stored body. The rows rise by offset and do not overlap; bytes of the bodies section that
/// no row covers are zero.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DigestRow {
    /// The offset of the body, from the first byte of the file.
    pub offset: U64,
    /// Its length, at least 1.
    pub bytes: U64,
    /// blake3 of it.
    pub digest: [u8; 32],
}

/// The first 16 bytes of a rule. Its host, path, query and target follow, as
/// `docs/archive-format.md` has them, then zeros up to a multiple of 8. A rule's number is its rank
/// in the section.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RuleHeader {
    /// Length of the whole rule, a multiple of 8.
    pub bytes: U32,
    /// Status of the response.
    pub status: U16,
    /// [`RULE_FORCED`], [`RULE_KEEPS_QUERY`]; the other bits are zero.
    pub flags: u8,
    /// Length of the host, 0 for any host.
    pub host_bytes: u8,
    /// Length of the path's parts.
    pub path_bytes: U16,
    /// Length of the query's conditions.
    pub query_bytes: U16,
    /// Length of the target's parts.
    pub target_bytes: U16,
    /// Zero.
    pub reserved: U16,
}

/// The first 16 bytes of a rule for fields. Its pattern and its changes follow, as
/// `docs/archive-format.md` has them, then zeros up to a multiple of 8.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FieldRuleHeader {
    /// Length of the whole rule, a multiple of 8.
    pub bytes: U32,
    /// Length of its changes.
    pub changes_bytes: U32,
    /// Length of its pattern.
    pub pattern_bytes: U16,
    /// Zero.
    pub reserved: [u8; 6],
}

/// The result of one encoder for one content. The rows rise by content, method and level.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct OriginRow {
    /// Row of the content in the digests section.
    pub content: U32,
    /// Row of its coded form there, or [`ORIGIN_NOT_KEPT`].
    pub stored: U32,
    /// Coding of that form.
    pub coding: u8,
    /// The encoder: 1 libdeflate, 2 zopfli, 3 brotli, 4 zstd.
    pub method: u8,
    /// Level, on the method's own scale.
    pub level: u8,
    /// Changes when the method at that level gives other bytes.
    pub edition: u8,
}

const _: () = {
    assert!(size_of::<FileHeader>() == 128);
    assert!(size_of::<SectionRow>() == 64);
    assert!(size_of::<IndexHeader>() == 64);
    assert!(size_of::<Bucket>() == 64);
    assert!(size_of::<RecordHeader>() == 32);
    assert!(size_of::<RepresentationRow>() == 48);
    assert!(size_of::<SharedHeader>() == 40);
    assert!(size_of::<ExternalRow>() == 32);
    assert!(size_of::<DigestRow>() == 48);
    assert!(size_of::<RuleHeader>() == 16);
    assert!(size_of::<FieldRuleHeader>() == 16);
    assert!(size_of::<OriginRow>() == 12);
    let table_bytes = crate::limits::SECTIONS_MAX * size_of::<SectionRow>();
    assert!(size_of::<FileHeader>() + table_bytes == HEADER_PAGE_BYTES);
    assert!(crate::limits::PATH_MAX_BYTES <= u16::MAX as usize);
    assert!(crate::limits::TARGET_MAX_BYTES <= u16::MAX as usize);
};
