//! Settings of a store.

use std::fmt;

/// The settings of a store.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The password of the user `default`, if clients need one.
    pub password: Option<Box<[u8]>>,
    /// The settings that `CONFIG SET` can change.
    pub live: LiveSettings,
    /// The monotonic clock with which commands are timed. Without it, no command is recorded as
    /// slow.
    pub clock: Option<Clock>,
    /// The clock of `TIME`, with microseconds since 1970. Without it, `TIME` returns the time in
    /// milliseconds that was passed to the client.
    pub unix_clock: Option<Clock>,
}

/// A clock: a function that returns the microseconds since some fixed moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock(pub fn() -> u64);

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Clock {}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password is a secret, so it is not shown.
        let Self { password, live, clock, unix_clock } = self;
        let mut shown = f.debug_struct("Settings");
        shown.field("has_password", &password.is_some());
        shown.field("live", live).field("clock", clock).field("unix_clock", unix_clock).finish()
    }
}

/// Settings that can change while the store is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSettings {
    /// The most bytes of memory that keys and values may occupy; 0 means no limit.
    pub memory_max_bytes: usize,
    /// The policy that applies when keys and values reach this limit.
    pub eviction: EvictionPolicy,
    /// The settings of the slow log.
    pub slow_log: SlowLogSettings,
}

/// The settings of the slow log. The defaults are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowLogSettings {
    /// The least duration of a slow command, in microseconds (`slowlog-log-slower-than`). If it is
    /// negative, no command is recorded.
    pub slower_than_us: i64,
    /// The most entries of the log (`slowlog-max-len`). Older ones are dropped.
    pub entries_max: usize,
}

impl Default for SlowLogSettings {
    fn default() -> Self {
        Self { slower_than_us: 10_000, entries_max: 128 }
    }
}

/// The eviction policy: the keys that are removed when the memory limit is reached
/// (`maxmemory-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// No keys are removed: commands that need memory fail.
    #[default]
    None,
    /// The keys that were not used for the longest time.
    AllLastUse,
    /// The keys that are used least often.
    AllFrequency,
    /// Random keys.
    AllRandom,
    /// The keys with an expiry that were not used for the longest time.
    VolatileLastUse,
    /// The keys with an expiry that are used least often.
    VolatileFrequency,
    /// Random keys with an expiry.
    VolatileRandom,
    /// The keys that expire first.
    VolatileExpiry,
}

impl EvictionPolicy {
    /// All policies with their names.
    pub const NAMES: [(Self, &'static str); 8] = [
        (Self::None, "noeviction"),
        (Self::AllLastUse, "allkeys-lru"),
        (Self::AllFrequency, "allkeys-lfu"),
        (Self::AllRandom, "allkeys-random"),
        (Self::VolatileLastUse, "volatile-lru"),
        (Self::VolatileFrequency, "volatile-lfu"),
        (Self::VolatileRandom, "volatile-random"),
        (Self::VolatileExpiry, "volatile-ttl"),
    ];

    /// Returns the name of the policy in Redis.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(policy, _)| *policy == self);
        known.map_or("noeviction", |(_, name)| name)
    }

    /// Returns the policy with a name, in upper or lower case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let mut known = Self::NAMES.iter();
        let is_match = |(_, known): &&(Self, &str)| known.as_bytes().eq_ignore_ascii_case(name);
        known.find(is_match).map(|(policy, _)| *policy)
    }

    /// Returns whether the policy needs the frequency of accesses.
    pub(crate) fn counts_accesses(self) -> bool {
        matches!(self, Self::AllFrequency | Self::VolatileFrequency)
    }

    /// Returns whether only keys with an expiry are removed.
    pub(crate) fn is_volatile(self) -> bool {
        use EvictionPolicy::{VolatileExpiry, VolatileFrequency, VolatileLastUse, VolatileRandom};
        matches!(self, VolatileLastUse | VolatileFrequency | VolatileRandom | VolatileExpiry)
    }
}
