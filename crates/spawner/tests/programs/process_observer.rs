//! Observes processes from outside, by way of `/proc`.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// The time that a condition may need to become true before its test fails. It is no statement
/// about speed: conditions become true within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn wait_until(condition: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < until, "still not: {condition}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the state letter of a process (proc_pid_stat(5)), or `None` if it does not exist.
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns whether a process exists and has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| !"ZX".contains(state))
}

/// Processes that have a variable in their environment and have not ended.
pub(crate) fn tagged(variable: &str) -> Vec<i32> {
    let has_variable = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    processes().into_iter().filter(|pid| has_variable(pid) && is_alive(*pid)).collect()
}

/// Returns all processes.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the children of a process, also zombies.
pub(crate) fn children(pid: Pid) -> Vec<i32> {
    let pid = pid.as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("a process");
    list.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

/// Returns the descriptors that a process has open.
pub(crate) fn descriptors(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let number = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().to_str().expect("a number").parse().expect("a number")
    };
    let mut found: Vec<i32> = entries.map(number).collect();
    found.sort_unstable();
    found
}

/// Returns a field of `/proc/PID/status`, without its name.
#[track_caller]
pub(crate) fn status(pid: i32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {status}")).trim().to_owned()
}

/// Anonymous memory of a process in KiB.
pub(crate) fn anonymous_kib(pid: Pid) -> u64 {
    let text = status(pid.as_raw_nonzero().get(), "RssAnon");
    text.trim_end_matches(" kB").parse().expect("a number")
}
