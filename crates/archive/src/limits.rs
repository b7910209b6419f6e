//! Every bound of the format, one constant each, with its reason. A file beyond one of them is
//! refused by the writer and by the reader alike.

/// Sections in the table: the number that fits into the header page beside the header.
pub const SECTIONS_MAX: usize = 62;

/// A path key. No request target is longer than 8 KiB, so no longer key could ever be asked for.
pub const PATH_MAX_BYTES: usize = 8 * 1024;

/// The target string of an entry (`Location`, `Content-Location`, rewrite): as long as a path,
/// percent-encoded, may get in practice, and far below the 16-bit length field.
pub const TARGET_MAX_BYTES: usize = 16 * 1024;

/// Representations of one entry: a handful of codings, and room for languages or dictionaries.
pub const REPRESENTATIONS_MAX: usize = 32;

/// The longest record that can be written; the reader's scratch is allocated once at this size.
pub const RECORD_MAX_BYTES: usize =
    32 + PATH_MAX_BYTES + TARGET_MAX_BYTES + 48 * REPRESENTATIONS_MAX;

/// Buckets that one lookup may visit. At the writer's load of 0.7 the longest search of a
/// million-entry table visits about 20, and about 4 more for every ten times as many entries;
/// beyond this bound the index is damaged or hostile.
pub const PROBE_MAX_BUCKETS: u64 = 64;

/// Hash seeds the writer tries before it stops looking for an index that keeps within
/// [`PROBE_MAX_BUCKETS`]. The first one fits unless someone has chosen the paths to collide.
pub const INDEX_SEEDS_MAX: u64 = 16;

/// Shared blocks are read, hashed and copied when the archive is opened, so they are bounded: a
/// site has dozens, of a few hundred bytes each.
pub const SHARED_SECTION_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// One variant of one shared block. All field lines of a response have to fit into a client's head
/// limit, which is 8 to 64 KiB in common clients.
pub const SHARED_VARIANT_MAX_BYTES: usize = 16 * 1024;

/// Rules of one archive: five times the limit of the largest hosts of such files, and few enough
/// that reading them at start is not noticed.
pub const RULES_MAX: usize = 10_000;

/// Bytes of the rules, which are read, hashed and copied when the archive is opened, like the
/// shared blocks. This is [`RULES_MAX`] rules of 400 bytes each.
pub const RULES_SECTION_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of the rules for fields, which are read, hashed and copied too when the archive is opened.
/// A line of a rules file is stored in at most two and a half times its length, and the files have
/// at most 4 MiB.
pub const FIELD_RULES_SECTION_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Captures of one rule, of its path and its query: people write one or two. They are kept on the
/// stack while a rule is tried.
pub const RULE_CAPTURES_MAX: usize = 16;

/// A host name has at most 253 characters; `*.` may stand before it.
pub const RULE_HOST_MAX_BYTES: usize = 255;

/// Bytes of the page of an error. All of these pages are read and copied when the archive is
/// opened, so that they can be sent even when it is damaged; and each is sent to every client that
/// sends a wrong request.
pub const ERROR_PAGE_MAX_BYTES: u64 = 32 * 1024;

/// One file of code: more than any that people write, and little enough to be read at once.
pub const CODE_FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// All code of a site is read, hashed and copied when the site is loaded: thousands of files as
/// people write them.
pub const CODE_SECTION_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Build facts are short `key=value` lines.
pub const META_MAX_BYTES: u64 = 1024 * 1024;

/// Directory depth at which a fallback page may live: the depths in use are one 64-bit set.
pub const FALLBACK_DEPTH_MAX: usize = 63;

/// Highest file offset a record may have: a slot keeps 40 bits of offset ÷ 8, which is 8 TiB.
pub const RECORD_OFFSET_MAX: u64 = (1 << 43) - 8;

/// Bodies from this size on begin on a page, so that the kernel can hand whole pages to a socket.
/// Below it, half a page of padding on average would cost more than it brings.
pub const PAGE_ALIGNED_BODY_MIN_BYTES: u64 = 64 * 1024;

/// Bodies that are landmarks begin on a multiple of this: the largest piece of a file that systems
/// commonly hold and copy as one.
pub const LANDMARK_ALIGN_BYTES: u64 = 64 * 1024;

/// The average distance of landmarks: half of the alignment as padding is 0.2 % of an archive.
pub const LANDMARK_EVERY_BYTES: u64 = 16 * 1024 * 1024;
