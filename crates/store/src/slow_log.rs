//! The log of slow commands, for `SLOWLOG`.
//!
//! A command is timed by two reads of the clock of the settings. Two kinds of commands are not
//! timed: those that take some microseconds, unless the threshold is that low or their arguments
//! are large; and those whose estimated work is less than a millisecond, unless the threshold is of
//! that order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::client_registry::ClientInfo;
use crate::command::spec::{CommandSpec, Flags};
use crate::command::work_estimate::WorkLimit;
use crate::limits::{
    SLOW_ARGUMENT_BYTES_MAX, SLOW_ARGUMENTS_MAX, TIMED_LIMITED_MIN_US, TIMED_MIN_BYTES,
    TIMED_MIN_US,
};
use crate::resp::arguments::Arguments;
use crate::settings::{Clock, SlowLogSettings};

/// The entries of `SLOWLOG` and its settings.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    clock: Option<Clock>,
    /// The least number of bytes of short commands that are timed, too.
    timed_min_bytes: AtomicUsize,
    /// Whether commands whose work is limited are timed, too.
    times_limited: AtomicBool,
    slower_than_us: AtomicI64,
    entries_max: AtomicUsize,
    entries: Mutex<SlowEntries>,
}

/// The commands that were recorded.
#[derive(Debug, Default)]
pub(crate) struct SlowEntries {
    /// The entries, the newest one first.
    pub(crate) newest: VecDeque<SlowEntry>,
    next_id: i64,
}

/// An entry of the log: a slow command.
#[derive(Debug)]
pub(crate) struct SlowEntry {
    pub(crate) id: i64,
    /// The time of the command, in seconds since 1970.
    pub(crate) at_s: u64,
    /// The duration of the command, in microseconds.
    pub(crate) took_us: u64,
    pub(crate) arguments: Vec<Box<[u8]>>,
    /// The address of the client.
    pub(crate) address: Box<str>,
    /// The name that the client has set for itself.
    pub(crate) name: String,
}

impl SlowLog {
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    pub(crate) fn settings(&self) -> SlowLogSettings {
        SlowLogSettings {
            slower_than_us: self.slower_than_us.load(Ordering::Relaxed),
            entries_max: self.entries_max.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set(&self, settings: SlowLogSettings) {
        let SlowLogSettings { slower_than_us, entries_max } = settings;
        self.slower_than_us.store(slower_than_us, Ordering::Relaxed);
        self.entries_max.store(entries_max, Ordering::Relaxed);
        let times_all = (0..TIMED_MIN_US).contains(&slower_than_us);
        let timed_min_bytes = if times_all { 0 } else { TIMED_MIN_BYTES };
        self.timed_min_bytes.store(timed_min_bytes, Ordering::Relaxed);
        let times_limited = (0..TIMED_LIMITED_MIN_US).contains(&slower_than_us);
        self.times_limited.store(times_limited, Ordering::Relaxed);
    }

    /// Returns whether a command is timed.
    #[inline]
    pub(crate) fn times(
        &self,
        command: &CommandSpec,
        arguments: Arguments<'_>,
        limit: WorkLimit,
    ) -> bool {
        let bytes = arguments.ranges.last().map_or(0, |range| range.end);
        let is_quick = command.flags.has_any(Flags::FAST.and(Flags::QUICK_IF_SMALL));
        let may_be_slow = !limit.is_limited() || self.times_limited.load(Ordering::Relaxed);
        !is_quick && may_be_slow || bytes >= self.timed_min_bytes.load(Ordering::Relaxed)
    }

    /// Returns the start time of a command in microseconds, or `None` if the command is not timed.
    pub(crate) fn start(&self, command: &CommandSpec) -> Option<u64> {
        // The commands of a transaction are timed, and `EXEC` only executes them.
        let Clock(clock) = self.clock.filter(|_| !command.flags.has(Flags::NOT_QUEUED))?;
        Some(clock())
    }

    /// Records a command after its end, if it was slow. `started_us` is from [`Self::start`].
    pub(crate) fn end(
        &self,
        started_us: u64,
        (command, arguments): (&CommandSpec, Arguments<'_>),
        client: &ClientInfo,
        now_ms: u64,
    ) {
        let Some(Clock(clock)) = self.clock else { return };
        let took_us = clock().saturating_sub(started_us);
        let SlowLogSettings { slower_than_us, entries_max } = self.settings();
        let is_slow = u64::try_from(slower_than_us).is_ok_and(|least| took_us >= least);
        if !is_slow || entries_max == 0 {
            return;
        }
        let arguments = recorded(command, arguments);
        let (address, mut name) = (client.address.clone(), client.names().name);
        // The name is ASCII, so this never cuts within a character.
        name.truncate(SLOW_ARGUMENT_BYTES_MAX);
        let mut entries = self.entries();
        let id = entries.next_id;
        entries.next_id += 1;
        let at_s = now_ms / 1000;
        entries.newest.push_front(SlowEntry { id, at_s, took_us, arguments, address, name });
        entries.newest.truncate(entries_max);
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, SlowEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the arguments to record: the first bytes of the first arguments, without passwords.
fn recorded(command: &CommandSpec, arguments: Arguments<'_>) -> Vec<Box<[u8]>> {
    let count = arguments.len();
    let is_cut = count > SLOW_ARGUMENTS_MAX;
    let shown = if is_cut { SLOW_ARGUMENTS_MAX - 1 } else { count };
    let mut recorded = Vec::with_capacity(SLOW_ARGUMENTS_MAX.min(count));
    let mut is_secret = false;
    for (index, argument) in arguments.from(0).take(shown).enumerate() {
        if index > 0 && (command.name == "auth" || is_secret) {
            recorded.push(b"(redacted)"[..].into());
            continue;
        }
        if index > 0 && command.name == "hello" && argument.eq_ignore_ascii_case(b"auth") {
            // A user and a password follow this argument; or this argument is a name, and they
            // follow later.
            is_secret = true;
        }
        let mut text = argument[..argument.len().min(SLOW_ARGUMENT_BYTES_MAX)].to_vec();
        if argument.len() > SLOW_ARGUMENT_BYTES_MAX {
            let more = argument.len() - SLOW_ARGUMENT_BYTES_MAX;
            text.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
        }
        recorded.push(text.into());
    }
    if is_cut {
        let more = count - shown;
        recorded.push(format!("... ({more} more arguments)").into_bytes().into());
    }
    recorded
}
