//! Files that are read whole, and must not be large for that.

use crate::failure::without_number;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of a regular file, so that a pipe keeps nobody waiting.
///
/// # Errors
/// A phrase that follows the name of the file.
pub(crate) fn read(file: &Path, max_mib: u64) -> Result<Vec<u8>, String> {
    let cannot =
        |error: io::Error| format!("cannot be read: {}", without_number(&error.to_string()));
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err("is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(cannot)?;
    opened.take((max_mib << 20) + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() as u64 > max_mib << 20 {
        true => Err(format!("is larger than {max_mib} MiB")),
        false => Ok(bytes),
    }
}
