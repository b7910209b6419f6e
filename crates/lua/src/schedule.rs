//! The times of work that a script repeats.

use std::cell::Cell;
use std::str::FromStr as _;

use croner::Cron;
use jiff::{Timestamp, tz::TimeZone};
use mlua::Function;
use pinion_engine::clock::Now;

use crate::limits::{CLOCK_BACK_MAX_S, SCHEDULE_MIN_MS};
use crate::task::{BackgroundTaskKind, TaskId};

/// Work that is repeated.
#[derive(Debug)]
pub(crate) struct Schedule {
    when: When,
    pub(crate) work: Function,
    /// Whether every worker runs it; otherwise one of them does.
    pub(crate) is_everywhere: bool,
    /// The last run that has begun.
    pub(crate) running: TaskId,
}

#[derive(Debug)]
enum When {
    /// A number of milliseconds after the last time.
    Every(u64),
    /// By the wall clock.
    Cron {
        line: Box<Cron>,
        /// The time of the last planned run, in seconds since 1970.
        planned: Cell<Option<i64>>,
    },
}

impl Schedule {
    /// Creates a schedule that runs again and again after so many seconds.
    ///
    /// # Errors
    /// Fails if that is no time.
    pub(crate) fn every(seconds: f64, work: Function, is_everywhere: bool) -> Result<Self, String> {
        let ms = seconds * 1000.0;
        if !(ms >= SCHEDULE_MIN_MS as f64 && ms.is_finite()) {
            let least = SCHEDULE_MIN_MS as f64 / 1000.0;
            return Err(format!(
                "bad argument #1 to 'pinion.every' (number of seconds expected, {least} or more)"
            ));
        }
        Ok(Self { when: When::Every(ms as u64), work, is_everywhere, running: TaskId::NONE })
    }

    /// Creates a schedule of a cron line: minute, hour, day, month, day of the week, by the clock
    /// of the machine.
    ///
    /// # Errors
    /// Returns the mistake in the line.
    pub(crate) fn cron(text: &str, work: Function, is_everywhere: bool) -> Result<Self, String> {
        let cron = Cron::from_str(text).map_err(|error| {
            let problem = wrong_part(text).unwrap_or_else(|| format!("{text:?} is wrong: {error}"));
            format!(
                "bad argument #1 to 'pinion.cron' (minute, hour, day, month and day of the week \
                 expected, such as \"30 4 * * 1\", or \"@hourly\"): {problem}"
            )
        })?;
        let when = When::Cron { line: Box::new(cron), planned: Cell::new(None) };
        Ok(Self { when, work, is_everywhere, running: TaskId::NONE })
    }

    /// Returns the kind of function that has made it.
    pub(crate) fn kind(&self) -> BackgroundTaskKind {
        match self.when {
            When::Every(_) => BackgroundTaskKind::Every,
            When::Cron { .. } => BackgroundTaskKind::Cron,
        }
    }

    /// Plans the next run and returns its time, in monotonic milliseconds; none if there is none
    /// ever again.
    pub(crate) fn next_ms(&self, now: Now) -> Option<u64> {
        match &self.when {
            When::Every(ms) => now.monotonic_ms.checked_add(*ms),
            When::Cron { line, planned } => {
                let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
                let (ms, next) = until_next(line, now.unix_seconds, planned.get(), &zone)?;
                planned.set(Some(next));
                now.monotonic_ms.checked_add(ms)
            }
        }
    }
}

/// The fields of a cron line, and the values of each.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7 from Sunday on, or SUN to SAT"),
];

/// Returns the part of a cron line that is wrong.
fn wrong_part(text: &str) -> Option<String> {
    if text.trim_start().starts_with('@') {
        return Some(format!(
            "{text:?} is not known; there are @hourly, @daily, @weekly, @monthly and @yearly"
        ));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    // The first field may be seconds.
    let front = match fields.len() {
        5 => 0,
        6 => 1,
        count => return Some(format!("{text:?} has {count} fields, and not 5, or 6 with seconds")),
    };
    for (at, field) in fields.iter().enumerate() {
        let alone: Vec<&str> =
            (0..fields.len()).map(|n| if n == at { field } else { "*" }).collect();
        if Cron::from_str(&alone.join(" ")).is_ok() {
            continue;
        }
        let seconds = ("second", "0 to 59");
        let (name, range) = at.checked_sub(front).and_then(|at| FIELDS.get(at)).unwrap_or(&seconds);
        return Some(format!(
            "the {name} {field:?} is wrong; write numbers from {range}, *, lists such as 1,15, \
             ranges such as 1-5 or steps such as */10"
        ));
    }
    None
}

/// Returns the time after that of the last run: in how many milliseconds it comes, and its seconds
/// since 1970.
fn until_next(cron: &Cron, now: i64, last: Option<i64>, zone: &TimeZone) -> Option<(u64, i64)> {
    // Planned runs come by another clock than the wall clock. If the wall clock was set back
    // meanwhile, the run came early, and its time is still to come: a schedule never runs twice for
    // one time.
    let last = last.filter(|last| last.saturating_sub(now) <= CLOCK_BACK_MAX_S);
    let behind = last.map_or(now, |last| last.max(now));
    let behind = Timestamp::from_second(behind).ok()?.to_zoned(zone.clone());
    let next = cron.find_next_occurrence(&behind, false).ok()?.timestamp().as_second();
    // The next run is never due at once, for any clock change of a time zone.
    let seconds = u64::try_from(next.checked_sub(now)?.max(1)).ok()?;
    Some((seconds.checked_mul(1000)?, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Zoned;

    fn until_next(cron: &str, time: &str) -> Option<u64> {
        let time: Zoned = time.parse().expect("a time");
        let (cron, now) = (Cron::from_str(cron).expect("a line"), time.timestamp().as_second());
        super::until_next(&cron, now, None, time.time_zone()).map(|(ms, _)| ms)
    }

    #[test]
    fn the_next_cron_time_follows_the_local_clock() {
        let at = "2026-03-28T04:29:10[Europe/Berlin]";
        assert_eq!(until_next("30 4 * * *", at), Some(50_000));
        assert_eq!(until_next("@hourly", at), Some(30 * 60_000 + 50_000));
        // The night in between has an hour less.
        assert_eq!(until_next("29 4 * * *", at), Some((23 * 3600 - 10) * 1000));
        // Never twice at the same time.
        let at = "2026-03-28T04:30:00[Europe/Berlin]";
        assert_eq!(until_next("30 4 * * *", at), Some(23 * 3600 * 1000));
        assert_eq!(until_next("0 0 31 2 *", at), None);
        // With six fields the first one is the second.
        let at = "2026-03-28T04:29:10[Europe/Berlin]";
        assert_eq!(until_next("*/15 * * * * *", at), Some(5_000));
        assert_eq!(until_next("30 5 4 * * *", "2026-03-28T04:05:10[Europe/Berlin]"), Some(20_000));
    }

    /// The clock of the machine is set while a run is planned, which comes all the same.
    #[test]
    fn a_changed_clock_repeats_no_cron_run() {
        let lua = mlua::Lua::new();
        let work: Function = lua.load("return").into_function().expect("a function");
        let each_minute = Schedule::cron("* * * * *", work, false).expect("a schedule");
        let at = |unix_seconds: i64| {
            let unix_ms = unix_seconds as u64 * 1000;
            each_minute.next_ms(Now { monotonic_ms: 0, unix_seconds, unix_ms })
        };
        let minute = 1_800_000_000;
        assert_eq!(at(minute - 20), Some(20_000));
        // It was set back by ten minutes: the run for this minute has come that much too early.
        assert_eq!(at(minute - 600), Some(660_000));
        // It was set forward: what was left out is not made up for.
        assert_eq!(at(minute + 7200), Some(60_000));
        // It was months ahead, and nothing waits for those.
        assert_eq!(at(minute - 10_000_000 / 60 * 60), Some(60_000));
    }

    #[test]
    fn invalid_intervals_and_cron_expressions_are_refused() {
        let lua = mlua::Lua::new();
        let work: Function = lua.load("return").into_function().expect("a function");
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.001] {
            assert!(Schedule::every(seconds, work.clone(), false).is_err(), "{seconds}");
        }
        for (text, said) in [
            ("", "has 0 fields, and not 5, or 6 with seconds"),
            ("x", "has 1 fields"),
            ("* * *", "has 3 fields"),
            ("* * * * * * * *", "has 8 fields"),
            ("61 * * * *", "the minute \"61\" is wrong; write numbers from 0 to 59"),
            ("* 24 * * *", "the hour \"24\" is wrong"),
            ("* * 0 * *", "the day \"0\" is wrong"),
            ("* * * foo *", "the month \"foo\" is wrong; write numbers from 1 to 12"),
            ("* * * * 9", "the day of the week \"9\" is wrong"),
            ("60 * * * * *", "the second \"60\" is wrong"),
            ("0 61 * * * *", "the minute \"61\" is wrong"),
            ("@often", "there are @hourly, @daily"),
        ] {
            let why = Schedule::cron(text, work.clone(), false).expect_err("refused");
            assert!(why.contains("'pinion.cron'") && why.contains(said), "{why}");
        }
        let now = Now { monotonic_ms: 5, unix_seconds: 0, unix_ms: 0 };
        let every = Schedule::every(1.5, work, false).expect("a schedule");
        assert_eq!(every.next_ms(now), Some(1505));
    }
}
