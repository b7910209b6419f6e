//! The functions of this crate that fuzz targets run. They are there for the fuzzer alone.

use crate::walk::name_globs::oracle;

/// Checks any bytes as patterns of names, and a path.
pub fn globs(bytes: &[u8]) {
    oracle::check(bytes);
}
