//! When work that a script repeats is due.

use std::str::FromStr as _;

use croner::Cron;
use jiff::{Timestamp, Unit, Zoned, tz::TimeZone};
use mlua::Function;
use pinion_engine::clock::Now;

use crate::limits::SCHEDULE_MIN_MS;
use crate::task::TaskId;

/// Work that is repeated.
#[derive(Debug)]
pub(crate) struct Schedule {
    when: When,
    pub(crate) work: Function,
    /// Every worker does it for itself; otherwise one of them does it.
    pub(crate) is_everywhere: bool,
    /// The run that has begun last.
    pub(crate) running: TaskId,
}

#[derive(Debug)]
enum When {
    /// So many milliseconds after the last time.
    Every(u64),
    /// By the clock on the wall.
    Cron(Box<Cron>),
}

impl Schedule {
    /// Again and again after so many seconds.
    ///
    /// # Errors
    /// That is no time.
    pub(crate) fn every(seconds: f64, work: Function, is_everywhere: bool) -> Result<Self, String> {
        let ms = seconds * 1000.0;
        if !(ms >= SCHEDULE_MIN_MS as f64 && ms.is_finite()) {
            let least = SCHEDULE_MIN_MS as f64 / 1000.0;
            return Err(format!("`every` takes a number of seconds, at least {least}"));
        }
        Ok(Self { when: When::Every(ms as u64), work, is_everywhere, running: 0.0 })
    }

    /// As a line of cron says: minute, hour, day, month, day of the week, by the clock of the
    /// machine.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn cron(text: &str, work: Function, is_everywhere: bool) -> Result<Self, String> {
        let cron = Cron::from_str(text).map_err(|error| {
            format!("{text:?} is no time for cron, such as \"30 4 * * 1\" or \"@hourly\": {error}")
        })?;
        Ok(Self { when: When::Cron(Box::new(cron)), work, is_everywhere, running: 0.0 })
    }

    /// When it is due next, in monotonic milliseconds; none if it never is again.
    pub(crate) fn next_ms(&self, now: Now) -> Option<u64> {
        match &self.when {
            When::Every(ms) => now.monotonic_ms.checked_add(*ms),
            When::Cron(cron) => {
                let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
                let time = Timestamp::from_second(now.unix_seconds).ok()?.to_zoned(zone);
                now.monotonic_ms.checked_add(until_next_ms(cron, &time)?)
            }
        }
    }
}

fn until_next_ms(cron: &Cron, time: &Zoned) -> Option<u64> {
    let next = cron.find_next_occurrence(time, false).ok()?;
    let seconds = time.until((Unit::Second, &next)).ok()?.get_seconds();
    // The clocks of machines jump: never twice for one time.
    u64::try_from(seconds.max(1)).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_next(cron: &str, time: &str) -> Option<u64> {
        let time: Zoned = time.parse().expect("a time");
        until_next_ms(&Cron::from_str(cron).expect("a line"), &time)
    }

    #[test]
    fn the_next_time_by_cron_is_counted_on_the_wall() {
        let at = "2026-03-28T04:29:10[Europe/Berlin]";
        assert_eq!(until_next("30 4 * * *", at), Some(50_000));
        assert_eq!(until_next("@hourly", at), Some(30 * 60_000 + 50_000));
        // The night in between has an hour less.
        assert_eq!(until_next("29 4 * * *", at), Some((23 * 3600 - 10) * 1000));
        // Never twice at the same time.
        let at = "2026-03-28T04:30:00[Europe/Berlin]";
        assert_eq!(until_next("30 4 * * *", at), Some(23 * 3600 * 1000));
        assert_eq!(until_next("0 0 31 2 *", at), None);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let lua = mlua::Lua::new();
        let work: Function = lua.load("return").into_function().expect("a function");
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.001] {
            assert!(Schedule::every(seconds, work.clone(), false).is_err(), "{seconds}");
        }
        for text in ["", "x", "* * *", "61 * * * *", "* * * * * * * *"] {
            let why = Schedule::cron(text, work.clone(), false).expect_err("refused");
            assert!(why.contains("no time for cron"), "{why}");
        }
        let now = Now { monotonic_ms: 5, unix_seconds: 0 };
        let every = Schedule::every(1.5, work, false).expect("a schedule");
        assert_eq!(every.next_ms(now), Some(1505));
    }
}
