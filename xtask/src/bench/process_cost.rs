//! The cost of a program that runs to its end: CPU time, wall time, memory.

use crate::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The cost of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// User and system time of all threads.
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

/// The `time` of the shell gets the CPU time of its children from the kernel, to the microsecond.
/// The output of the program goes to the file `$0`, the times to standard output.
const TIMED: &str = r#"exec 3>"$0"; TIMEFORMAT='%3U %3S'; { time "$@" >&3 2>&3; } 2>&1"#;

/// Runs `command` to its end, on one core if `core` names one; its output is written to `log`.
pub(crate) fn of(command: &Command, core: Option<u32>, log: &Path) -> Result<Cost> {
    let mut timed = Command::new("bash");
    timed.args(["-c", TIMED]).arg(log);
    if let Some(core) = core {
        timed.args(["taskset", "-c", &core.to_string()]);
    }
    timed.arg(command.get_program()).args(command.get_args());
    let began = Instant::now();
    let figures = process::output(&mut timed).with_context(|| {
        let said = fs::read_to_string(log).unwrap_or_default();
        format!("{}\n{}", process::shown(command), said.trim_end())
    })?;
    let wall_seconds = began.elapsed().as_secs_f64();
    Ok(Cost { cpu_seconds: sum(&figures).context(figures)?, wall_seconds })
}

/// Returns the sum of user and system time.
fn sum(figures: &str) -> Option<f64> {
    let (user, system) = figures.trim().split_once(' ')?;
    Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
}

/// Runs `command` to its end and returns its maximum resident memory in bytes. The kernel discards
/// that figure when the program ends, so it is read repeatedly; growth in the last milliseconds is
/// lost.
pub(crate) fn peak_bytes(command: &mut Command) -> Result<u64> {
    const PAUSE: Duration = Duration::from_millis(2);
    // Standard error is left open, so that you see the errors of the program.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| process::shown(command))?;
    let status = format!("/proc/{}/status", child.id());
    let peak = |status: &str| bytes_in(status, "VmHWM");
    let mut most = 0;
    loop {
        if let Some(bytes) = fs::read_to_string(&status).ok().as_deref().and_then(peak) {
            most = most.max(bytes);
        }
        if let Some(ended) = child.try_wait()? {
            if !ended.success() {
                bail!("{} ended with {ended}", process::shown(command));
            }
            return Ok(most);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns a figure of `/proc/PID/status`, such as `VmHWM:     1234 kB`, in bytes.
pub(crate) fn bytes_in(status: &str, figure: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_seconds_and_peak_memory_are_parsed() {
        assert_eq!(sum("1.250 0.500\n"), Some(1.75));
        assert_eq!(sum("bash: no such program"), None);
        let status = "VmPeak:\t 9 kB\nVmHWM:\t    1234 kB\n";
        assert_eq!(bytes_in(status, "VmHWM"), Some(1234 * 1024));
        assert_eq!(bytes_in(status, "Vm"), None);
    }

    #[test]
    fn the_cost_of_a_program_is_measured_and_a_failure_is_reported() {
        let log = std::env::temp_dir().join(format!("pinion-cost-{}", std::process::id()));
        let mut busy = Command::new("bash");
        busy.args(["-c", "for ((i = 0; i < 20000; i++)); do :; done"]);
        let cost = of(&busy, Some(0), &log).unwrap();
        assert!(cost.cpu_seconds > 0.0 && cost.wall_seconds > 0.0, "{cost:?}");
        let mut failing = Command::new("bash");
        failing.args(["-c", "echo no such luck; exit 3"]);
        let error = of(&failing, None, &log).unwrap_err();
        assert!(format!("{error:#}").contains("no such luck"), "{error:#}");
        assert!(peak_bytes(&mut busy).unwrap() > 0);
        fs::remove_file(log).unwrap();
    }
}
