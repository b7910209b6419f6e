//! Processes as the kernel shows them (proc(5)).

use std::fs;

/// Returns the process IDs of the processes that have a text in their command lines and have not
/// ended. The process of the test is not among them.
pub fn processes_with(text: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("a list").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_text = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        !is_zombie(*process) && line.windows(text.len()).any(|part| part == text.as_bytes())
    };
    numbers.filter(|process| *process != std::process::id()).filter(has_text).collect()
}

/// Returns whether a process has ended and its parent has not waited for it.
fn is_zombie(process: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// Returns the CPU time that a process has had, in ticks of the clock (proc_pid_stat(5)).
pub fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("its state");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let fields: Vec<&str> = fields.split(' ').collect();
    // User and system time are the fields 14 and 15 of the line, which is cut after the second one.
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// Returns the path of the program that a process executes.
pub fn program_path(process: u32) -> String {
    let program = fs::read_link(format!("/proc/{process}/exe"));
    program.expect("its program").display().to_string()
}

/// Returns the bytes that a process has in memory and no file backs, without the relocations of its
/// program. Relocations are a fact of the program: one with assertions has three times those of a
/// release.
pub fn unbacked_bytes(process: u32) -> u64 {
    let program = program_path(process);
    mapped_bytes(process, "Anonymous:", |path| path != program)
}

/// Returns the sum of a figure of `/proc/PID/smaps`, in bytes, over the mappings with a path that
/// is wanted. Memory without a file has an empty path.
pub fn mapped_bytes(process: u32, figure: &str, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{process}/smaps")).expect("its mappings");
    let mut sum_kib = 0;
    let mut is_counted = false;
    for line in maps.lines() {
        match line.strip_prefix(figure).and_then(|rest| rest.trim().strip_suffix(" kB")) {
            Some(kib) if is_counted => sum_kib += kib.parse::<u64>().expect("a number"),
            Some(_) => {}
            // The first line of a mapping has addresses, rights, offset, device, inode and path.
            None if line.split(' ').next().is_some_and(|word| word.contains('-')) => {
                is_counted = is_wanted(line.splitn(6, ' ').nth(5).unwrap_or("").trim_start());
            }
            None => {}
        }
    }
    sum_kib * 1024
}
