//! Files that scripts read.

use std::fs;
use std::path::Path;

use pinion_jobs::confined_folders::FolderAt;

/// Returns a folder that scripts know as `files`, with one file in it. Tests that run at the same
/// time may share it: the file appears as a whole, and always with the same content.
pub(crate) fn folder(name: &str, file: &str, content: &str) -> FolderAt {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).expect("a folder");
    let unfinished = path.join(format!("{file}-{}", std::process::id()));
    fs::write(&unfinished, content).expect("a file");
    fs::rename(unfinished, path.join(file)).expect("renamed");
    FolderAt { name: "files".to_owned(), path, is_read_only: true }
}
