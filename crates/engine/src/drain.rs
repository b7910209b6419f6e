//! The end of a worker. A client that came in time is not turned away, and the port is free for a
//! successor as soon as the last such client has been accepted.
//!
//! 1. *Emptying.* Clients that connected before the end began wait in the accept queue of a
//!    listener, and a request may wait unread in a socket that looks idle. The worker goes on as
//!    before, but without waiting, until passes bring neither. Responses announce from now on that
//!    the connection closes. The application gets an event for each open exchange and stream, which
//!    may have no end of its own. If no permit is free for waiting clients, connections between two
//!    requests are closed, and for a moment each departing client makes room for the next.
//! 2. *Finishing.* The listeners are closed. Connections between two requests are closed. Newcomers
//!    have a moment to send a request, and clients that are to stop sending have one to confirm
//!    that they have read the reason. Open exchanges are finished, with the work of the application
//!    that belongs to no exchange.

use std::sync::atomic::Ordering;

use crate::app::App;
use crate::backend::{Backend, Completion, Slot};
use crate::connection::Protocol;
use crate::drain_state::WorkerEnding;
use crate::driver::multiplexed_requests;
use crate::end_reason::Gone;
use crate::event_backlog::Backlog;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::limits::{DRAIN_NEWCOMER_MS, DRAIN_PLACES_MS};
use crate::linger::Remaining;
use crate::multiplexed::Multiplexed;
use crate::stream_event::Notice;
use crate::worker::Worker;

impl<B: Backend, A: App> Worker<B, A> {
    /// Begins the end of the worker, once.
    pub(crate) fn drain(&mut self) {
        if self.core.ending != WorkerEnding::No {
            return;
        }
        let places_until_ms = self.core.now.monotonic_ms + DRAIN_PLACES_MS;
        self.core.ending = WorkerEnding::Emptying { backlog: Backlog::default(), places_until_ms };
        let mut from = 0;
        while let Some(slot) = self.core.connections.next_in_use(from) {
            from = slot + 1;
            let connection = self.core.connections.get(slot);
            if let Some(open) = connection.protocol.http1().and_then(Http1::exchange) {
                open.keep_alive = false;
            }
            // A client in a handshake gets GOAWAY after that, and has come in time.
            let is_new = connection.http3().is_some_and(|http3| http3.quic.is_handshaking());
            if !is_new && !connection.is_closing() && connection.protocol.multiplexed().is_some() {
                self.core.go_away(slot);
                self.settle(slot);
            }
        }
        self.report_stopping();
        self.app.stopping();
    }

    /// Sends the event that the server stops to every open exchange and stream. Each connection has
    /// its turn once, so later exchanges do not get the event, and can ask.
    fn report_stopping(&mut self) {
        let mut from = 0;
        while let Some(slot) = self.core.connections.next_in_use(from) {
            from = slot + 1;
            let connection = self.core.connections.get(slot);
            if connection.is_closing() {
                continue;
            }
            if connection.protocol.multiplexed().is_some() {
                multiplexed_requests::report_stopping(&mut self.app, &mut self.core, slot);
            } else if connection.has_single_open_exchange() {
                self.notify(slot, Notice::Stopping);
            } else {
                continue;
            }
            self.settle(slot);
        }
    }

    /// Returns whether a completion brings an event that the end waits for.
    pub(crate) fn brings(completion: &Completion<B::Socket>) -> bool {
        matches!(
            completion,
            Completion::Accepted { .. }
                | Completion::Received { .. }
                | Completion::Datagrams { .. }
        )
    }

    /// Moves the end on after a pass; `brought` is whether it brought a client or a request.
    /// Returns whether the worker is done.
    pub(crate) fn drained(&mut self, brought: bool) -> bool {
        match self.core.ending {
            WorkerEnding::No => return false,
            WorkerEnding::Emptying { mut backlog, places_until_ms } => {
                let is_over = backlog.is_over(brought);
                // Without a reserved permit a pass accepts no client, even if some wait.
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
                    // Requests on their way are not accepted any more. Over HTTP/2 the client's
                    // reply to a PING shows when that is fair; here the client has had its moment.
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
            while let Some(slot) = self.core.connections.next_in_use(from) {
                from = slot + 1;
                self.cut(slot, Gone::Stopping);
            }
        }
        let finishing = matches!(self.core.ending, WorkerEnding::Finishing { .. });
        // Messages in the inbox may begin work.
        let is_busy = || self.app.is_busy() || self.has_messages();
        finishing && self.core.connections.len() == 0 && (is_over || !is_busy())
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

    /// Acts on every QUIC connection that is `closed`, or on every other.
    fn each_quic(&mut self, closed: bool, act: impl Fn(&mut Self, Slot)) {
        let mut from = 0;
        while let Some(slot) = self.core.connections.next_in_use(from) {
            from = slot + 1;
            let connection = self.core.connections.get(slot);
            if connection.http3().is_some_and(|http3| http3.is_closed() == closed) {
                act(self, slot);
            }
        }
    }

    /// Closes the connections between two requests. With `all` it also closes those that have had
    /// none yet, and those whose client is to stop, and has not confirmed that it has read the
    /// reason.
    fn close_idle(&mut self, all: bool) {
        let mut from = 0;
        while let Some(slot) = self.core.connections.next_in_use(from) {
            from = slot + 1;
            let is_sent = self.core.queued_bytes(slot) == 0;
            let connection = self.core.connections.get(slot);
            if !all && connection.exchanges_begun == 0 {
                continue;
            }
            let nothing_kept = connection.link.input.is_empty();
            let is_idle_quic =
                connection.http3().is_some_and(|http3| !http3.is_closed() && http3.is_idle());
            match &mut connection.protocol {
                Protocol::Multiplexed(Multiplexed::Http3(_)) if is_idle_quic => {
                    self.cut(slot, Gone::Stopping);
                }
                Protocol::Multiplexed(Multiplexed::Http2(http2)) => {
                    let Http2 { session, .. } = &**http2;
                    if session.is_at_rest() || all && session.open_streams() == 0 {
                        if let Some((http2, link, buffers)) = self.core.http2(slot) {
                            http2.finish_all(link, buffers);
                        }
                        self.core.end(slot, Remaining::UselessInput);
                        self.settle(slot);
                    }
                }
                Protocol::ProxyHeader(_)
                | Protocol::Handshake
                | Protocol::Undetected
                | Protocol::Http1(Http1::Head { .. })
                    if nothing_kept =>
                {
                    if is_sent {
                        self.cut(slot, Gone::Stopping);
                    } else {
                        self.core.end(slot, Remaining::UselessInput);
                    }
                }
                // A server that stops waits for dropped content no longer than for stray bytes.
                Protocol::Http1(Http1::Discard { .. }) => {
                    self.core.end(slot, Remaining::UselessInput);
                    self.settle(slot);
                }
                Protocol::Linger(linger) if linger.remaining == Remaining::Content => {
                    linger.remaining = Remaining::UselessInput;
                    connection.link.received();
                    self.core.set_deadline(slot);
                }
                _ => {}
            }
        }
    }
}
