//! The paths of the source tree and its files.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders without source files: those that git ignores, and git itself.
const NO_SOURCE: &[&str] = &[".git", "target", "node_modules", "__pycache__", "artifacts"];

/// Returns the root of the source tree.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the root").to_path_buf()
}

/// Returns the folder for the output of cargo.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns every file below `root`, as sorted paths relative to it with `/` between the parts.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let at = root.join(&folder);
        for entry in fs::read_dir(&at).with_context(|| at.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && !NO_SOURCE.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
