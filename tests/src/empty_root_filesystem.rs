//! A root of the file system with a program in it and nothing else, as an image of a container that
//! was made from scratch.

use crate::binary::pinion;
use crate::external_programs::{output, program};
use crate::temporary_folder::Folder;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A folder that is the root directory of the programs that are started in it.
#[derive(Debug)]
pub struct EmptyRoot {
    folder: Folder,
}

impl EmptyRoot {
    /// Makes a root with the program under test at `path`, and the libraries that it needs; a
    /// static program needs none.
    ///
    /// # Panics
    /// Panics if a file cannot be copied.
    pub fn with_program(path: &str) -> EmptyRoot {
        let root = EmptyRoot { folder: Folder::new("empty-root") };
        root.copy(pinion(), path);
        let text = output(program("ldd", "libc-bin").arg(pinion()));
        let text = String::from_utf8_lossy(&text.stdout);
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            root.copy(Path::new(library), library);
        }
        root
    }

    /// Returns the path of a file of the new root in the old one.
    pub fn outside(&self, path: &str) -> std::path::PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// Copies a file into it.
    ///
    /// # Panics
    /// Panics if a file cannot be copied.
    pub fn copy(&self, from: &Path, path: &str) {
        let to = self.outside(path);
        fs::create_dir_all(to.parent().expect("a file has a folder")).expect("its folders");
        fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }

    /// Returns a command that executes its further arguments in its own process, as `user`. A test
    /// that does not run as root cannot change its user: the command keeps the user.
    pub fn runner(&self, user: &str) -> Command {
        if rustix::process::geteuid().is_root() {
            let mut chroot = program("chroot", "coreutils");
            chroot.arg(format!("--userspec={user}")).arg("--groups=").arg(self.folder.path());
            return chroot;
        }
        let mut unshare = program("unshare", "util-linux");
        unshare.args(["--map-root-user", "--root"]).arg(self.folder.path());
        unshare
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external_programs::stdout;

    #[test]
    fn the_root_contains_only_the_program() {
        let root = EmptyRoot::with_program("/pinion");
        let text = stdout(root.runner("65532:65532").args(["/pinion", "version"]));
        assert!(text.starts_with(b"pinion "));
        let failed = output(root.runner("65532:65532").args(["/bin/sh", "-c", "true"]));
        assert!(!failed.status.success());
    }
}
