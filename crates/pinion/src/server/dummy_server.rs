//! The dummy server for measurements: it shows the cost of the server without a site.

use super::app::fits;
use super::request_log::RequestLog;
use crate::settings::Dummy;
use pinion_engine::app::{App, ByteStreamEvent, Event, OwnResponse};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::clock::Now;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::prepared_response::{Prepared, PreparedBody};
use std::net::SocketAddr;

/// Every request gets the same bytes.
pub(crate) struct DummyApp {
    body: Vec<u8>,
    /// The time that each response takes, in milliseconds.
    delay_ms: Option<u64>,
    request_log: RequestLog,
}

/// The text of the usual benchmarks, as kawipiko has it, over and over.
const TEXT: &[u8] = b"hello, world\n";

impl DummyApp {
    /// Makes the dummy, with or without an access log.
    pub(crate) fn new(dummy: &Dummy, request_log: RequestLog) -> Self {
        let body = TEXT.iter().copied().cycle().take(dummy.bytes).collect();
        let delay_ms = dummy.delay.map(|delay| delay.as_millis() as u64);
        Self { body, delay_ms, request_log }
    }
}

fn response(body: &[u8]) -> Prepared<'_> {
    Prepared {
        content_length: Some(body.len() as u64),
        body: PreparedBody::Bytes(body),
        ..Prepared::empty(200)
    }
}

impl App for DummyApp {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match (event, self.delay_ms) {
            (Event::Head(head), None) if fits(head, exchange) => {
                let (peer, is_secured) = (exchange.peer(), exchange.is_secured());
                let client = ClientIdentity { peer, is_secured };
                let began = self.request_log.begin(&client, exchange);
                let response = response(&self.body);
                self.request_log.respond(&response, None, began, head, exchange);
            }
            (Event::Head(head), Some(delay_ms)) if fits(head, exchange) => {
                exchange.wait(Some(delay_ms));
            }
            (Event::Deadline, _) => {
                let bytes = if exchange.is_head_only() { 0 } else { self.body.len() as u64 };
                exchange.prepared(&response(&self.body), None);
                self.request_log.count_response(200, bytes);
            }
            _ => {}
        }
    }

    fn byte_stream_event(
        &mut self,
        _event: ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        stream.close();
    }

    fn pass(&mut self, _: &mut Connections<'_>) {
        self.request_log.pass();
    }

    fn answered(&mut self, connection: Address, response: OwnResponse) {
        self.request_log.record_engine_response(connection, response);
    }

    fn flooded(&mut self, _connection: Address) {
        self.request_log.count_flood();
    }

    fn connection_refused(&mut self, peer: SocketAddr, now: Now) {
        self.request_log.log_refused_connection(peer, now);
    }

    #[inline]
    fn sent(&mut self, connection: Address) {
        self.request_log.record_sent(connection, 0);
    }

    fn dropped(&mut self, exchange: Address, bytes: u64) {
        self.request_log.record_dropped(exchange, bytes);
    }

    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        self.request_log.record_sent(connection, unsent_bytes);
    }
}
