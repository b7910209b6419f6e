//! Settings of a store.

use std::fmt;

/// See the head of the module.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The password of the user `default`, if clients need one.
    pub password: Option<Box<[u8]>>,
    /// Those that `CONFIG SET` can change.
    pub live: LiveSettings,
    /// What commands are timed with, a clock that never goes back; without it none is recorded as
    /// slow.
    pub clock: Option<Clock>,
    /// The clock of `TIME`, with microseconds since 1970; without it, `TIME` has the milliseconds
    /// that the client gets.
    pub unix_clock: Option<Clock>,
}

/// A clock: returns the microseconds since some moment.
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
        // The password is a secret.
        let Self { password, live, clock, unix_clock } = self;
        let mut shown = f.debug_struct("Settings");
        shown.field("has_password", &password.is_some());
        shown.field("live", live).field("clock", clock).field("unix_clock", unix_clock).finish()
    }
}

/// Settings that can change while the store is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSettings {
    /// Most bytes of memory that keys and values may occupy; 0 is no limit.
    pub memory_max_bytes: usize,
    /// What happens when they occupy more.
    pub eviction: EvictionPolicy,
    /// Which commands are recorded as slow.
    pub slow_log: SlowLogSettings,
}

/// Which commands are recorded as slow. The defaults are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowLogSettings {
    /// Those that take so many microseconds or more (`slowlog-log-slower-than`); none if it is
    /// negative.
    pub slower_than_us: i64,
    /// The last ones, not more than this (`slowlog-max-len`).
    pub entries_max: usize,
}

impl Default for SlowLogSettings {
    fn default() -> Self {
        Self { slower_than_us: 10_000, entries_max: 128 }
    }
}

/// Which keys are removed when there is no memory for more (`maxmemory-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None: commands that need memory fail.
    #[default]
    None,
    /// Those that were not used for the longest time.
    AllLastUse,
    /// Those that are used least often.
    AllFrequency,
    /// Any.
    AllRandom,
    /// Of those with an expiry, the ones that were not used for the longest time.
    VolatileLastUse,
    /// Of those with an expiry, the ones that are used least often.
    VolatileFrequency,
    /// Any that has an expiry.
    VolatileRandom,
    /// Those that expire first.
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

    /// Returns the name that Redis has for it.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(policy, _)| *policy == self);
        known.map_or("noeviction", |(_, name)| name)
    }

    /// Returns the policy with a name, in upper or lower case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let mut known = Self::NAMES.iter();
        let is_it = |(_, known): &&(Self, &str)| known.as_bytes().eq_ignore_ascii_case(name);
        known.find(is_it).map(|(policy, _)| *policy)
    }

    /// Returns whether it is counted how often keys are used.
    pub(crate) fn counts_accesses(self) -> bool {
        matches!(self, Self::AllFrequency | Self::VolatileFrequency)
    }

    /// Returns whether only keys with an expiry are removed.
    pub(crate) fn is_volatile(self) -> bool {
        use EvictionPolicy::{VolatileExpiry, VolatileFrequency, VolatileLastUse, VolatileRandom};
        matches!(self, VolatileLastUse | VolatileFrequency | VolatileRandom | VolatileExpiry)
    }
}
