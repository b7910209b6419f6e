//! One worker's side of the access log: what of a request and its answer is written down.

use crate::access_log::{Logger, Peer, Record, Text};
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::prepared::Prepared;
use pinion_http::request::RequestHead;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Writes one record for each answer. The wall clock is read once a pass, the steady one twice a
/// request.
pub(crate) struct Journal {
    logger: Logger,
    pass_began: Instant,
    pass_unix_micros: i64,
}

impl Journal {
    /// With this worker's end of the log.
    pub(crate) fn new(logger: Logger) -> Self {
        Self { logger, pass_began: Instant::now(), pass_unix_micros: unix_micros() }
    }

    /// A pass begins.
    pub(crate) fn pass(&mut self) {
        self.pass_began = Instant::now();
        self.pass_unix_micros = unix_micros();
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> Instant {
        Instant::now()
    }

    /// Its answer stands in the queue.
    pub(crate) fn write(
        &mut self,
        began: Instant,
        head: &RequestHead<'_>,
        answer: &Prepared<'_>,
        peer: Option<SocketAddr>,
    ) {
        let since_pass = began.saturating_duration_since(self.pass_began).as_micros();
        let body_bytes = match head.method {
            Method::Head => 0,
            _ => answer.content_length.unwrap_or_default(),
        };
        let field = |field| Text::from(head.value(field).unwrap_or_default());
        self.logger.log(&Record {
            unix_micros: self.pass_unix_micros.saturating_add(since_pass as i64),
            peer: peer.map_or(Peer::Unix, Peer::Ip),
            version: Some(head.version),
            status: answer.status,
            body_bytes,
            duration_micros: began.elapsed().as_micros().try_into().unwrap_or(u32::MAX),
            method: Text::from(head.method_token),
            target: Text::from(head.target.raw),
            referer: field(KnownField::Referer),
            user_agent: field(KnownField::UserAgent),
        });
    }
}

/// Microseconds since 1970; 0 for a clock that is set before.
fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(i64::MAX)
}
