//! A cgroup for each program, in which all its descendants stay: `cgroup.kill` ends them at once
//! (cgroup v2, since Linux 5.14).
//!
//! Cgroups are used where a part of the tree was delegated to this process, as systemd does with
//! `Delegate=yes`. Elsewhere the tree belongs to the service manager, and the spawner leaves it
//! alone.
//!
//! A cgroup that is empty at the end of its program is used for the next one, so that most starts
//! make and remove none. One that was killed is removed instead: kernels such as 6.18 kill a
//! process that is cloned into a cgroup (`CLONE_INTO_CGROUP`) which was killed at any time before.
//! They compare how often the cgroups of the parent and of the child were killed (`kill_seq` in
//! `cgroup_css_set_fork` and `cgroup_post_fork`). For the same reason no cgroup is used if the
//! spawner is in one that was killed, which a trial at its start shows.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, getpid};

/// The cgroup of a spawner, which has no process itself, with all cgroups below it. The server
/// creates it before it forks the spawner, and kills all processes in it if the spawner has died.
#[derive(Debug)]
pub(crate) struct CgroupTree {
    path: PathBuf,
    /// `cgroup.kill`, opened with the privileges that the server had at its start.
    kill: OwnedFd,
}

/// The cgroups of the programs of a spawner.
#[derive(Debug)]
pub(crate) struct Cgroups {
    path: PathBuf,
    directory: OwnedFd,
    /// Cgroups without a process, for the next programs.
    free: Vec<ProgramCgroup>,
    /// The numbers of cgroups that were killed, and are removed when their processes have ended.
    killed: Vec<u64>,
    next_number: u64,
    is_usable: bool,
}

/// The cgroup of a program.
#[derive(Debug)]
pub(crate) struct ProgramCgroup {
    directory: OwnedFd,
    number: u64,
    is_killed: bool,
}

/// Most cgroups of successive spawners of one server. A spawner needs a new one if those of earlier
/// spawners could not be removed.
const TREES_MAX: u32 = 16;

impl CgroupTree {
    /// Creates the cgroup of a spawner, or returns `None` if nothing is delegated to this process
    /// or the kernel has no `cgroup.kill`.
    pub(crate) fn create() -> Option<Self> {
        let own = delegated_cgroup()?;
        let pid = getpid().as_raw_nonzero();
        let path = |number| own.join(format!("pinion-programs-{pid}-{number}"));
        let path = (0..TREES_MAX).map(path).find(|path| fs::create_dir(path).is_ok())?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::open(path.join("cgroup.kill"), flags, Mode::empty()) {
            Ok(kill) => Some(Self { path, kill }),
            Err(_) => {
                let _ = fs::remove_dir(path);
                None
            }
        }
    }

    /// Returns the directory of the cgroup.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sends SIGKILL to all processes of all programs.
    pub(crate) fn kill(&self) {
        // The cgroup exists, so the kernel accepts the write.
        let _ = rustix::io::write(&self.kill, b"1");
    }

    /// Removes all cgroups. One that still has a process stays, and so do all if this process has
    /// dropped the privileges with which it made them.
    pub(crate) fn remove(&self) {
        for program in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            // The files of a cgroup are not directories, so this call does not remove them.
            let _ = fs::remove_dir(program.path());
        }
        let _ = fs::remove_dir(&self.path);
    }
}

impl Cgroups {
    /// Opens the cgroup that the server has made for this spawner.
    ///
    /// # Errors
    /// The cgroup does not exist any more, or too many files are open.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            path: path.to_owned(),
            directory: rustix::fs::open(path, flags, Mode::empty())?,
            free: Vec::new(),
            killed: Vec::new(),
            next_number: 0,
            is_usable: true,
        })
    }

    /// Runs a trial in a new cgroup and returns these cgroups if it succeeds.
    pub(crate) fn after_trial(
        mut self,
        trial: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        let tried = self.make().and_then(|cgroup| {
            let result = trial(cgroup.as_fd());
            self.free.push(cgroup);
            result
        });
        if let Err(error) = tried {
            self.remove();
            return Err(error);
        }
        Ok(self)
    }

    /// Returns an empty cgroup for a program, or `None` if none can be made.
    pub(crate) fn take(&mut self) -> Option<ProgramCgroup> {
        if !self.is_usable {
            return None;
        }
        self.remove_killed();
        self.free.pop().or_else(|| self.make().ok())
    }

    /// Makes [`Self::take`] return `None` from now on.
    pub(crate) fn stop_using(&mut self) {
        self.is_usable = false;
    }

    /// Takes back the cgroup of a program whose main process was reaped, and kills all remaining
    /// processes in it.
    pub(crate) fn put_back(&mut self, mut cgroup: ProgramCgroup) {
        if !cgroup.is_killed && cgroup.is_empty() {
            self.free.push(cgroup);
            return;
        }
        // If the file cannot be opened, the orphans are found as if there were no cgroups.
        let _ = cgroup.kill();
        self.killed.push(cgroup.number);
    }

    /// Returns the number of the program's cgroup to which a process belongs, if it belongs to one.
    pub(crate) fn number_of(&self, process: Pid) -> Option<u64> {
        let path = format!("/proc/{}/cgroup", process.as_raw_nonzero());
        number_below(&fs::read_to_string(path).ok()?, self.path.file_name()?)
    }

    /// Removes all cgroups. One that still has a process stays.
    pub(crate) fn remove(&mut self) {
        self.killed.extend(self.free.drain(..).map(|cgroup| cgroup.number));
        self.remove_killed();
        let _ = fs::remove_dir(&self.path);
    }

    fn remove_killed(&mut self) {
        let directory = &self.directory;
        let remove = |number: u64| unlinkat(directory, number.to_string(), AtFlags::REMOVEDIR);
        self.killed.retain(|number| remove(*number).is_err());
    }

    fn make(&mut self) -> Result<ProgramCgroup, Errno> {
        let number = self.next_number;
        let name = number.to_string();
        mkdirat(&self.directory, &name, Mode::from_raw_mode(0o755))?;
        self.next_number += 1;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(&self.directory, &name, flags, Mode::empty()) {
            Ok(directory) => Ok(ProgramCgroup { directory, number, is_killed: false }),
            Err(error) => {
                self.killed.push(number);
                Err(error)
            }
        }
    }
}

impl ProgramCgroup {
    /// Returns the number of the cgroup, which is unique for the spawner.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Sends SIGKILL to all processes of the cgroup, also to those that are being forked.
    ///
    /// # Errors
    /// The file cannot be opened because too many files are open.
    pub(crate) fn kill(&mut self) -> Result<(), Errno> {
        let file = self.open("cgroup.kill", OFlags::WRONLY)?;
        self.is_killed = true;
        rustix::io::write(file, b"1").map(drop)
    }

    /// Returns whether the cgroup has no process. Zombies do not count.
    fn is_empty(&self) -> bool {
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

/// Returns the number that comes after the name of the cgroup of a spawner in the text of
/// `/proc/PID/cgroup` (cgroups(7)).
fn number_below(text: &str, tree: &OsStr) -> Option<u64> {
    let path = Path::new(text.lines().find_map(|line| line.strip_prefix("0::"))?);
    let mut names = path.iter();
    names.find(|name| *name == tree)?;
    // The kernel appends this mark to the name of a removed cgroup.
    names.next()?.to_str()?.trim_end_matches(" (deleted)").parse().ok()
}

/// Returns the directory of the cgroup of this process if the cgroup was delegated. It counts as
/// delegated if systemd has marked it so, if it belongs to the user of this process and that user
/// is not root, or if it is the root of the tree that this process sees, as in a container of its
/// own.
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
    fn a_process_is_in_the_cgroup_of_a_program() {
        let found = |text: &str| number_below(text, "pinion-programs-7-0".as_ref());
        assert_eq!(found("0::/system.slice/pinion.service/pinion-programs-7-0/12\n"), Some(12));
        assert_eq!(found("1:cpu:/a\n0::/pinion-programs-7-0/3/own/deep\n"), Some(3));
        assert_eq!(found("0::/pinion-programs-7-0/3 (deleted)\n"), Some(3));
        assert_eq!(found("0::/pinion-programs-8-0/3\n"), None);
        assert_eq!(found("0::/pinion-programs-7-0\n"), None);
    }

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
