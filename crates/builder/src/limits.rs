//! Every bound of the build, one constant each, with its reason.

use std::ops::Range;

/// Names that one walk looks at. A file takes about 800 bytes while building, so this is 13 GiB;
/// links that point at each other can name far more paths than a disk has files.
pub const FILES_MAX: usize = 1 << 24;

/// The most times that a walk enters folders that it has entered before, by other paths: links from
/// each of a hundred versions of a site to some hundred folders that they share. Two links in each
/// of 20 levels would name a million paths.
pub const REPEATED_FOLDERS_MAX: usize = 1 << 15;

/// Names of one folder that are read before the walk asks again whether it is cancelled: some
/// milliseconds.
pub const NAMES_UNASKED: usize = 1024;

/// Links from the name of an archive to its place: as many as Linux follows (path_resolution(7)).
pub const LINKS_MAX: usize = 40;

/// The most content, stored codings included, that is read but not yet written. A large file that
/// is encoded holds up all that come after it: they wait in memory.
pub const WINDOW_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The window where no file is large. It is enough to keep all cores busy.
pub const WINDOW_MIN_BYTES: u64 = 32 * 1024 * 1024;

/// Files of up to this size are held in memory and encoded; larger ones are copied piece by piece
/// and stored as they are. One such file with two codings may exceed [`WINDOW_MAX_BYTES`]; it then
/// has the window for itself.
pub const HELD_MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The cost in the window of a file that is copied piece by piece. It holds a descriptor while it
/// waits: this bounds them at 64.
pub const STREAMED_COST_BYTES: u64 = WINDOW_MAX_BYTES / 64;

/// Pieces of a file that is not held in memory.
pub const PIECE_BYTES: usize = 128 * 1024;

/// Files that one worker takes at once: handing them over one by one would cost more than reading
/// them.
pub const BATCH_FILES_MAX: usize = 64;

/// Content one worker takes at once, unless a single file is larger. Small, so that the last batch
/// does not keep one core busy for long.
pub const BATCH_BYTES_MAX: u64 = 512 * 1024;

/// When a folder is served, files larger than this are not copied but sent from where they are.
pub const EXTERNAL_MIN_BYTES: u64 = 1024 * 1024;

/// The cost of a coding, for a response in fields (`Content-Encoding`, `Vary`) and for a client in
/// work; a coding is kept when stored bytes and this are at most [`KEEP_PERCENT`] of the identity.
pub const CODING_OVERHEAD_BYTES: u64 = 64;

/// The most percent of the identity that a stored coding may have; see [`CODING_OVERHEAD_BYTES`].
pub const KEEP_PERCENT: u64 = 95;

/// Lengths of content for which gzip's level 6 takes libdeflate's 7. That makes shorter content
/// smaller by less than 1 %, and costs twice as much time for each byte saved of longer content
/// (docs/decisions/0007).
pub const GZIP_HARDER_BYTES: Range<usize> = 96 * 1024..1024 * 1024;

/// Output memory that a worker keeps for its next file; after a larger file it is given back.
pub const SCRATCH_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Content that media types are sniffed from: signatures lie within it (a zip-based document's
/// name of its first member, for one).
pub const SNIFF_BYTES: usize = 8 * 1024;

/// Window of stored zstd frames: RFC 9659 forbids more than 8 MiB for the coding `zstd`.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Window of zstd frames that are read, 128 MiB: the most that `zstd --ultra` writes without
/// `--long`.
pub const ZSTD_READ_WINDOW_LOG_MAX: u32 = 27;

/// Content of a file that is decoded when it is read, in bytes for each of the file: only the
/// memory that is set aside for it depends on this.
pub const DECODED_RATIO: u64 = 8;

/// The size from which on a build reports progress within a file: smaller ones take less than a
/// second or two, at any level.
pub const WORKED_MIN_BYTES: u64 = 1024 * 1024;

/// Window of stored brotli streams, 4 MiB: the default of encoders. Larger ones gain only for
/// larger files, and cost every client that memory.
pub const BROTLI_WINDOW_LOG: u8 = 22;

/// Files that stand for all whose names change with their content: enough to see whether they do.
pub const FINGERPRINT_EXAMPLES: usize = 3;

/// Slowest resources kept for the summary.
pub const SLOWEST: usize = 10;

/// Content of one file of an imported archive, which is held in memory while it is read: as much as
/// can be worth a few seconds, and less than a hostile archive can expand a few bytes to.
pub const IMPORTED_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Bytes that deflate can make of one: 258 of two bits (RFC 1951 §3.2.5), and a header.
pub const DEFLATE_RATIO_MAX: u64 = 1032;

/// NAME_MAX of Linux: a name of a file.
pub const FILE_NAME_MAX_BYTES: usize = 255;

/// Path of an extracted file below its folder: PATH_MAX of Linux is 4096, and the folder has a name
/// too.
pub const FILE_PATH_MAX_BYTES: usize = 3840;

/// A line of a rules file: as long as a request target may be.
pub const RULE_LINE_MAX_BYTES: usize = 8 * 1024;

/// Paths of a site that are held against the target of a rewrite before it is taken to lead to one
/// of them: enough for a warning to be right nearly always, and little for 10 000 rules.
pub(crate) const TARGETS_LOOKED_AT_MAX: usize = 1000;

/// A rules file: as much as all rules of an archive may take, compiled.
pub const RULES_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Files that one page is looked at for in a report: more than a browser would like to load.
pub const ASSETS_MAX: usize = 1000;

/// Rows of a table in a report: the most notable ones.
pub const REPORT_ROWS_MAX: usize = 25;

/// Folders of each level that are read before a walk comes to them. More would hold more names in
/// memory, and not keep the system any busier.
pub const FOLDERS_AHEAD: usize = 16;

/// Bodies of an older archive that are read at once, unless one alone is longer. About the needs of
/// the files of one batch.
pub const RUN_BYTES: u64 = 2 * 1024 * 1024;

/// Bytes between two such bodies that are read too: the padding before a body on a page, or a small
/// body that is not wanted. Padding before a landmark can be longer; two reads cost less there.
pub const RUN_GAP_BYTES: u64 = 4096;

/// A copy of the kernel from an older archive ends on a multiple of this, which is a multiple of
/// any block's length, and is long enough that the call costs nothing.
pub const CARRIED_PIECE_BYTES: u64 = 2 * 1024 * 1024;

/// A file that changed so shortly before a build began is read again by the next one: a second
/// change within the same tick of a file system's clock would leave no trace. FAT counts in steps
/// of two seconds, the others in much smaller ones.
pub const RACY_SECONDS: i64 = 2;

/// Modification times before 1980-01-02 00:00:00 UTC carry no information: Nix writes the first
/// second of 1970, Bazel and zip 1980-01-01, and a `SOURCE_DATE_EPOCH` of 1 asks for no time at
/// all.
pub const MODIFIED_MIN: i64 = 315_619_200;

/// Longest file of fingerprints that is read: [`FILES_MAX`] rows of 128 bytes.
pub const STAT_CACHE_MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Rows of a folder listing as a page: a browser takes seconds for more, and people do not read
/// them. As JSON a listing has all of them.
pub const LISTING_ROWS_MAX: usize = 10_000;

/// Patterns of the `_headers` of a folder that is extracted: each path of the next build is held
/// against each of them.
pub const EXTRACTED_PATTERNS_MAX: usize = 1000;

/// Redirects that are followed to find out whether they lead in a circle: as many as browsers
/// follow before they stop.
pub const REDIRECTS_FOLLOWED_MAX: usize = 20;
