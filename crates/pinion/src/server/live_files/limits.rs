//! Every limit of live files, unit last in the name, the reason beside the value.

/// Folders of live files of one site: each costs a look at the path of every request.
pub(crate) const LIVE_FOLDERS_MAX: usize = 64;

/// Bytes of the path of a live file below its folder: the limit of the kernel (PATH_MAX), less the
/// names that lead there.
pub(crate) const LIVE_PATH_MAX_BYTES: usize = 3 * 1024;

/// Bytes up to which content is copied after its head, so that no file stays open for it: from this
/// size on, `sendfile` costs less than a copy (docs/decisions/0002).
pub(crate) const LIVE_COPY_MAX_BYTES: u64 = 32 * 1024;

/// Bytes up to which a file is compressed as it is sent: gzip of so many takes a worker some
/// milliseconds. Larger files are better compressed once, in the archive.
pub(crate) const LIVE_COMPRESS_MAX_BYTES: u64 = 256 * 1024;

/// Seconds after its last change for which a file has no validators: another change within the
/// same tick of the clock of the file system would look the same. Longer than any such tick.
pub(crate) const SETTLED_AFTER_SECONDS: i64 = 2;

/// Live files of one site that may be open at once, at most: more clients than that which download
/// large files need several servers.
pub(crate) const LIVE_FILES_OPEN_MAX: usize = 4096;

/// Live files of one site that may be open at once, at least.
pub(crate) const LIVE_FILES_OPEN_MIN: usize = 16;

/// The part of the descriptors of the process that live files of one site may take. The rest is for
/// connections.
pub(crate) const LIVE_FILES_DIVISOR: u64 = 8;

/// Seconds after which a client may try again when too many live files are open.
pub(crate) const LIVE_RETRY_SECONDS: u64 = 5;
