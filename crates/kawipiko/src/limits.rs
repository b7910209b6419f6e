//! Every limit of the format.

/// Most bytes of a file: a cdb file has 32-bit offsets.
pub const FILE_MAX_BYTES: u64 = 1 << 32;

/// Most fields of one block; the archiver stops there too.
pub const FIELDS_MAX: usize = 128;

/// Most bytes of a value that is written out; the archiver stops there too.
pub const LITERAL_MAX_BYTES: usize = 4096;
