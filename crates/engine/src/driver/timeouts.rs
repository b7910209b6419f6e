//! The actions of a worker when a deadline has expired.

use pinion_http::h1::refused_request_hints::glance;
use pinion_http::refusal::Refusal;

use super::{http1, http2, http3, multiplexed_requests};
use crate::app::App;
use crate::backend::{Backend, Slot};
use crate::connection::Protocol;
use crate::deadline::DeadlineWatch;
use crate::end_reason::Gone;
use crate::linger::Remaining;
use crate::outgoing_connect::NotConnected;
use crate::stream_event::Notice;
use crate::worker::Worker;

impl<B: Backend, A: App> Worker<B, A> {
    #[cold]
    pub(crate) fn deadline(&mut self, slot: Slot) {
        let now = self.core.now.monotonic_ms;
        let conn = self.core.conns.get(slot);
        if conn.is_closing() {
            return;
        }
        if conn.link.asked_ms > 0 && conn.link.asked_ms <= now {
            return self.asked_deadline(slot);
        }
        if conn.link.deadline.at_ms() > now {
            // The application had an earlier deadline and has cancelled it.
            if conn.link.deadline.at_ms() < u64::MAX {
                self.core.wheel.arm(slot, conn.link.deadline.at_ms());
            }
            return;
        }
        let watch = conn.link.deadline.pause();
        // Over HTTP/2 a client goes on sending while it reads. If it sends to a closed connection,
        // it loses the data that the kernel still has for it.
        let speaks = matches!(&conn.protocol, Protocol::Linger(linger) if linger.was_http2);
        if watch == DeadlineWatch::Linger && speaks && self.has_moved_on(slot) {
            return self.settle(slot);
        }
        let conn = self.core.conns.get(slot);
        match watch {
            DeadlineWatch::Nothing => {}
            _ if conn.http3().is_some() => {
                let Self { app, core, .. } = self;
                if let Some(code) = http3::stalled(app, core, slot, watch) {
                    return self.close_quic(slot, Gone::Stalled, code);
                }
            }
            DeadlineWatch::Quiet => {}
            DeadlineWatch::Last | DeadlineWatch::Window => {
                http2::stalled(&mut self.app, &mut self.core, slot, watch);
            }
            DeadlineWatch::Idle | DeadlineWatch::Head | DeadlineWatch::Body
                if conn.http2().is_some() =>
            {
                http2::stalled(&mut self.app, &mut self.core, slot, watch);
            }
            DeadlineWatch::Connect => {
                return self.cut(slot, Gone::NotConnected(NotConnected::TimedOut));
            }
            DeadlineWatch::Handshake
            | DeadlineWatch::Idle
            | DeadlineWatch::Linger
            | DeadlineWatch::FirstByte => {
                return self.cut(slot, Gone::Stalled);
            }
            DeadlineWatch::StreamIdle => return self.cut(slot, Gone::Idle),
            DeadlineWatch::Head if conn.link.input.is_empty() => {
                return self.cut(slot, Gone::Stalled);
            }
            DeadlineWatch::Head => self.refuse_late(slot),
            // The client may still want to see the response.
            DeadlineWatch::Discard => self.core.end(slot, Remaining::Content),
            DeadlineWatch::Body => {
                http1::content_refused(&mut self.app, &mut self.core, slot, Refusal::Timeout);
            }
            DeadlineWatch::Send => {
                if !self.has_moved_on(slot) {
                    return self.cut(slot, Gone::Stalled);
                }
            }
        }
        self.settle(slot);
    }

    /// Handles the deadline that the application has set.
    fn asked_deadline(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        conn.link.asked_ms = 0;
        if let Protocol::Raw(stream) = &mut conn.protocol {
            stream.progress = self.backend.progress(slot).unwrap_or(0) as u32;
        }
        if conn.link.deadline.at_ms() < u64::MAX {
            self.core.wheel.arm(slot, conn.link.deadline.at_ms());
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
        std::mem::replace(&mut self.core.conns.get(slot).link.progress, progress) != progress
    }

    /// Refuses a head that is not complete in time.
    fn refuse_late(&mut self, slot: Slot) {
        let Self { app, core, .. } = self;
        let kept = std::mem::take(&mut core.conns.get(slot).link.input);
        let request = glance(kept.unused());
        http1::send_page(app, core, slot, Refusal::Timeout.status(), &request);
        core.conns.get(slot).link.input = kept;
    }
}
