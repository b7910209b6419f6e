//! Finds how much memory this process may use: that of the machine, or less where a control group
//! limits it (cgroups(7)).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::system::sysinfo;

/// Bytes that hold most files of the kernel that are read here, the list of mounts included.
const KERNEL_FILE_USUAL_BYTES: usize = 8 * 1024;

/// The memory that a process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// The limit in bytes.
    pub(crate) bytes: u64,
    /// The source of the limit.
    pub(crate) source: MemorySource,
}

/// The source of a limit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemorySource {
    /// The physical memory of the machine.
    Machine,
    /// The limit of a control group, such as that of a container or a unit.
    Cgroup,
}

impl MemoryLimit {
    /// Reads the smaller of the physical memory and the limits of the control group of this process
    /// and of those above it.
    pub(crate) fn of_process() -> Self {
        let info = sysinfo();
        let physical = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
        let read = |path: &str| read_kernel_file(Path::new(path)).unwrap_or_default();
        let (groups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        Self::smaller(physical, cgroup_limit(&groups, &mounts))
    }

    fn smaller(physical: u64, cgroup: Option<u64>) -> Self {
        match cgroup {
            Some(bytes) if bytes < physical => Self { bytes, source: MemorySource::Cgroup },
            _ => Self { bytes: physical, source: MemorySource::Machine },
        }
    }
}

/// A version of control groups, by the properties that differ between versions.
struct Hierarchy {
    /// The type of its file system.
    file_system: &'static str,
    /// An option of its mount, if it has several.
    option: Option<&'static str>,
    /// The file with the limit of a group.
    limit: &'static str,
}

const V2: Hierarchy = Hierarchy { file_system: "cgroup2", option: None, limit: "memory.max" };
const V1: Hierarchy =
    Hierarchy { file_system: "cgroup", option: Some("memory"), limit: "memory.limit_in_bytes" };

/// Returns the smallest limit of the groups of a process; none where there is no limit. `groups` is
/// the content of `/proc/self/cgroup`, `mounts` that of `/proc/self/mountinfo`.
fn cgroup_limit(groups: &str, mounts: &str) -> Option<u64> {
    let of = |hierarchy: &Hierarchy| {
        let group = groups.lines().find_map(|line| group_in(line, hierarchy))?;
        let limits = mounts.lines().filter_map(|line| mount_of(line, hierarchy));
        limits.filter_map(|mount| mount.smallest_limit(group, hierarchy)).min()
    };
    [of(&V2), of(&V1)].into_iter().flatten().min()
}

/// Returns the path of a group from a line `number:controllers:path`, if it is of this hierarchy.
fn group_in<'l>(line: &'l str, hierarchy: &Hierarchy) -> Option<&'l str> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let is_of_it = match hierarchy.option {
        None => controllers.is_empty(),
        Some(option) => controllers.split(',').any(|controller| controller == option),
    };
    is_of_it.then_some(path)
}

/// The mount of a hierarchy.
struct CgroupMount {
    /// The group that is mounted.
    root: PathBuf,
    point: PathBuf,
}

/// Returns the mount of a line of mountinfo (proc_pid_mountinfo(5)), if it is of this hierarchy.
fn mount_of(line: &str, hierarchy: &Hierarchy) -> Option<CgroupMount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (file_system, _source, options) = (after.next()?, after.next()?, after.next()?);
    let has_option =
        hierarchy.option.is_none_or(|option| options.split(',').any(|other| other == option));
    let is_of_it = file_system == hierarchy.file_system && has_option;
    is_of_it.then(|| CgroupMount { root: unescaped(root), point: unescaped(point) })
}

/// Returns a path of mountinfo, where spaces, tabs, newlines and backslashes are octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to)).into()
}

impl CgroupMount {
    /// Returns the smallest limit of a group and of those above it that are mounted.
    fn smallest_limit(&self, group: &str, hierarchy: &Hierarchy) -> Option<u64> {
        // The group of a process in a container may be outside of the mounted tree there; then the
        // mounted tree is the group of the container.
        let below = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let is_inside = below.components().all(|part| part.as_os_str() != "..");
        let folder = if is_inside { self.point.join(below) } else { self.point.clone() };
        let folders = folder.ancestors().take_while(|folder| folder.starts_with(&self.point));
        folders.filter_map(|folder| limit_in(&folder.join(hierarchy.limit))).min()
    }
}

/// Reads a limit. Version 2 writes `max` where there is none, version 1 a number that is larger
/// than any memory.
fn limit_in(path: &Path) -> Option<u64> {
    read_kernel_file(path)?.trim().parse().ok()
}

/// Reads a file that the kernel writes as it is read. Such a file has no length beforehand, so a
/// buffer that grows with the read bytes would cost many short reads.
fn read_kernel_file(path: &Path) -> Option<String> {
    let mut content = String::with_capacity(KERNEL_FILE_USUAL_BYTES);
    // Only the file itself would ask for its length.
    File::open(path).ok()?.take(u64::MAX).read_to_string(&mut content).ok()?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder with files, which is removed with the value.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("pinion cgroup-{name}-{}", std::process::id());
            let tree = Self(std::env::temp_dir().join(name));
            for (path, text) in files {
                let path = tree.0.join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                fs::write(path, text).expect("written");
            }
            tree
        }

        fn mount(&self, root: &str, file_system: &str, options: &str) -> String {
            let point = self.0.to_str().expect("a path").replace(' ', "\\040");
            format!("41 31 0:38 {root} {point} rw,relatime shared:9 - {file_system} x {options}\n")
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let files = [
            ("memory.max", "900\n"),
            ("a/memory.max", "300\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/c/memory.max", "500\n"),
            ("d/memory.max", "max\n"),
        ];
        let tree = Tree::new("v2", &files);
        let mounts = tree.mount("/", "cgroup2", "rw");
        for (group, limit) in
            [("/a/b/c", 300), ("/a/b", 300), ("/a", 300), ("/d", 900), ("/", 900), ("/gone", 900)]
        {
            let groups = format!("1:name=systemd:/\n0::{group}\n");
            assert_eq!(cgroup_limit(&groups, &mounts), Some(limit), "{group}");
        }
        assert_eq!(cgroup_limit("1:name=systemd:/\n", &mounts), None);
        assert_eq!(cgroup_limit("0::/a\n", ""), None);
    }

    #[test]
    fn a_container_sees_its_own_group() {
        let tree = Tree::new("container", &[("memory.max", "700"), ("x/memory.max", "600")]);
        // Without a namespace of its own, its group is also the root of its mount.
        let mounts = tree.mount("/docker/1", "cgroup2", "rw");
        assert_eq!(cgroup_limit("0::/docker/1\n", &mounts), Some(700));
        assert_eq!(cgroup_limit("0::/docker/1/x\n", &mounts), Some(600));
        assert_eq!(cgroup_limit("0::/../2\n", &mounts), Some(700));
        let mounts = tree.mount("/", "cgroup2", "rw");
        assert_eq!(cgroup_limit("0::/../2\n", &mounts), Some(700));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let files = [
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("a/memory.limit_in_bytes", "400\n"),
            ("a/b/memory.limit_in_bytes", "500\n"),
        ];
        let (tree, other) = (Tree::new("v1", &files), Tree::new("v1-cpu", &[]));
        let mounts = tree.mount("/", "cgroup", "rw,memory") + &other.mount("/", "cgroup", "rw,cpu");
        assert_eq!(cgroup_limit("4:cpu:/\n3:memory:/a/b\n0::/\n", &mounts), Some(400));
        let unlimited = cgroup_limit("3:memory:/\n", &mounts);
        assert_eq!(
            MemoryLimit::smaller(1 << 30, unlimited),
            MemoryLimit { bytes: 1 << 30, source: MemorySource::Machine }
        );
        assert_eq!(
            MemoryLimit::smaller(1 << 30, Some(1 << 20)),
            MemoryLimit { bytes: 1 << 20, source: MemorySource::Cgroup }
        );
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(MemoryLimit::of_process().bytes > 1 << 20);
    }
}
