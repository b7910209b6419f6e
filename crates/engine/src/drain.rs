//! The end of a worker. A client that came in time is not turned away, and the port is free for a
//! successor as soon as the last of them has been taken.
//!
//! 1. *Emptying.* Clients that connected before the end began wait in the queue of a listener, and
//!    a request may stand unread in a socket that looks idle. The worker goes on as before, but
//!    without waiting, until passes bring neither. Answers say from now on that the connection
//!    closes. Whoever has an exchange or a stream open is told: it may have no end of its own. If
//!    no place is free for those who wait, connections between two requests give theirs up, and
//!    for a moment whoever leaves is followed by the next.
//! 2. *Finishing.* The listeners are closed. Connections between two requests are closed,
//!    newcomers have a moment to speak, and clients that are to be told to send no more have one to
//!    say that they have read why. What runs is finished, with the work of the application that
//!    belongs to no exchange.

use std::sync::atomic::Ordering;

use crate::app::App;
use crate::backend::{Backend, Completion, Slot};
use crate::backlog::Backlog;
use crate::conn::Protocol;
use crate::ending::WorkerEnding;
use crate::gone::Gone;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::limits::{DRAIN_NEWCOMER_MS, DRAIN_PLACES_MS};
use crate::linger::Remaining;
use crate::multiplexed::Multiplexed;
use crate::notice::Notice;
use crate::service::requests;
use crate::worker::Worker;

impl<B: Backend, A: App> Worker<B, A> {
    /// Begins the end, once.
    pub(crate) fn drain(&mut self) {
        if self.core.ending != WorkerEnding::No {
            return;
        }
        let places_until_ms = self.core.now.monotonic_ms + DRAIN_PLACES_MS;
        self.core.ending = WorkerEnding::Emptying { backlog: Backlog::default(), places_until_ms };
        let mut from = 0;
        while let Some(slot) = self.core.conns.next_live(from) {
            from = slot + 1;
            let conn = self.core.conns.get(slot);
            if let Some(open) = conn.protocol.http1().and_then(Http1::exchange) {
                open.keep_alive = false;
            }
            // Who is still shaking hands is told behind that, and has come in time.
            let is_new = conn.http3().is_some_and(|http3| http3.quic.is_handshaking());
            if !is_new && !conn.is_closing() && conn.protocol.multiplexed().is_some() {
                self.core.go_away(slot);
                self.settle(slot);
            }
        }
        self.tell_stopping();
        self.app.stopping();
    }

    /// Tells the application of every exchange and stream that is open. Each connection has its
    /// turn once, so what it begins behind that is not told, and can ask.
    fn tell_stopping(&mut self) {
        let mut from = 0;
        while let Some(slot) = self.core.conns.next_live(from) {
            from = slot + 1;
            let conn = self.core.conns.get(slot);
            if conn.is_closing() {
                continue;
            }
            if conn.protocol.multiplexed().is_some() {
                requests::tell_stopping(&mut self.app, &mut self.core, slot);
            } else if conn.is_open() {
                self.notify(slot, Notice::Stopping);
            } else {
                continue;
            }
            self.settle(slot);
        }
    }

    /// Whether a completion brings what the end waits for.
    pub(crate) fn brings(completion: &Completion<B::Socket>) -> bool {
        matches!(
            completion,
            Completion::Accepted { .. }
                | Completion::Received { .. }
                | Completion::Datagrams { .. }
        )
    }

    /// Moves the end on behind a pass, which has `brought` somebody or a request.
    pub(crate) fn drained(&mut self, brought: bool) -> bool {
        match self.core.ending {
            WorkerEnding::No => return false,
            WorkerEnding::Emptying { mut backlog, places_until_ms } => {
                let is_over = backlog.is_over(brought);
                // Without a place in hand a pass brings nobody, whoever waits.
                let is_full = !self.is_accepting() && self.core.now.monotonic_ms < places_until_ms;
                if is_over && is_full {
                    self.close_idle(false);
                    backlog = Backlog::default();
                }
                self.core.ending = WorkerEnding::Emptying { backlog, places_until_ms };
                if is_over && !is_full {
                    self.finish();
                }
            }
            WorkerEnding::Finishing { newcomers_until_ms } => {
                let is_time = newcomers_until_ms <= self.core.now.monotonic_ms;
                if is_time && !self.punctuality.is_catching_up() {
                    self.core.ending = WorkerEnding::Finishing { newcomers_until_ms: u64::MAX };
                    // What is on its way is not taken any more. Over HTTP/2 the client's answer to
                    // a ping says when that is fair; here it has had its moment.
                    self.each_quic(false, |worker, slot| {
                        worker.core.go_away(slot);
                        worker.settle(slot);
                    });
                    self.close_idle(true);
                }
            }
        }
        let is_over = self.shared.stopping.load(Ordering::Acquire);
        if is_over {
            self.finish();
            let mut from = 0;
            while let Some(slot) = self.core.conns.next_live(from) {
                from = slot + 1;
                self.cut(slot, Gone::Stopping);
            }
        }
        let finishing = matches!(self.core.ending, WorkerEnding::Finishing { .. });
        // What stands in the inbox may begin work.
        let is_busy = || self.app.is_busy() || self.has_messages();
        finishing && self.core.conns.len() == 0 && (is_over || !is_busy())
    }

    fn finish(&mut self) {
        if let WorkerEnding::Finishing { .. } = self.core.ending {
            return;
        }
        let newcomers_until_ms = self.core.now.monotonic_ms + DRAIN_NEWCOMER_MS;
        self.core.ending = WorkerEnding::Finishing { newcomers_until_ms };
        self.accept(false);
        self.backend.close_listeners();
        self.each_quic(true, Self::drive_quic);
        self.close_idle(false);
    }

    /// Does something with every connection of QUIC that is closed, or with every other.
    fn each_quic(&mut self, closed: bool, act: impl Fn(&mut Self, Slot)) {
        let mut from = 0;
        while let Some(slot) = self.core.conns.next_live(from) {
            from = slot + 1;
            let conn = self.core.conns.get(slot);
            if conn.http3().is_some_and(|http3| http3.is_closed() == closed) {
                act(self, slot);
            }
        }
    }

    /// Closes the connections between two requests. With `all` those too that have had none yet,
    /// and those whose client is to be told to stop, and has not said that it has read why.
    fn close_idle(&mut self, all: bool) {
        let mut from = 0;
        while let Some(slot) = self.core.conns.next_live(from) {
            from = slot + 1;
            let is_sent = self.core.queued_bytes(slot) == 0;
            let conn = self.core.conns.get(slot);
            if !all && conn.begun == 0 {
                continue;
            }
            let nothing_kept = conn.link.input.is_empty();
            let is_idle_quic =
                conn.http3().is_some_and(|http3| !http3.is_closed() && http3.is_idle());
            match &mut conn.protocol {
                Protocol::Multiplexed(Multiplexed::Http3(_)) if is_idle_quic => {
                    self.cut(slot, Gone::Stopping);
                }
                Protocol::Multiplexed(Multiplexed::Http2(http2)) => {
                    let Http2 { session, .. } = &**http2;
                    if session.is_at_rest() || all && session.open_streams() == 0 {
                        if let Some((http2, link, buffers)) = self.core.http2(slot) {
                            http2.finish_all(link, buffers);
                        }
                        self.core.end(slot, Remaining::Strays);
                        self.settle(slot);
                    }
                }
                Protocol::ProxyHeader(_)
                | Protocol::Handshake
                | Protocol::Preface
                | Protocol::Http1(Http1::Head { .. })
                    if nothing_kept =>
                {
                    match is_sent {
                        true => self.cut(slot, Gone::Stopping),
                        false => self.core.end(slot, Remaining::Strays),
                    }
                }
                // A server that stops waits for what it drops no longer than for stray bytes.
                Protocol::Http1(Http1::Discard { .. }) => {
                    self.core.end(slot, Remaining::Strays);
                    self.settle(slot);
                }
                Protocol::Linger(linger) if linger.remaining == Remaining::Content => {
                    linger.remaining = Remaining::Strays;
                    conn.link.received();
                    self.core.watch(slot);
                }
                _ => {}
            }
        }
    }
}
