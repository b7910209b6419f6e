//! The deadline of a connection: its kind and its time. A short interruption,
//! such as an incomplete PING or the reply to one, postpones the deadline of the peer's next step,
//! and gives it no more time.

use crate::limits::{
    HANDSHAKE_TIMEOUT_MS, LAST_MS, LINGER_MS, QUIC_PING_MS, SEND_STALL_MS, WINDOW_STALL_MS,
};
use crate::settings::WorkerSettings;

/// The kind of a deadline: the condition that must end before the deadline expires.
/// `Connection::deadline_kind` chooses it by the state of the connection, and `driver/timeouts.rs`
/// acts when the deadline has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadlineKind {
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

impl DeadlineKind {
    /// Returns the timeout of this kind, in milliseconds; `u64::MAX` is none.
    #[inline]
    fn timeout_ms(self, settings: &WorkerSettings) -> u64 {
        match self {
            DeadlineKind::Nothing => u64::MAX,
            DeadlineKind::Handshake => HANDSHAKE_TIMEOUT_MS,
            DeadlineKind::Idle => settings.idle_ms,
            DeadlineKind::Head => settings.head_ms,
            DeadlineKind::Body | DeadlineKind::Discard => settings.body_ms,
            DeadlineKind::Send => SEND_STALL_MS,
            DeadlineKind::Window => WINDOW_STALL_MS,
            DeadlineKind::Last => LAST_MS,
            DeadlineKind::Quiet => QUIC_PING_MS,
            DeadlineKind::Linger => LINGER_MS,
            // The application has set this time, or the listener does.
            DeadlineKind::Connect | DeadlineKind::FirstByte | DeadlineKind::StreamIdle => u64::MAX,
        }
    }

    /// Returns the rank of the condition. One of a higher rank postpones one of a lower rank: a
    /// send postpones everything that is to arrive, and an incomplete head postpones all that
    /// follows it.
    #[inline]
    fn rank(self) -> usize {
        match self {
            DeadlineKind::Send => 2,
            DeadlineKind::Head => 1,
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
    postponed_until: [u32; 2],
    /// The postponed conditions, by rank.
    postponed: [DeadlineKind; 2],
    kind: DeadlineKind,
}

impl Deadline {
    pub(crate) const NONE: Self = Self {
        kind: DeadlineKind::Nothing,
        at_ms: u64::MAX,
        postponed: [DeadlineKind::Nothing; 2],
        postponed_until: [0; 2],
    };

    /// Returns the kind of the deadline.
    #[inline]
    pub(crate) fn kind(&self) -> DeadlineKind {
        self.kind
    }

    /// Returns the time of the deadline, in milliseconds; `u64::MAX` is never.
    #[inline]
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Returns for how long the condition of the deadline has lasted, in milliseconds.
    pub(crate) fn stalled_ms(&self, now_ms: u64, settings: &WorkerSettings) -> u64 {
        if matches!(self.kind, DeadlineKind::FirstByte | DeadlineKind::StreamIdle) {
            // Silence on a byte stream may be intended.
            return 0;
        }
        now_ms.saturating_add(self.kind.timeout_ms(settings)).saturating_sub(self.at_ms)
    }

    /// Starts a deadline of this kind; a postponed one of the same kind continues where it stood.
    /// Returns whether it was started: false if a deadline of this kind runs already.
    #[inline]
    pub(crate) fn start(
        &mut self,
        kind: DeadlineKind,
        now_ms: u64,
        settings: &WorkerSettings,
    ) -> bool {
        if kind == DeadlineKind::Nothing {
            self.drop_postponed();
            return self.pause() != DeadlineKind::Nothing;
        }
        if kind == self.kind {
            return false;
        }
        let before = std::mem::replace(self, Self { kind, ..*self });
        self.at_ms = now_ms.saturating_add(kind.timeout_ms(settings));
        let (rank, rank_before) = (kind.rank(), before.kind.rank());
        if rank > rank_before && before.at_ms.saturating_sub(now_ms) <= i32::MAX as u64 {
            self.postponed[rank_before] = before.kind;
            self.postponed_until[rank_before] = before.at_ms as u32;
        }
        if self.postponed.get(rank) == Some(&kind) {
            let left_ms = self.postponed_until[rank].wrapping_sub(now_ms as u32) as i32;
            self.at_ms = now_ms.saturating_add_signed(left_ms.into());
        }
        match rank {
            0 => self.drop_postponed(),
            1 => self.postponed[1] = DeadlineKind::Nothing,
            _ => {}
        }
        true
    }

    /// Sets the time of the deadline, in milliseconds.
    pub(crate) fn set_at_ms(&mut self, at_ms: u64) {
        self.at_ms = at_ms;
    }

    /// Stops the deadline until the next kind is known. Returns the kind that it had.
    #[inline]
    pub(crate) fn pause(&mut self) -> DeadlineKind {
        self.at_ms = u64::MAX;
        std::mem::replace(&mut self.kind, DeadlineKind::Nothing)
    }

    /// Drops the postponed deadlines.
    #[inline]
    pub(crate) fn drop_postponed(&mut self) {
        self.postponed = [DeadlineKind::Nothing; 2];
    }

    /// Ends the deadline of this kind, whether it runs or is postponed.
    #[inline]
    pub(crate) fn end(&mut self, kind: DeadlineKind) {
        if self.kind == kind {
            self.pause();
        }
        for postponed in &mut self.postponed {
            if *postponed == kind {
                *postponed = DeadlineKind::Nothing;
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
    fn at_any_time(test: impl Fn(&mut Deadline, &dyn Fn(&mut Deadline, DeadlineKind, u64) -> u64)) {
        let settings = WorkerSettings::default();
        for now_ms in [0, u64::from(u32::MAX) - 10, 1 << 40] {
            let begin = |deadline: &mut Deadline, kind, after_ms| {
                deadline.start(kind, now_ms + after_ms, &settings);
                deadline.at_ms().saturating_sub(now_ms)
            };
            test(&mut Deadline::NONE.clone(), &begin);
        }
    }

    /// Otherwise a PING now and then, to which the server responds, would postpone each deadline;
    /// so would half of a PING.
    #[test]
    fn other_activity_does_not_extend_the_deadline_of_the_peer() {
        let WorkerSettings { idle_ms, head_ms, body_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            assert_eq!(begin(deadline, DeadlineKind::Idle, 0), idle_ms);
            assert_eq!(begin(deadline, DeadlineKind::Send, 5), 5 + SEND_STALL_MS);
            assert_eq!(begin(deadline, DeadlineKind::Idle, 20), idle_ms);
            assert_eq!(begin(deadline, DeadlineKind::Head, 30), 30 + head_ms);
            assert_eq!(begin(deadline, DeadlineKind::Idle, 40), idle_ms);
            // Several kinds follow each other, and some of the output has been sent.
            begin(deadline, DeadlineKind::Send, 50);
            begin(deadline, DeadlineKind::Head, 60);
            begin(deadline, DeadlineKind::Send, 70);
            deadline.end(DeadlineKind::Send);
            begin(deadline, DeadlineKind::Send, 80);
            deadline.end(DeadlineKind::Send);
            assert_eq!(begin(deadline, DeadlineKind::Idle, 90), idle_ms);
            begin(deadline, DeadlineKind::Send, 100);
            assert_eq!(begin(deadline, DeadlineKind::Body, 110), 110 + body_ms, "another");
        });
    }

    /// Otherwise a client that ends one frame with half of the next one would get a response, and
    /// the time of a whole head again.
    #[test]
    fn output_does_not_extend_the_deadline_of_an_incomplete_head() {
        let WorkerSettings { idle_ms, head_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            begin(deadline, DeadlineKind::Idle, 0);
            assert_eq!(begin(deadline, DeadlineKind::Head, 10), 10 + head_ms);
            for at in [20, 40] {
                begin(deadline, DeadlineKind::Send, at);
                deadline.end(DeadlineKind::Send);
                assert_eq!(begin(deadline, DeadlineKind::Head, at + 10), 10 + head_ms);
            }
            begin(deadline, DeadlineKind::Send, 60);
            begin(deadline, DeadlineKind::Send, 70);
            assert_eq!(begin(deadline, DeadlineKind::Head, 80), 10 + head_ms);
            assert_eq!(
                begin(deadline, DeadlineKind::Idle, 90),
                idle_ms,
                "and for what is to follow"
            );
            assert_eq!(begin(deadline, DeadlineKind::Head, 100), 100 + head_ms, "the next one");
        });
    }

    #[test]
    fn a_head_completed_during_a_send_leaves_the_next_its_full_time() {
        let WorkerSettings { idle_ms, head_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            begin(deadline, DeadlineKind::Idle, 0);
            begin(deadline, DeadlineKind::Head, 10);
            begin(deadline, DeadlineKind::Send, 20);
            deadline.end(DeadlineKind::Head);
            deadline.end(DeadlineKind::Send);
            begin(deadline, DeadlineKind::Send, 30);
            deadline.end(DeadlineKind::Send);
            assert_eq!(begin(deadline, DeadlineKind::Head, 40), 40 + head_ms);
            // The same holds for output that is sent because of it.
            deadline.end(DeadlineKind::Head);
            begin(deadline, DeadlineKind::Send, 42);
            deadline.end(DeadlineKind::Send);
            assert_eq!(begin(deadline, DeadlineKind::Head, 44), 44 + head_ms);
            assert_eq!(
                begin(deadline, DeadlineKind::Idle, 50),
                idle_ms,
                "which is none of the peer's"
            );
        });
    }

    /// This holds whatever was watched before, and whatever was postponed once.
    #[test]
    fn the_kind_nothing_has_no_deadline() {
        let settings = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            let none = begin(&mut Deadline::NONE.clone(), DeadlineKind::Nothing, 0);
            for before in
                [DeadlineKind::Window, DeadlineKind::Body, DeadlineKind::Head, DeadlineKind::Send]
            {
                begin(deadline, DeadlineKind::Idle, 0);
                begin(deadline, DeadlineKind::Send, 10);
                deadline.end(DeadlineKind::Send);
                begin(deadline, before, 20);
                assert_eq!(begin(deadline, DeadlineKind::Nothing, 30), none, "behind {before:?}");
                assert_eq!(deadline.stalled_ms(1 << 50, &settings), 0);
            }
        });
    }

    #[test]
    fn completed_input_restarts_the_deadline() {
        let WorkerSettings { idle_ms, head_ms, .. } = WorkerSettings::default();
        at_any_time(|deadline, begin| {
            for between in [DeadlineKind::Send, DeadlineKind::Head] {
                begin(deadline, DeadlineKind::Idle, 0);
                begin(deadline, between, 10);
                deadline.drop_postponed();
                assert_eq!(begin(deadline, DeadlineKind::Idle, 20), 20 + idle_ms);
                begin(deadline, DeadlineKind::Window, 30);
                begin(deadline, between, 40);
                deadline.end(DeadlineKind::Window);
                assert_eq!(begin(deadline, DeadlineKind::Window, 50), 50 + WINDOW_STALL_MS);
                begin(deadline, DeadlineKind::Idle, 60);
                begin(deadline, between, 70);
                begin(deadline, DeadlineKind::Nothing, 80);
                assert_eq!(
                    begin(deadline, DeadlineKind::Idle, 90),
                    90 + idle_ms,
                    "there was a request"
                );
            }
            begin(deadline, DeadlineKind::Head, 100);
            begin(deadline, DeadlineKind::Send, 110);
            deadline.drop_postponed();
            assert_eq!(begin(deadline, DeadlineKind::Head, 120), 120 + head_ms);
        });
    }
}
