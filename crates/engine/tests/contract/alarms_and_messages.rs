//! Events that belong to no exchange: timers of an application, and messages to it from an
//! exchange.

use std::io::Write;
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_engine::listener::{Listener, bind_tcp, local_address};
use pinion_engine::server::{Io, Kit, RunningServer};
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_http::prepared_response::{Prepared, PreparedBody};

use crate::test_server::{connect, read_response};

const WORKERS: u16 = 2;
/// Consecutive alarms: more than the passes that other deadlines of a worker cause.
const ALARMS: u32 = 40;
/// Milliseconds between two of them.
const ALARM_EACH_MS: u64 = 5;

/// The number of the worker that has received the message of an exchange.
struct Heard(u16);

struct Alarm {
    at_ms: u64,
    /// The number of further alarms before the exchange is woken.
    more: u32,
    to: Address,
}

struct Clerk {
    worker: u16,
    poster: Poster,
    alarm: Option<Alarm>,
}

impl App for Clerk {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match event {
            Event::Head(head) => {
                exchange.wait(None);
                let from = exchange.address();
                if head.target.path == b"/alarm" {
                    let at_ms = exchange.now().monotonic_ms + ALARM_EACH_MS;
                    self.alarm = Some(Alarm { at_ms, more: ALARMS, to: from });
                } else {
                    let other = (self.worker + 1) % self.poster.workers();
                    assert!(self.poster.post_to_app(other, Box::new(from)).is_ok(), "a full inbox");
                }
            }
            Event::Posted(message) => {
                let by = message.downcast_ref::<Heard>().expect("an answer").0;
                let text = format!("asked {}, heard by {by}", self.worker);
                let body = PreparedBody::Bytes(text.as_bytes());
                let content_length = Some(text.len() as u64);
                exchange.prepared(&Prepared { body, content_length, ..Prepared::empty(200) }, None);
            }
            _ => {}
        }
    }

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, _: &mut ByteStreamHandle<'_>) {}

    fn posted(&mut self, message: Message, _: &mut Connections<'_>) {
        let from = *message.downcast_ref::<Address>().expect("an address");
        assert!(self.poster.post(from, Box::new(Heard(self.worker))).is_ok(), "a full inbox");
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.alarm.as_ref().map(|alarm| alarm.at_ms)
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        let is_due = |alarm: &mut Alarm| alarm.at_ms <= now.monotonic_ms;
        match self.alarm.take_if(is_due) {
            None => {}
            Some(Alarm { more: 0, to, .. }) => {
                assert!(self.poster.post(to, Box::new(Heard(self.worker))).is_ok(), "a full inbox");
            }
            Some(alarm) => {
                let at_ms = now.monotonic_ms + ALARM_EACH_MS;
                self.alarm = Some(Alarm { at_ms, more: alarm.more - 1, ..alarm });
            }
        }
    }
}

/// Returns the content of the response to a request.
fn response(io: Io, path: &str) -> String {
    let socket = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
    let at = local_address(&socket).expect("an address");
    let settings = ListenerSettings::plain(Protocol::Http(Protocols::ALL));
    let kit = Kit {
        listeners: vec![Listener { socket, settings }],
        quic: Vec::new(),
        settings: WorkerSettings::default(),
        workers: usize::from(WORKERS),
        io,
    };
    let make_app = |worker, poster| Clerk { worker, poster, alarm: None };
    let server = RunningServer::start(kit, make_app).expect("a server");
    let mut stream = connect(at);
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("send");
    let content = read_response(&mut stream).1;
    server.control().stop();
    server.join();
    String::from_utf8(content).expect("text")
}

#[test]
fn applications_of_two_workers_exchange_messages() {
    for io in [Io::Epoll, Io::Uring] {
        let heard = response(io, "/other");
        assert!(["asked 0, heard by 1", "asked 1, heard by 0"].contains(&&*heard), "{heard}");
    }
}

#[test]
fn alarms_wake_their_worker_on_real_clocks() {
    for io in [Io::Epoll, Io::Uring] {
        let heard = response(io, "/alarm");
        assert!(["asked 0, heard by 0", "asked 1, heard by 1"].contains(&&*heard), "{heard}");
    }
}
