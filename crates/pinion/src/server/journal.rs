//! One worker's side of the access log: what of a request and its answer is written down.

use super::pending::Pending;
use crate::access_log::{Logger, Peer, Record, Text};
use pinion_engine::address::Address;
use pinion_engine::app::OwnAnswer;
use pinion_engine::exchange::Exchange;
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::prepared::Prepared;
use pinion_http::request::RequestHead;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Writes one record for each answer, once it has left. The wall clock is read once a pass, the
/// steady one twice a request.
pub(crate) struct Journal {
    logger: Logger,
    pending: Pending,
    pass_began: Instant,
    pass_unix_micros: i64,
}

/// When a request began to be answered, and what stood in the queue before it.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    at: Instant,
    queued_bytes: u64,
}

impl Journal {
    /// With this worker's end of the log.
    pub(crate) fn new(logger: Logger) -> Self {
        let (pass_began, pass_unix_micros) = (Instant::now(), unix_micros());
        Self { logger, pending: Pending::default(), pass_began, pass_unix_micros }
    }

    /// A pass begins.
    pub(crate) fn pass(&mut self) {
        self.pass_began = Instant::now();
        self.pass_unix_micros = unix_micros();
    }

    /// A request begins.
    pub(crate) fn begin(&self, exchange: &mut Exchange<'_>) -> Beginning {
        Beginning { at: Instant::now(), queued_bytes: exchange.queued_bytes() }
    }

    /// Its answer stands in the queue.
    pub(crate) fn answered(
        &mut self,
        began: Beginning,
        head: &RequestHead<'_>,
        answer: &Prepared<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let body_bytes = match head.method {
            Method::Head => 0,
            _ => answer.content_length.unwrap_or_default(),
        };
        let field = |field| Text::from(head.value(field).unwrap_or_default());
        let record = Record {
            unix_micros: self.unix_micros(began.at),
            peer: exchange.peer().map_or(Peer::Unix, Peer::Ip),
            version: Some(head.version),
            status: answer.status,
            body_bytes,
            duration_micros: 0,
            cut: false,
            method: Text::from(head.method_token),
            target: Text::from(head.target.raw),
            referer: field(KnownField::Referer),
            user_agent: field(KnownField::UserAgent),
        };
        let bytes = exchange.queued_bytes().saturating_sub(began.queued_bytes);
        let slot = exchange.address().slot;
        self.pending.add(&mut self.logger, slot, (began.at, bytes), &record);
    }

    /// The engine has answered by itself: nobody could read a request.
    pub(crate) fn engine_answered(&mut self, connection: Address, answer: OwnAnswer) {
        let at = Instant::now();
        let nothing = Text::from(&b""[..]);
        let record = Record {
            unix_micros: self.unix_micros(at),
            peer: answer.peer.map_or(Peer::Unix, Peer::Ip),
            version: None,
            status: answer.status,
            body_bytes: answer.body_bytes,
            duration_micros: 0,
            cut: false,
            method: nothing,
            target: nothing,
            referer: nothing,
            user_agent: nothing,
        };
        self.pending.add(&mut self.logger, connection.slot, (at, answer.bytes), &record);
    }

    /// Of what was queued on a connection, all but the last `unsent_bytes` have left.
    pub(crate) fn left(&mut self, connection: Address, unsent_bytes: u64) {
        self.pending.finish(&mut self.logger, connection.slot, unsent_bytes);
    }

    fn unix_micros(&self, at: Instant) -> i64 {
        let since_pass = at.saturating_duration_since(self.pass_began).as_micros();
        self.pass_unix_micros.saturating_add(since_pass as i64)
    }
}

/// Microseconds since 1970; 0 for a clock that is set before.
fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(i64::MAX)
}
