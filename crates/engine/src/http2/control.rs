//! The frames of a connection itself, besides those of its exchanges.

use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::{Session, SessionSettings};
use pinion_http::limits::Limits;

use super::Http2;
use crate::end_reason::Gone;
use crate::multiplexed::MultiplexedStream;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;

impl Http2 {
    /// Begins HTTP/2 on a connection whose first bytes are still to arrive.
    pub(crate) fn begin(
        limits: Limits,
        extended_connect: bool,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) -> Self {
        let settings = SessionSettings { limits, extended_connect, ..SessionSettings::default() };
        let mut session = Session::new(&settings);
        let mut control = Vec::new();
        session.open(&mut control);
        queue_control(link, buffers, &control);
        Self { session, queued_bytes: 0, open_head_bytes: 0, counted_bytes: 0 }
    }

    /// Counts the memory of the session that its client causes against the memory budget for
    /// buffers.
    pub(crate) fn count(&mut self, buffers: &mut Buffers) {
        if buffers.pool.missing_bytes() > 0 {
            self.session.shrink_windows();
        }
        let bytes = self.session.memory_bytes();
        if bytes != self.counted_bytes {
            buffers.pool.count(bytes);
            buffers.pool.release(std::mem::replace(&mut self.counted_bytes, bytes));
        }
    }

    /// Announces with GOAWAY that no further requests are accepted; called again, that those on
    /// their way are not accepted either.
    pub(crate) fn go_away(&mut self, link: &mut TransportLink, buffers: &mut Buffers) {
        self.with_control(link, buffers, Session::go_away);
    }

    /// Queues the last frames for a client for which the server does not wait any longer.
    pub(crate) fn finish_all(&mut self, link: &mut TransportLink, buffers: &mut Buffers) {
        self.with_control(link, buffers, Session::finish);
    }

    /// Resets a stream whose response cannot be completed; returns the state that was kept with it.
    pub(crate) fn reset(
        &mut self,
        id: u32,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) -> Option<MultiplexedStream> {
        let is_tunnel = self.session.own(id).is_some_and(|stream| stream.state.is_tunnel);
        let code = if is_tunnel { ErrorCode::Cancel } else { ErrorCode::InternalError };
        self.with_control(link, buffers, |session, control| {
            session.reset(id, code, control).map(std::mem::take)
        })
    }

    /// Returns flow-control credit for content that the application has consumed: the client may
    /// send more.
    pub(crate) fn consumed(
        &mut self,
        id: u32,
        bytes: usize,
        link: &mut TransportLink,
        buffers: &mut Buffers,
    ) {
        self.with_control(link, buffers, |session, control| session.consumed(id, bytes, control));
    }

    /// Makes the session write frames of the connection itself, and queues them.
    pub(crate) fn with_control<R>(
        &mut self,
        link: &mut TransportLink,
        buffers: &mut Buffers,
        act: impl FnOnce(&mut Session<MultiplexedStream>, &mut Vec<u8>) -> R,
    ) -> R {
        let mut control = std::mem::take(&mut buffers.control);
        let result = act(&mut self.session, &mut control);
        queue_control(link, buffers, &control);
        control.clear();
        buffers.control = control;
        result
    }
}

/// Queues frames of the connection itself. A connection for which there is no memory is cut.
fn queue_control(link: &mut TransportLink, buffers: &mut Buffers, frames: &[u8]) {
    let Buffers { outputs, pool, .. } = buffers;
    if !frames.is_empty() && !outputs.of(&mut link.output).append_bytes(pool, frames) {
        link.cut = Some(Gone::Overload);
    }
}
