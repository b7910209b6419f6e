//! A cgroup for each program, in which all its descendants stay: `cgroup.kill` ends them at once
//! (cgroup v2, since Linux 5.14).
//!
//! Cgroups are used where a part of the tree was delegated to this process, as systemd does with
//! `Delegate=yes`. Elsewhere the tree belongs to the service manager, and the spawner leaves it
//! alone. A cgroup that is empty again is used for the next program, because to make and remove one
//! costs more than to start a program.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{geteuid, getpid};

/// The cgroups of a spawner: one that has no process, and below it one for each program.
#[derive(Debug)]
pub(crate) struct Cgroups {
    path: PathBuf,
    directory: OwnedFd,
    /// Cgroups whose program has ended. Some may have processes that were killed and still end.
    free: Vec<ProgramCgroup>,
    made: u32,
    is_usable: bool,
}

/// The cgroup of a program.
#[derive(Debug)]
pub(crate) struct ProgramCgroup {
    directory: OwnedFd,
}

impl Cgroups {
    /// Makes the cgroup of this spawner, or returns `None` if nothing is delegated to it or the
    /// kernel has no `cgroup.kill`.
    pub(crate) fn create() -> Option<Self> {
        let own = delegated_cgroup()?;
        let path = own.join(format!("pinion-spawner-{}", getpid().as_raw_nonzero()));
        fs::create_dir(&path).ok()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
        let mut cgroups = Self { path, directory, free: Vec::new(), made: 0, is_usable: true };
        // The first one shows whether programs can have one.
        match cgroups.make() {
            Ok(first) if first.open("cgroup.kill", OFlags::WRONLY).is_ok() => {
                cgroups.free.push(first);
                Some(cgroups)
            }
            _ => {
                cgroups.remove();
                None
            }
        }
    }

    /// Returns an empty cgroup for a program, or `None` if none can be made.
    pub(crate) fn take(&mut self) -> Option<ProgramCgroup> {
        if !self.is_usable {
            return None;
        }
        match self.free.iter().position(ProgramCgroup::is_empty) {
            Some(number) => Some(self.free.swap_remove(number)),
            None => self.make().ok(),
        }
    }

    /// Makes [`Self::take`] return nothing from now on.
    pub(crate) fn stop_using(&mut self) {
        self.is_usable = false;
    }

    /// Takes the cgroup of a program that has ended, after [`ProgramCgroup::kill`].
    pub(crate) fn put_back(&mut self, cgroup: ProgramCgroup) {
        self.free.push(cgroup);
    }

    /// Removes all cgroups. One that still has a process stays.
    pub(crate) fn remove(&mut self) {
        self.free.clear();
        for number in 0..self.made {
            // It may have a process that cannot be killed; there is nothing else to do.
            let _ = unlinkat(&self.directory, number.to_string(), AtFlags::REMOVEDIR);
        }
        let _ = fs::remove_dir(&self.path);
    }

    fn make(&mut self) -> Result<ProgramCgroup, Errno> {
        let name = self.made.to_string();
        mkdirat(&self.directory, &name, Mode::from_raw_mode(0o755))?;
        self.made += 1;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.directory, &name, flags, Mode::empty())?;
        Ok(ProgramCgroup { directory })
    }
}

impl ProgramCgroup {
    /// Sends SIGKILL to all processes of the cgroup, also to those that are being forked.
    ///
    /// # Errors
    /// The file cannot be opened because too many files are open.
    pub(crate) fn kill(&self) -> Result<(), Errno> {
        rustix::io::write(self.open("cgroup.kill", OFlags::WRONLY)?, b"1").map(drop)
    }

    /// Returns whether the cgroup has no process.
    pub(crate) fn is_empty(&self) -> bool {
        let mut text = [0; 128];
        let Ok(events) = self.open("cgroup.events", OFlags::RDONLY) else { return false };
        let bytes = rustix::io::read(events, &mut text).unwrap_or(0);
        text[..bytes].starts_with(b"populated 0\n")
    }

    fn open(&self, file: &str, mode: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.directory, file, mode | OFlags::CLOEXEC, Mode::empty())
    }
}

impl AsFd for ProgramCgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Returns the directory of the cgroup of this process if it was delegated: systemd has marked it
/// so, it belongs to the user of this process who is not root, or it is the root of the tree that
/// this process sees, in a container of its own.
fn delegated_cgroup() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let path = mounts.lines().find_map(|line| cgroup_directory(line, own))?;
    let is_marked = |name: &str| {
        let mut value = [0; 1];
        rustix::fs::getxattr(&path, name, &mut value)
            .is_ok_and(|bytes| bytes == 1 && value == *b"1")
    };
    let is_owned = || {
        use std::os::unix::fs::MetadataExt;
        let user = geteuid();
        !user.is_root() && fs::metadata(&path).is_ok_and(|found| found.uid() == user.as_raw())
    };
    let is_delegated =
        own == "/" || is_marked("trusted.delegate") || is_marked("user.delegate") || is_owned();
    is_delegated.then_some(path)
}

/// Returns the directory of a cgroup if a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)) is
/// a mount of cgroup v2 in which it is.
fn cgroup_directory(line: &str, cgroup: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    if !file_system.starts_with("cgroup2 ") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let below = Path::new(cgroup).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_cgroup_is_found_by_its_mount() {
        let line = "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";
        let found = |line: &str, cgroup: &str| cgroup_directory(line, cgroup);
        assert_eq!(found(line, "/a/b"), Some(PathBuf::from("/sys/fs/cgroup/a/b")));
        assert_eq!(found(line, "/"), Some(PathBuf::from("/sys/fs/cgroup")));
        let part = "31 24 0:27 /a /cg rw - cgroup2 none rw";
        assert_eq!(found(part, "/a/b"), Some(PathBuf::from("/cg/b")));
        assert_eq!(found(part, "/other"), None);
        assert_eq!(found("31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", "/"), None);
    }
}
