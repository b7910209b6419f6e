//! The resources that this process has used so far, as the kernel reports them in `/proc/self`
//! (proc(5)). Values that cannot be read count as nothing.

use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;
use std::time::Duration;

/// Since the start of the process, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Computing in the program.
    pub(super) user: Duration,
    /// Computing in the kernel.
    pub(super) system: Duration,
    /// The memory in use now, shared pages included.
    pub(super) memory_bytes: u64,
    /// Threads that waited, as often as they did.
    pub(super) switches: u64,
    /// Threads that had to wait although they had something to do.
    pub(super) forced_switches: u64,
    /// Pages that were not in place.
    pub(super) faults: u64,
    /// Pages that had to be read for that.
    pub(super) disk_faults: u64,
    /// Read from disks.
    pub(super) read_bytes: u64,
    /// Written to disks.
    pub(super) written_bytes: u64,
}

impl Usage {
    /// Asks the kernel.
    pub(super) fn now() -> Self {
        let mut usage = Self::default();
        usage.read_stat(&read("stat"), clock_ticks_per_second(), page_size() as u64);
        usage.read_io(&read("io"));
        for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let status = fs::read_to_string(thread.path().join("status"));
            usage.read_status(&status.unwrap_or_default());
        }
        usage
    }

    /// Reads `stat`: the words after the name of the program, which may hold anything.
    fn read_stat(&mut self, text: &str, ticks_per_second: u64, page_bytes: u64) {
        let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
        let words: Vec<&str> = behind.split_ascii_whitespace().collect();
        // Numbered from 3 in proc(5): the state is the first after the name.
        let number = |field: usize| -> u64 {
            words.get(field - 3).and_then(|word| word.parse().ok()).unwrap_or_default()
        };
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64);
        self.faults = number(10);
        self.disk_faults = number(12);
        self.user = time(number(14));
        self.system = time(number(15));
        self.memory_bytes = number(24) * page_bytes;
    }

    /// Reads `io`: the bytes that were read from disks and written to them.
    fn read_io(&mut self, text: &str) {
        self.read_bytes = named(text, "read_bytes");
        self.written_bytes = named(text, "write_bytes");
    }

    /// Reads the `status` of one thread.
    fn read_status(&mut self, text: &str) {
        self.switches += named(text, "voluntary_ctxt_switches");
        self.forced_switches += named(text, "nonvoluntary_ctxt_switches");
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
}

/// Returns the number on the line `name:`.
fn named(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_program_name() {
        let mut usage = Usage::default();
        let text = "42 (a) b (c) S 1 2 3 4 5 6 100 0 7 0 250 150 0 0 20 0 3 0 99 5000000 1200 1";
        usage.read_stat(text, 100, 4096);
        usage.read_io("rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n");
        for _thread in 0..2 {
            usage.read_status("voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n");
        }
        let expected = Usage {
            user: Duration::from_millis(2500),
            system: Duration::from_millis(1500),
            memory_bytes: 1200 * 4096,
            switches: 10,
            forced_switches: 4,
            faults: 100,
            disk_faults: 7,
            read_bytes: 4096,
            written_bytes: 8192,
        };
        assert_eq!(usage, expected);
    }

    #[test]
    fn unreadable_values_are_zero() {
        let mut usage = Usage::default();
        for text in ["", ")", "1 (x) S", "nonsense"] {
            usage.read_stat(text, 100, 4096);
            usage.read_io(text);
            usage.read_status(text);
        }
        assert_eq!(usage, Usage::default());
    }

    #[test]
    fn this_process_has_cost_something() {
        let usage = Usage::now();
        assert!(usage.memory_bytes > 0 && usage.faults > 0, "{usage:?}");
    }
}
