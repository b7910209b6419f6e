//! What it means that a deadline has passed.

use pinion_http::h1::glance::{PageForm, glance};
use pinion_http::refusal::Refusal;

use super::Notice;
use crate::app::{App, Gone};
use crate::backend::{Backend, Slot};
use crate::conn::Phase;
use crate::deadline::Watch;
use crate::exchange::Stage;
use crate::http1;
use crate::http2;
use crate::http3;
use crate::many;
use crate::worker::Worker;

impl<B: Backend, A: App> Worker<B, A> {
    #[cold]
    pub(crate) fn deadline(&mut self, slot: Slot) {
        let now = self.core.now.monotonic_ms;
        let conn = self.core.conns.get(slot);
        if conn.phase == Phase::Closing {
            return;
        }
        if conn.exchange.deadline_ms > 0 && conn.exchange.deadline_ms <= now {
            return self.asked_deadline(slot);
        }
        if conn.deadline.at_ms() > now {
            // The application had an earlier deadline and has taken it back.
            if conn.deadline.at_ms() < u64::MAX {
                self.core.wheel.arm(slot, conn.deadline.at_ms());
            }
            return;
        }
        let watch = conn.deadline.pause();
        // Over HTTP/2 a client goes on speaking while it reads. What it says to a connection that
        // is closed would cost it what the kernel still has for it.
        let speaks = watch == Watch::Linger && conn.http2().is_some();
        if speaks && self.has_moved_on(slot) {
            return self.settle(slot);
        }
        let conn = self.core.conns.get(slot);
        match watch {
            Watch::Nothing => {}
            _ if conn.http3().is_some() => {
                let Self { app, core, .. } = self;
                if let Some(code) = http3::stalled(app, core, slot, watch) {
                    return self.close_quic(slot, Gone::Stalled, code);
                }
            }
            Watch::Quiet => {}
            Watch::Last | Watch::Window => {
                http2::stalled(&mut self.app, &mut self.core, slot, watch);
            }
            Watch::Idle | Watch::Head | Watch::Body if conn.http2().is_some() => {
                http2::stalled(&mut self.app, &mut self.core, slot, watch);
            }
            Watch::Handshake | Watch::Idle | Watch::Linger => {
                return self.cut(slot, Gone::Stalled);
            }
            Watch::Head if conn.stash.is_empty() => return self.cut(slot, Gone::Stalled),
            Watch::Head => {
                let form = glance(conn.stash.unused());
                self.refuse_late(slot, form);
            }
            Watch::Discard => return self.cut(slot, Gone::Stalled),
            Watch::Body => {
                let answered = conn.exchange.stage != Stage::Open;
                let form = conn.exchange.page_form();
                self.notify_gone(slot, false, Gone::Stalled);
                if answered {
                    self.core.conns.get(slot).exchange.stage = Stage::Aborted;
                } else {
                    self.refuse_late(slot, form);
                }
            }
            Watch::Send => {
                if !self.has_moved_on(slot) {
                    return self.cut(slot, Gone::Stalled);
                }
            }
        }
        self.settle(slot);
    }

    /// The deadline that the application has asked for.
    fn asked_deadline(&mut self, slot: Slot) {
        let conn = self.core.conns.get(slot);
        conn.exchange.deadline_ms = 0;
        if conn.deadline.at_ms() < u64::MAX {
            self.core.wheel.arm(slot, conn.deadline.at_ms());
        }
        if !many::deadline(&mut self.app, &mut self.core, slot) {
            self.notify(slot, Notice::Deadline);
        }
        self.settle(slot);
    }

    /// Whether the peer has taken some of what the kernel has for it, since this was asked or the
    /// kernel took no more.
    fn has_moved_on(&mut self, slot: Slot) -> bool {
        let progress = self.backend.progress(slot).unwrap_or(0) as u32;
        std::mem::replace(&mut self.core.conns.get(slot).progress, progress) != progress
    }

    fn refuse_late(&mut self, slot: Slot, form: PageForm) {
        let status = Refusal::Timeout.status();
        http1::refuse(&mut self.app, &mut self.core, slot, status, form);
    }
}
