//! Tunnels over a stream of HTTP/2 or HTTP/3 (RFC 8441, RFC 9220): the response to an extended
//! CONNECT whose content, and that of the request, are the two directions of a byte stream.
//!
//! A tunnel stays an exchange, since a stream has all that a byte stream needs: content comes
//! against [`Exchange::want`] and leaves by [`Exchange::write`], both within the windows of the
//! stream alone. [`Event::BodyEnd`](crate::app::Event::BodyEnd) is the end of the client's side,
//! [`Exchange::finish`] that of ours, [`Exchange::end`] that of both, and a reset of either side is
//! [`Event::Gone`](crate::app::Event::Gone) or [`Exchange::abort`].

use pinion_http::field::Field;

use super::{Carrier, Exchange, ExchangeStage};

impl Exchange<'_> {
    /// Responds to an extended CONNECT with 200 and these fields, and makes a tunnel of its stream.
    /// The timeouts for input and output of the client do not hold any more; the application has
    /// its own ([`Exchange::wait`]). This works only over HTTP/2 and HTTP/3, before there is a
    /// response; otherwise the exchange is aborted.
    pub fn open_tunnel<'f>(&mut self, fields: impl Iterator<Item = Field<'f>> + Clone) {
        let is_stream = matches!(self.carrier, Carrier::Stream(_));
        let state = self.state().filter(|state| is_stream && state.stage == ExchangeStage::Open);
        let Some(state) = state else { return self.abort() };
        state.is_tunnel = true;
        self.head(200, fields, None);
    }

    /// Ends our side of a tunnel once all written bytes have left: nothing is sent after that, and
    /// the client can still send.
    pub fn finish(&mut self) {
        let state = self.state().filter(|state| state.stage == ExchangeStage::Streaming);
        if let Some(state) = state {
            debug_assert!(state.is_tunnel, "a response ends as a whole");
            state.has_finished = true;
        }
    }
}
