//! CPU time of a server: all threads of the process and of its descendants. And the CPU time of a
//! client, which has ended when it is read.
//!
//! `/proc/PID/task/*/schedstat` counts nanoseconds; `stat` counts ticks of 10 ms and would need
//! loads of many seconds. Threads that the kernel runs for io_uring belong to the process and are
//! listed with its own. The time of a thread that ended between two readings is lost; the servers
//! measured here keep theirs.

use crate::process;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The figures of each thread.
pub(crate) struct Reading(BTreeMap<u32, ThreadTime>);

/// The figures of a thread since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ThreadTime {
    running_nanoseconds: u64,
    /// How often the kernel gave it a processor, above all when it was woken.
    turns: u64,
}

impl Reading {
    /// Returns the current CPU time of `root` and its descendants.
    pub(crate) fn of(root: u32) -> Result<Self> {
        let mut threads = BTreeMap::new();
        for process in family(root)? {
            for thread in numbers(Path::new(&format!("/proc/{process}/task")))? {
                let path = format!("/proc/{process}/task/{thread}/schedstat");
                // A thread may end between the listing and here.
                let Ok(text) = fs::read_to_string(&path) else { continue };
                threads.insert(thread, ThreadTime::parse(&text).context(path)?);
            }
        }
        Ok(Self(threads))
    }

    /// Nanoseconds used since an `earlier` reading of the same process.
    pub(crate) fn since(&self, earlier: &Self) -> u64 {
        self.sum_since(earlier, |thread| thread.running_nanoseconds)
    }

    /// How often the threads were woken since an `earlier` reading of the same process.
    pub(crate) fn wakes_since(&self, earlier: &Self) -> u64 {
        self.sum_since(earlier, |thread| thread.turns)
    }

    fn sum_since(&self, earlier: &Self, figure: fn(&ThreadTime) -> u64) -> u64 {
        let added = |(thread, now): (&u32, &ThreadTime)| {
            figure(now).saturating_sub(earlier.0.get(thread).map_or(0, figure))
        };
        self.0.iter().map(added).sum()
    }
}

impl ThreadTime {
    /// Parses a schedstat line: time spent running, time spent waiting, turns.
    fn parse(schedstat: &str) -> Option<Self> {
        let mut figures = schedstat.split_whitespace().map(|figure| figure.parse().ok());
        let running_nanoseconds = figures.next()??;
        Some(Self { running_nanoseconds, turns: figures.nth(1)?? })
    }
}

/// Returns `root` and all of its descendants.
pub(crate) fn family(root: u32) -> Result<Vec<u32>> {
    Ok(descendants(root, &parents()?))
}

/// Returns each process with its parent.
fn parents() -> Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    for process in numbers(Path::new("/proc"))? {
        if let Ok(text) = fs::read_to_string(format!("/proc/{process}/stat"))
            && let Some(parent) = parent(&text)
        {
            found.push((process, parent));
        }
    }
    Ok(found)
}

/// Returns the parent in a stat line. The name before it is in brackets and may contain anything.
fn parent(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the CPU time of the children that a process has waited for, in ticks, of its stat line.
pub(crate) fn ended_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut figures = after_name.split_whitespace().skip(13);
    Some(figures.next()?.parse::<u64>().ok()? + figures.next()?.parse::<u64>().ok()?)
}

/// Ticks of `/proc/PID/stat` in a second, the same on every Linux (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// The time that a client took from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClientTime {
    /// Microseconds of CPU time, counted in ticks of 10 ms.
    pub(crate) cpu_us: u64,
    /// Microseconds that have passed.
    pub(crate) wall_us: u64,
}

impl ClientTime {
    /// Returns the part of its core that the client used.
    pub(crate) fn share(self) -> f64 {
        self.cpu_us as f64 / self.wall_us.max(1) as f64
    }
}

/// Runs a client to its end like [`process::output`], and returns its time with its output. No
/// other child of this process may end meanwhile.
pub(crate) fn output_with_time(command: &mut Command) -> Result<(String, ClientTime)> {
    let ticks = || -> Result<u64> {
        let path = "/proc/self/stat";
        ended_ticks(&fs::read_to_string(path)?).context(path)
    };
    let (before, began) = (ticks()?, Instant::now());
    let text = process::output(command)?;
    let wall_us = began.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
    let cpu_us = (ticks()? - before) * 1_000_000 / TICKS_PER_SECOND;
    Ok((text, ClientTime { cpu_us, wall_us }))
}

/// Returns `root` and everything below it.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&member) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(own, _)| own));
        at += 1;
    }
    family
}

/// Returns the entries of a folder that are numbers.
fn numbers(folder: &Path) -> Result<Vec<u32>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedstat_line_yields_running_time_and_turns() {
        let expected = ThreadTime { running_nanoseconds: 8_500_123, turns: 7 };
        assert_eq!(ThreadTime::parse("8500123 42 7\n"), Some(expected));
        assert_eq!(ThreadTime::parse("8500123 42"), None);
    }

    #[test]
    fn the_parent_is_parsed_after_a_name_with_brackets_and_spaces() {
        assert_eq!(parent("71 (a) S 1 (b) R 40 71 71 0"), Some(40));
        assert_eq!(parent("71 cut"), None);
    }

    #[test]
    fn the_time_of_ended_children_is_the_sum_of_user_and_system() {
        let stat = "71 (a b) S 40 71 71 0 -1 4194560 1 2 3 4 50 60 700 80 20 0 1";
        assert_eq!(ended_ticks(stat), Some(780));
        assert_eq!(ended_ticks("71 (a) S 40"), None);
    }

    #[test]
    fn descendants_include_children_of_children() {
        let parents = [(2, 1), (3, 2), (4, 3), (9, 8)];
        assert_eq!(descendants(2, &parents), [2, 3, 4]);
    }

    #[test]
    fn a_new_thread_counts_from_zero() {
        let time = |running_nanoseconds, turns| ThreadTime { running_nanoseconds, turns };
        let earlier = Reading(BTreeMap::from([(1, time(100, 3)), (2, time(50, 9))]));
        let later = Reading(BTreeMap::from([(1, time(130, 4)), (3, time(5, 2))]));
        assert_eq!((later.since(&earlier), later.wakes_since(&earlier)), (35, 3));
    }

    #[test]
    fn the_cpu_time_of_a_client_is_measured() {
        let mut busy = Command::new("bash");
        busy.args(["-c", "for ((i = 0; i < 200000; i++)); do :; done; echo done"]);
        let (text, time) = output_with_time(&mut busy).unwrap();
        assert_eq!(text, "done\n");
        assert!(time.cpu_us > 0 && time.wall_us > 0, "{time:?}");
        assert_eq!(ClientTime { cpu_us: 9, wall_us: 10 }.share(), 0.9);
    }

    #[test]
    fn the_cpu_time_of_this_process_is_read() {
        let reading = Reading::of(std::process::id()).unwrap();
        assert!(reading.since(&Reading(BTreeMap::new())) > 0);
    }
}
