//! The thread that reports to the service manager that the server lives, at half of the time after
//! which the manager restarts it (`WatchdogSec=` of systemd, sd_watchdog_enabled(3)). It reports
//! only when every worker has made a pass since it was asked. It exists only where a manager asks
//! for it.

use super::sd_notify::Notifier;
use crate::warnings_and_notes;
use pinion_engine::server::Control;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

/// How often a manager is notified within its time limit.
const NOTICES_PER_LIMIT: u32 = 2;

/// How often the workers are looked at between two notices.
const LOOKS_PER_NOTICE: u32 = 16;

/// The least pause between two looks, for any time limit.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// Returns the time limit that the manager has set for this process: `WATCHDOG_USEC`, if
/// `WATCHDOG_PID` is this process or missing.
pub(crate) fn limit(microseconds: Option<OsString>, pid: Option<OsString>) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
    let is_for_this = pid.is_none_or(|pid| number(&pid) == Some(process::id().into()));
    let limit = number(&microseconds?).filter(|limit| *limit > 0 && is_for_this);
    limit.map(Duration::from_micros)
}

/// Starts the thread, which runs until the process ends.
///
/// # Errors
/// There is no thread.
pub(crate) fn start(limit: Duration, control: Control, notifier: Notifier) -> io::Result<()> {
    let run = move || watch(limit / NOTICES_PER_LIMIT, &control, &notifier);
    thread::Builder::new().name("watchdog".to_owned()).spawn(run)?;
    Ok(())
}

fn watch(interval: Duration, control: &Control, notifier: &Notifier) {
    loop {
        let began = Instant::now();
        control.probe_workers();
        wait_for_workers(interval, control, notifier);
        notifier.alive();
        thread::sleep(interval.saturating_sub(began.elapsed()));
    }
}

/// Waits until every worker has made a pass, and reports those that have made none for longer than
/// `interval`.
fn wait_for_workers(interval: Duration, control: &Control, notifier: &Notifier) {
    let began = Instant::now();
    let mut reports = 0;
    loop {
        thread::sleep((interval / LOOKS_PER_NOTICE).max(LOOK_MIN));
        let silent = control.silent_workers();
        let Some(first) = silent.first() else { return };
        let elapsed = began.elapsed();
        if elapsed < interval * (reports + 1) {
            continue;
        }
        let seconds = elapsed.as_secs_f64();
        let status = format!("worker {first} has not responded for {seconds:.1} s");
        notifier.silent(&status);
        if reports == 0 {
            warnings_and_notes::warning(format_args!(
                "{status}; the service manager restarts the server unless it does (WatchdogSec=)"
            ));
        }
        reports += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_for_one_process() {
        let own = process::id().to_string();
        let other = (process::id() + 1).to_string();
        for (microseconds, pid, expected) in [
            (Some("30000000"), None, Some(30)),
            (Some("30000000"), Some(&*own), Some(30)),
            (Some("30000000"), Some(&*other), None),
            (Some("30000000"), Some(""), None),
            (Some("0"), Some(&*own), None),
            (Some("-1"), None, None),
            (Some("30s"), None, None),
            (Some(""), None, None),
            (None, None, None),
        ] {
            let found = limit(microseconds.map(Into::into), pid.map(Into::into));
            assert_eq!(found, expected.map(Duration::from_secs), "{microseconds:?} {pid:?}");
        }
    }
}
