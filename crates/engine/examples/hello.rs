//! The smallest application: one response for every request. `hello epoll|uring PORT`

use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::listener::{Listener, bind_tcp};
use pinion_engine::server::{Io, Kit, RunningServer};
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};

struct Hello;

impl App for Hello {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(_) = event {
            let body = b"hello world!\n";
            let response = Prepared {
                shared: SharedFields::h1(b"Content-Type: text/plain; charset=utf-8\r\n"),
                content_length: Some(body.len() as u64),
                body: PreparedBody::Bytes(body),
                ..Prepared::empty(200)
            };
            exchange.prepared(&response, None);
        }
    }

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        stream.abort();
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let io = if arguments.next().as_deref() == Some("uring") { Io::Uring } else { Io::Epoll };
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(8080);
    let socket = Arc::new(bind_tcp(([127, 0, 0, 1], port).into())?);
    let settings = ListenerSettings::plain(Protocol::Http(Protocols::ALL));
    let listeners = vec![Listener { socket, settings }];
    let settings = WorkerSettings { connections: 20_000, ..WorkerSettings::default() };
    let kit = Kit { listeners, quic: Vec::new(), settings, workers: 1, io };
    RunningServer::start(kit, |_, _: Poster| Hello)?.join();
    Ok(())
}
