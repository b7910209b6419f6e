//! A folder that is removed at the end of its test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("pinion-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    /// Returns a folder with a small site below `site/`.
    pub(crate) fn with_site() -> Self {
        let folder = Self::new();
        folder.write("site/index.html", "<!doctype html><title>first</title>");
        folder.write("site/style.css", "body { color: black }\n".repeat(100));
        folder.write("site/docs/index.html", "<!doctype html><title>docs</title>");
        folder.write("site/404.html", "<!doctype html><title>nothing</title>");
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.join(name)).expect("a file")
    }

    /// Returns the names in the folder itself.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        // A build leaves a file of fingerprints next to each archive.
        names.retain(|name| !(name.starts_with('.') && name.ends_with(".stat")));
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_for_the_system = fs::remove_dir_all(&self.0);
    }
}
