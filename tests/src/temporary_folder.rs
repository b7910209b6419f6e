//! Folders that vanish after the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, below the system's folder for temporary files.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes an empty folder; `name` is a part of its name.
    pub fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("pinion-test-{process}-{count}-{name}"));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder { path }
    }

    /// Makes a folder with these files: the path below the folder, and the content.
    pub fn with<'a>(name: &str, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Folder {
        let folder = Folder::new(name);
        for (path, content) in files {
            folder.write(path, content);
        }
        folder
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// Writes a file, and makes the folders in its path.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("its folders");
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails to tidy up has passed all the same.
        let _left_behind = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_folder_is_removed_with_its_content() {
        let folder = Folder::with("vanishes", [("a/b.txt", "x")]);
        let path = folder.path().to_owned();
        assert_eq!(fs::read(path.join("a/b.txt")).expect("read"), b"x");
        drop(folder);
        assert!(!path.exists());
    }
}
