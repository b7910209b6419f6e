//! Measures the memory of a process.

use rustix::param::page_size;
use std::fs;

/// Returns the resident memory of a process in bytes (proc_pid_statm(5)); 0 if it has ended.
pub(super) fn resident_bytes(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or_default() * page_size() as u64
}

/// Returns the memory of a process in bytes, in which memory shared with other processes counts in
/// part (`Pss`, proc_pid_smaps(5)), such as the interpreter and its libraries; 0 if it has ended.
/// If the kernel does not let this process read that, it is the resident memory.
///
/// It costs some milliseconds for each GiB.
pub(super) fn proportional_bytes(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    pss_bytes(&rollup).unwrap_or_else(|| resident_bytes(pid))
}

fn pss_bytes(rollup: &str) -> Option<u64> {
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_resident() {
        assert!(resident_bytes(std::process::id()) > 1 << 20);
        assert_eq!(resident_bytes(u32::MAX), 0);
    }

    #[test]
    fn the_proportional_memory_is_read() {
        assert!(proportional_bytes(std::process::id()) > 1 << 20);
        assert_eq!(proportional_bytes(u32::MAX), 0);
        let text = "ffff-ffff ---p 00000000 00:00 0    [rollup]\nRss:   12 kB\nPss:   7 kB\n";
        assert_eq!(
            (pss_bytes(text), pss_bytes("Pss: 7\n"), pss_bytes("")),
            (Some(7168), None, None)
        );
    }
}
