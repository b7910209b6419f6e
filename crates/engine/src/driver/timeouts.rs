//! The actions of a worker when a deadline has expired.

use pinion_http::h1::refused_request_hints::glance;
use pinion_http::refusal::Refusal;

use super::{http1, http2, http3, multiplexed_requests};
use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::connection::Protocol;
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::linger::Remaining;
use crate::outgoing_connect::NotConnected;
use crate::stream_event::Notice;
use crate::worker::Worker;

impl<B: Backend, A: App> Worker<B, A> {
    #[cold]
    pub(crate) fn deadline(&mut self, slot: Slot) {
        let now = self.core.now.monotonic_ms;
        let connection = self.core.connections.get(slot);
        if connection.is_closing() {
            return;
        }
        if connection.link.app_deadline_ms > 0 && connection.link.app_deadline_ms <= now {
            return self.app_deadline(slot);
        }
        if connection.link.deadline.at_ms() > now {
            // The application had an earlier deadline and has cancelled it.
            if connection.link.deadline.at_ms() < u64::MAX {
                self.core.wheel.arm(slot, connection.link.deadline.at_ms());
            }
            return;
        }
        let kind = connection.link.deadline.pause();
        // Over HTTP/2 a client goes on sending while it reads. If it sends to a closed connection,
        // it loses the data that the kernel still has for it.
        let speaks = matches!(&connection.protocol, Protocol::Linger(linger) if linger.was_http2);
        if kind == DeadlineKind::Linger && speaks && self.has_moved_on(slot) {
            return self.settle(slot);
        }
        let connection = self.core.connections.get(slot);
        match kind {
            DeadlineKind::Nothing => {}
            _ if connection.http3().is_some() => {
                let Self { app, core, .. } = self;
                if let Some(code) = http3::stalled(app, core, slot, kind) {
                    return self.close_quic(slot, Gone::Stalled, code);
                }
            }
            DeadlineKind::Quiet => {}
            DeadlineKind::Last | DeadlineKind::Window => {
                http2::stalled(&mut self.app, &mut self.core, slot, kind);
            }
            DeadlineKind::Idle | DeadlineKind::Head | DeadlineKind::Body
                if connection.http2().is_some() =>
            {
                http2::stalled(&mut self.app, &mut self.core, slot, kind);
            }
            DeadlineKind::Connect => {
                return self.cut(slot, Gone::NotConnected(NotConnected::TimedOut));
            }
            DeadlineKind::Handshake
            | DeadlineKind::Idle
            | DeadlineKind::Linger
            | DeadlineKind::FirstByte => {
                return self.cut(slot, Gone::Stalled);
            }
            DeadlineKind::StreamIdle => return self.cut(slot, Gone::Idle),
            DeadlineKind::Head if connection.link.input.is_empty() => {
                return self.cut(slot, Gone::Stalled);
            }
            DeadlineKind::Head => self.refuse_late(slot),
            // The client may still want to see the response.
            DeadlineKind::Discard => self.core.end(slot, Remaining::Content),
            DeadlineKind::Body => {
                http1::content_refused(&mut self.app, &mut self.core, slot, Refusal::Timeout);
            }
            DeadlineKind::Send => {
                if !self.has_moved_on(slot) {
                    return self.cut(slot, Gone::Stalled);
                }
            }
        }
        self.settle(slot);
    }

    /// Handles the deadline that the application has set.
    fn app_deadline(&mut self, slot: Slot) {
        let connection = self.core.connections.get(slot);
        connection.link.app_deadline_ms = 0;
        if let Protocol::ByteStream(stream) = &mut connection.protocol {
            stream.progress = self.backend.progress(slot).unwrap_or(0) as u32;
        }
        if connection.link.deadline.at_ms() < u64::MAX {
            self.core.wheel.arm(slot, connection.link.deadline.at_ms());
        }
        if !multiplexed_requests::deadline(&mut self.app, &mut self.core, slot) {
            self.notify(slot, Notice::Deadline);
        }
        self.settle(slot);
    }

    /// Returns whether the peer has taken some of the kernel's data for it, since the last call or
    /// since the kernel took no more.
    fn has_moved_on(&mut self, slot: Slot) -> bool {
        let progress = self.backend.progress(slot).unwrap_or(0) as u32;
        std::mem::replace(&mut self.core.connections.get(slot).link.progress, progress) != progress
    }

    /// Refuses a head that is not complete in time.
    fn refuse_late(&mut self, slot: Slot) {
        let Self { app, core, .. } = self;
        let kept = std::mem::take(&mut core.connections.get(slot).link.input);
        let request = glance(kept.unused());
        http1::send_page(app, core, slot, Refusal::Timeout.status(), &request);
        core.connections.get(slot).link.input = kept;
    }
}
