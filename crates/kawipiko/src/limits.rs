//! Every bound of the format.

/// A cdb file has 32-bit offsets.
pub const FILE_MAX_BYTES: u64 = 1 << 32;

/// Fields of one block; the archiver stops there too.
pub const FIELDS_MAX: usize = 128;

/// A value that is written out; the archiver stops there too.
pub const LITERAL_MAX_BYTES: usize = 4096;
