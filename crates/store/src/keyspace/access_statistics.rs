//! The access data of a key in three bytes, by which eviction chooses: the time or the frequency of
//! accesses.

/// The access data of one key. It has one of two forms, which depends on the eviction policy: the
/// time of the last access in seconds modulo 2^24, or the minute of the last access modulo 2^16
/// with a counter that grows with the logarithm of the accesses. Redis has the same forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access([u8; 3]);

/// How accesses are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AccessRecording {
    /// The time of the last access is recorded.
    #[default]
    LastUse,
    /// The frequency of accesses is recorded.
    Frequency,
}

/// The counter of a new key, high enough that the key is not evicted first.
const NEW_COUNTER: u8 = 5;
/// The factor of the logarithm: the higher it is, the more accesses are needed to raise a counter
/// (`lfu-log-factor`).
const LOG_FACTOR: u64 = 10;
/// Minutes after which a counter decreases by one (`lfu-decay-time`).
const DECAY_MINUTES: u16 = 1;

impl Access {
    pub(crate) fn from_bytes(bytes: [u8; 3]) -> Self {
        Self(bytes)
    }

    pub(crate) fn to_bytes(self) -> [u8; 3] {
        self.0
    }

    /// Returns the access data of a key that is written now.
    pub(crate) fn new(recording: AccessRecording, now_ms: u64) -> Self {
        match recording {
            AccessRecording::LastUse => Self::last_use(now_ms),
            AccessRecording::Frequency => Self::frequency(minute(now_ms), NEW_COUNTER),
        }
    }

    /// Returns the access data of a key whose last access was `seconds` seconds ago.
    pub(crate) fn idle(now_ms: u64, seconds: u64) -> Self {
        Self::last_use(now_ms.saturating_sub(seconds.saturating_mul(1000)))
    }

    /// Returns the access data of a key with this logarithmic counter of accesses.
    pub(crate) fn counted(now_ms: u64, counter: u8) -> Self {
        Self::frequency(minute(now_ms), counter)
    }

    /// Returns the access data after an access. `random` decides whether a counter grows.
    pub(crate) fn touched(self, recording: AccessRecording, now_ms: u64, random: u64) -> Self {
        match recording {
            AccessRecording::LastUse => Self::last_use(now_ms),
            AccessRecording::Frequency => {
                let counter = self.decayed_counter(now_ms);
                let base = u64::from(counter.saturating_sub(NEW_COUNTER));
                let grows = counter < u8::MAX && random.is_multiple_of(base * LOG_FACTOR + 1);
                Self::frequency(minute(now_ms), counter + u8::from(grows))
            }
        }
    }

    fn last_use(now_ms: u64) -> Self {
        let [first, second, third, ..] = (now_ms / 1000).to_le_bytes();
        Self([first, second, third])
    }

    fn frequency(minute: u16, counter: u8) -> Self {
        let [low, high] = minute.to_le_bytes();
        Self([low, high, counter])
    }

    /// Returns the seconds since the last access, if the time is recorded.
    pub(crate) fn idle_seconds(self, now_ms: u64) -> u64 {
        let then = u64::from(self.0[0]) | u64::from(self.0[1]) << 8 | u64::from(self.0[2]) << 16;
        (now_ms / 1000).wrapping_sub(then) & 0xff_ffff
    }

    /// Returns the current value of the logarithmic counter of accesses after its decay, if the
    /// frequency is recorded.
    pub(crate) fn decayed_counter(self, now_ms: u64) -> u8 {
        let minutes = minute(now_ms).wrapping_sub(u16::from_le_bytes([self.0[0], self.0[1]]));
        self.0[2].saturating_sub((minutes / DECAY_MINUTES).min(u8::MAX.into()) as u8)
    }
}

/// Returns the minute of a time, modulo 2^16.
fn minute(now_ms: u64) -> u16 {
    (now_ms / 60_000) as u16
}
