//! What a fuzz target of this room runs. It is there for the fuzzer alone.

use crate::names::oracle;

/// Any bytes as patterns of names, and a path.
pub fn globs(bytes: &[u8]) {
    oracle::check(bytes);
}
