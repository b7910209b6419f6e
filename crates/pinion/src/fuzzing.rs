//! What a fuzz target of this room runs. It is there for the fuzzer alone.

use crate::config::oracle;

/// Any bytes as a configuration file.
pub fn config(bytes: &[u8]) {
    oracle::check(bytes);
}
