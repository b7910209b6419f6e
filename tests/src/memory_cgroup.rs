//! Control groups with a limit of memory, for programs that must get by with little
//! (cgroups(7)).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group. Processes in it may use this much memory together, and no swap. It is removed
/// with the value, when they have ended.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    version: Version,
}

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The paths at which they are mounted.
const MOUNT_ONE: &str = "/sys/fs/cgroup/memory";
const MOUNT_TWO: &str = "/sys/fs/cgroup";

impl MemoryGroup {
    /// Makes a group.
    ///
    /// # Panics
    /// Panics if the system does not allow a control group; the message has the remedy.
    #[must_use]
    pub fn new(bytes: u64) -> MemoryGroup {
        Self::try_new(bytes).unwrap_or_else(|error| {
            panic!(
                "cannot make a control group with a limit of memory: {error}. This test needs one: \
                 run it as root, where {MOUNT_ONE} or {MOUNT_TWO} can be written and has the \
                 controller `memory`"
            )
        })
    }

    fn try_new(bytes: u64) -> io::Result<MemoryGroup> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinion-test-{}-{count}", std::process::id());
        let version = if Path::new(MOUNT_ONE).join("memory.limit_in_bytes").exists() {
            Version::One
        } else {
            Version::Two
        };
        let path = match version {
            Version::One => Path::new(MOUNT_ONE).join(name),
            Version::Two => {
                fs::write(Path::new(MOUNT_TWO).join("cgroup.subtree_control"), "+memory")?;
                Path::new(MOUNT_TWO).join(name)
            }
        };
        fs::create_dir(&path)?;
        let group = MemoryGroup { path, version };
        let (limit, swap, most_swap) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes),
            Version::Two => ("memory.max", "memory.swap.max", 0),
        };
        fs::write(group.path.join(limit), bytes.to_string())?;
        // A kernel without accounting of swap has no such file.
        if group.path.join(swap).exists() {
            fs::write(group.path.join(swap), most_swap.to_string())?;
        }
        Ok(group)
    }

    /// Returns a command that executes its arguments in the group, in its own process.
    #[must_use]
    pub fn runner(&self) -> Command {
        let mut shell = Command::new("sh");
        let enter =
            format!("echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"", self.path.display());
        shell.args(["-c", &enter]);
        shell
    }

    /// Returns how many processes of the group the kernel has killed because it was full.
    ///
    /// # Panics
    /// Panics if the kernel does not count them.
    #[must_use]
    pub fn kills(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.path.join(file)).expect("the state of the group");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.expect("the count of killed processes").parse().expect("a number")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _used_still = fs::remove_dir(&self.path);
    }
}
