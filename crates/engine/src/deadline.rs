//! The condition that the deadline of a connection watches, and its time. A short interruption,
//! such as an incomplete PING or the reply to one, postpones the deadline of the peer's next step,
//! and gives it no more time.

use crate::limits::{
    HANDSHAKE_TIMEOUT_MS, LAST_MS, LINGER_MS, QUIC_PING_MS, SEND_STALL_MS, WINDOW_STALL_MS,
};
use crate::settings::WorkerSettings;

/// The condition that the deadline of a connection watches. `Conn::wanted_watch` chooses it by the
/// state of the connection, and `driver/timeouts.rs` acts when the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadlineWatch {
    /// No condition; the application's own deadline may be set all the same.
    Nothing,
    /// A TLS handshake that must complete.
    Handshake,
    /// A connection between requests.
    Idle,
    /// A head that must arrive in full.
    Head,
    /// A body that the application waits for: each part of it.
    Body,
    /// A discarded body: all of it.
    Discard,
    /// A send that the peer does not take.
    Send,
    /// Content that the peer has no window for (RFC 9113 §6.9).
    Window,
    /// The last response of a multiplexed connection: over QUIC the client has to acknowledge it;
    /// over HTTP/2 the client has to confirm that it has read it and knows that the server leaves.
    Last,
    /// An exchange without traffic: QUIC has to be kept alive (RFC 9000 §10.1.2).
    Quiet,
    /// The peer's input after our last response.
    Linger,
    /// A connection that is being opened.
    Connect,
    /// The first byte of the client of a byte stream.
    FirstByte,
    /// A byte stream on which either side must send something.
    StreamIdle,
}

impl DeadlineWatch {
    /// Returns how long the watched condition may take, in milliseconds; `u64::MAX` is for ever.
    #[inline]
    fn patience_ms(self, settings: &WorkerSettings) -> u64 {
        match self {
            DeadlineWatch::Nothing => u64::MAX,
            DeadlineWatch::Handshake => HANDSHAKE_TIMEOUT_MS,
            DeadlineWatch::Idle => settings.idle_ms,
            DeadlineWatch::Head => settings.head_ms,
            DeadlineWatch::Body | DeadlineWatch::Discard => settings.body_ms,
            DeadlineWatch::Send => SEND_STALL_MS,
            DeadlineWatch::Window => WINDOW_STALL_MS,
            DeadlineWatch::Last => LAST_MS,
            DeadlineWatch::Quiet => QUIC_PING_MS,
            DeadlineWatch::Linger => LINGER_MS,
            // The application has set this time, or the listener does.
            DeadlineWatch::Connect | DeadlineWatch::FirstByte | DeadlineWatch::StreamIdle => {
                u64::MAX
            }
        }
    }

    /// Returns the rank of the condition. One of a higher rank postpones one of a lower rank: a
    /// send postpones everything that is to arrive, and an incomplete head postpones all that
    /// follows it.
    #[inline]
    fn rank(self) -> usize {
        match self {
            DeadlineWatch::Send => 2,
            DeadlineWatch::Head => 1,
            _ => 0,
        }
    }
}

/// The deadline of a connection. There is one for each: the alignment of a `u64` would cost more
/// than it helps.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct Deadline {
    at_ms: u64,
    /// The lower halves of the postponed deadlines, which are less than 24 days away.
    until: [u32; 2],
    /// The postponed conditions, by rank.
    put_off: [DeadlineWatch; 2],
    watch: DeadlineWatch,
}

impl Deadline {
    pub(crate) const NONE: Self = Self {
        watch: DeadlineWatch::Nothing,
        at_ms: u64::MAX,
        put_off: [DeadlineWatch::Nothing; 2],
        until: [0; 2],
    };

    /// Returns the watched condition.
    #[inline]
    pub(crate) fn watch(&self) -> DeadlineWatch {
        self.watch
    }

    /// Returns the time of the deadline, in milliseconds; `u64::MAX` is never.
    #[inline]
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Returns for how long the watched condition has lasted, in milliseconds.
    pub(crate) fn stalled_ms(&self, now_ms: u64, settings: &WorkerSettings) -> u64 {
        if matches!(self.watch, DeadlineWatch::FirstByte | DeadlineWatch::StreamIdle) {
            // Silence on a byte stream may be intended.
            return 0;
        }
        now_ms.saturating_add(self.watch.patience_ms(settings)).saturating_sub(self.at_ms)
    }

    /// Watches `watch` from now on; a postponed deadline of it continues where it stood. Returns
    /// whether another condition was watched.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        watch: DeadlineWatch,
        now_ms: u64,
        settings: &WorkerSettings,
    ) -> bool {
        if watch == DeadlineWatch::Nothing {
            self.forget();
            return self.pause() != DeadlineWatch::Nothing;
        }
        if watch == self.watch {
            return false;
        }
        let before = std::mem::replace(self, Self { watch, ..*self });
        self.at_ms = now_ms.saturating_add(watch.patience_ms(settings));
        let (rank, rank_before) = (watch.rank(), before.watch.rank());
        if rank > rank_before && before.at_ms.saturating_sub(now_ms) <= i32::MAX as u64 {
            self.put_off[rank_before] = before.watch;
            self.until[rank_before] = before.at_ms as u32;
        }
        if self.put_off.get(rank) == Some(&watch) {
            let left_ms = self.until[rank].wrapping_sub(now_ms as u32) as i32;
            self.at_ms = now_ms.saturating_add_signed(left_ms.into());
        }
        match rank {
            0 => self.forget(),
            1 => self.put_off[1] = DeadlineWatch::Nothing,
            _ => {}
        }
        true
    }

    /// Sets the time of the deadline, in milliseconds.
    pub(crate) fn comes_at(&mut self, at_ms: u64) {
        self.at_ms = at_ms;
    }

    /// Watches nothing until the next condition is known; returns the watched condition.
    #[inline]
    pub(crate) fn pause(&mut self) -> DeadlineWatch {
        self.at_ms = u64::MAX;
        std::mem::replace(&mut self.watch, DeadlineWatch::Nothing)
    }

    /// Drops the postponed conditions.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.put_off = [DeadlineWatch::Nothing; 2];
    }

    /// Ends this condition, whether it is watched or postponed.
    #[inline]
    pub(crate) fn is_over(&mut self, watch: DeadlineWatch) {
        if self.watch == watch {
            self.pause();
        }
        for put_off in &mut self.put_off {
            if *put_off == watch {
                *put_off = DeadlineWatch::Nothing;
            }
        }
    }

    /// Moves the deadline `ms` milliseconds earlier.
    #[cfg(test)]
    pub(crate) fn advance(&mut self, ms: u64) {
        self.at_ms -= ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a test whose deadlines begin at any time, even after 2^32 milliseconds. `begin` returns
    /// the time from that moment until the deadline.
    fn at_any_time(
        test: impl Fn(&mut Deadline, &dyn Fn(&mut Deadline, DeadlineWatch, u64) -> u64),
    ) {
        let settings = WorkerSettings::default();
        for now_ms in [0, u64::from(u32::MAX) - 10, 1 << 40] {
            let begin = |deadline: &mut Deadline, watch, after_ms| {
                deadline.begin(watch, now_ms + after_ms, &settings);
                deadline.at_ms().saturating_sub(now_ms)
            };
            test(&mut Deadline::NONE.clone(), &begin);
        }
    }

    /// Otherwise a PING now and then, to which the server responds, would postpone each deadline;
    /// so would half of a PING.
    #[test]
    fn what_the_connection_is_busy_with_gives_no_more_time_for_what_the_peer_should_do() {
        let WorkerSettings { idle_ms, head_ms, body_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            assert_eq!(begin(deadline, DeadlineWatch::Idle, 0), idle_ms);
            assert_eq!(begin(deadline, DeadlineWatch::Send, 5), 5 + SEND_STALL_MS);
            assert_eq!(begin(deadline, DeadlineWatch::Idle, 20), idle_ms);
            assert_eq!(begin(deadline, DeadlineWatch::Head, 30), 30 + head_ms);
            assert_eq!(begin(deadline, DeadlineWatch::Idle, 40), idle_ms);
            // Several watches follow each other, and some of the output has been sent.
            begin(deadline, DeadlineWatch::Send, 50);
            begin(deadline, DeadlineWatch::Head, 60);
            begin(deadline, DeadlineWatch::Send, 70);
            deadline.is_over(DeadlineWatch::Send);
            begin(deadline, DeadlineWatch::Send, 80);
            deadline.is_over(DeadlineWatch::Send);
            assert_eq!(begin(deadline, DeadlineWatch::Idle, 90), idle_ms);
            begin(deadline, DeadlineWatch::Send, 100);
            assert_eq!(begin(deadline, DeadlineWatch::Body, 110), 110 + body_ms, "another");
        });
    }

    /// Otherwise a client that ends one frame with half of the next one would get a response, and
    /// the time of a whole head again.
    #[test]
    fn what_is_sent_gives_no_more_time_for_half_a_head() {
        let WorkerSettings { idle_ms, head_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            begin(deadline, DeadlineWatch::Idle, 0);
            assert_eq!(begin(deadline, DeadlineWatch::Head, 10), 10 + head_ms);
            for at in [20, 40] {
                begin(deadline, DeadlineWatch::Send, at);
                deadline.is_over(DeadlineWatch::Send);
                assert_eq!(begin(deadline, DeadlineWatch::Head, at + 10), 10 + head_ms);
            }
            begin(deadline, DeadlineWatch::Send, 60);
            begin(deadline, DeadlineWatch::Send, 70);
            assert_eq!(begin(deadline, DeadlineWatch::Head, 80), 10 + head_ms);
            assert_eq!(
                begin(deadline, DeadlineWatch::Idle, 90),
                idle_ms,
                "and for what is to follow"
            );
            assert_eq!(begin(deadline, DeadlineWatch::Head, 100), 100 + head_ms, "the next one");
        });
    }

    #[test]
    fn a_head_that_became_whole_while_something_was_sent_takes_no_time_from_the_next() {
        let WorkerSettings { idle_ms, head_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            begin(deadline, DeadlineWatch::Idle, 0);
            begin(deadline, DeadlineWatch::Head, 10);
            begin(deadline, DeadlineWatch::Send, 20);
            deadline.is_over(DeadlineWatch::Head);
            deadline.is_over(DeadlineWatch::Send);
            begin(deadline, DeadlineWatch::Send, 30);
            deadline.is_over(DeadlineWatch::Send);
            assert_eq!(begin(deadline, DeadlineWatch::Head, 40), 40 + head_ms);
            // The same holds for output that is sent because of it.
            deadline.is_over(DeadlineWatch::Head);
            begin(deadline, DeadlineWatch::Send, 42);
            deadline.is_over(DeadlineWatch::Send);
            assert_eq!(begin(deadline, DeadlineWatch::Head, 44), 44 + head_ms);
            assert_eq!(
                begin(deadline, DeadlineWatch::Idle, 50),
                idle_ms,
                "which is none of the peer's"
            );
        });
    }

    /// This holds whatever was watched before, and whatever was postponed once.
    #[test]
    fn nothing_has_no_deadline() {
        let settings = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            let none = begin(&mut Deadline::NONE.clone(), DeadlineWatch::Nothing, 0);
            for before in [
                DeadlineWatch::Window,
                DeadlineWatch::Body,
                DeadlineWatch::Head,
                DeadlineWatch::Send,
            ] {
                begin(deadline, DeadlineWatch::Idle, 0);
                begin(deadline, DeadlineWatch::Send, 10);
                deadline.is_over(DeadlineWatch::Send);
                begin(deadline, before, 20);
                assert_eq!(begin(deadline, DeadlineWatch::Nothing, 30), none, "behind {before:?}");
                assert_eq!(deadline.stalled_ms(1 << 50, &settings), 0);
            }
        });
    }

    #[test]
    fn what_has_come_gives_new_time_for_the_next() {
        let WorkerSettings { idle_ms, head_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            for between in [DeadlineWatch::Send, DeadlineWatch::Head] {
                begin(deadline, DeadlineWatch::Idle, 0);
                begin(deadline, between, 10);
                deadline.forget();
                assert_eq!(begin(deadline, DeadlineWatch::Idle, 20), 20 + idle_ms);
                begin(deadline, DeadlineWatch::Window, 30);
                begin(deadline, between, 40);
                deadline.is_over(DeadlineWatch::Window);
                assert_eq!(begin(deadline, DeadlineWatch::Window, 50), 50 + WINDOW_STALL_MS);
                begin(deadline, DeadlineWatch::Idle, 60);
                begin(deadline, between, 70);
                begin(deadline, DeadlineWatch::Nothing, 80);
                assert_eq!(
                    begin(deadline, DeadlineWatch::Idle, 90),
                    90 + idle_ms,
                    "there was a request"
                );
            }
            begin(deadline, DeadlineWatch::Head, 100);
            begin(deadline, DeadlineWatch::Send, 110);
            deadline.forget();
            assert_eq!(begin(deadline, DeadlineWatch::Head, 120), 120 + head_ms);
        });
    }
}
