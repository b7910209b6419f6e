//! Files that are read whole, and must not be large for that.

use crate::failure::without_number;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Reads the bytes of a regular file; other files are refused, so that a pipe cannot block the
/// caller.
///
/// # Errors
/// A phrase that follows the name of the file.
pub(crate) fn read(file: &Path, max_mib: u64) -> Result<Vec<u8>, String> {
    let metadata = file.metadata().map_err(|error| cannot(&error))?;
    if metadata.is_dir() {
        return Err("is a folder; give a file".to_owned());
    }
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(|error| cannot(&error))?;
    opened.take((max_mib << 20) + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > max_mib << 20 {
        Err(format!("is larger than {max_mib} MiB"))
    } else {
        Ok(bytes)
    }
}

fn cannot(error: &io::Error) -> String {
    let why = format!("cannot be read: {}", without_number(&error.to_string()));
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{why}; let the user that runs Pinion read the file and enter the folders above it"
        ),
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_file_gets_advice() {
        let denied = cannot(&io::Error::from_raw_os_error(libc::EACCES));
        assert!(denied.starts_with("cannot be read: Permission denied; let the user"), "{denied}");
        let missing = cannot(&io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(missing, "cannot be read: No such file or directory");
    }
}
