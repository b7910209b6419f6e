//! Byte streams over real sockets: their timeouts, connections that become streams, and messages to
//! many of them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Gone, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::listener::{Listener, bind_tcp, local_address};
use pinion_engine::server::{Io, Kit, RunningServer};
use pinion_engine::settings::{
    ListenerSettings, Protocol, Protocols, StreamTimeouts, WorkerSettings,
};

use crate::test_server::connect;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection Established\r\n\r\n";
/// Streams that receive broadcasts, over two workers.
const AUDIENCE: usize = 300;
const MESSAGE_BYTES: usize = 10_000;

/// Opens a tunnel for each CONNECT and sends back its input, some of it after the end of the
/// client; sends each posted message to all of its streams.
struct Tunnels {
    streams: Vec<Address>,
    opened: Sender<()>,
    gone: Sender<Gone>,
}

impl App for Tunnels {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(_) = event {
            exchange.take_over();
        }
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        match event {
            ByteStreamEvent::Open => {
                self.streams.push(stream.address());
                stream.want(u64::MAX);
                let _ = self.opened.send(());
            }
            ByteStreamEvent::Bytes(bytes) => {
                stream.write(Slice::Copied(bytes));
            }
            ByteStreamEvent::End => {
                stream.write(Slice::Copied(b" behind the end"));
                stream.finish();
            }
            ByteStreamEvent::Gone(why) => {
                let _ = self.gone.send(why);
            }
            _ => {}
        }
    }

    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        let bytes = *message.downcast::<Bytes>().expect("what the test posts");
        connections.broadcast(self.streams.iter().copied(), &bytes);
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

struct Served {
    server: Option<RunningServer>,
    at: SocketAddr,
    poster: Poster,
    opened: Receiver<()>,
    gone: Receiver<Gone>,
}

impl Served {
    fn start(io: Io, protocol: Protocol, streams: StreamTimeouts, workers: usize) -> Self {
        let socket = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
        let at = local_address(&socket).expect("an address");
        let settings = ListenerSettings { streams, ..ListenerSettings::plain(protocol) };
        let kit = Kit {
            listeners: vec![Listener { socket, settings }],
            quic: Vec::new(),
            settings: WorkerSettings::default(),
            workers,
            io,
        };
        let ((opened, openings), (gone, goings)) = (channel(), channel());
        let make_app =
            move |_, _| Tunnels { streams: Vec::new(), opened: opened.clone(), gone: gone.clone() };
        let server = RunningServer::start(kit, make_app).expect("a server");
        let poster = server.poster();
        Self { server: Some(server), at, poster, opened: openings, gone: goings }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else { return };
        server.control().stop();
        server.join();
    }
}

const HTTP: Protocol = Protocol::Http(Protocols::ALL);

#[test]
fn a_stream_timeout_is_reported_to_the_application() {
    let (first, idle) = (Some(50), Some(150));
    for io in [Io::Epoll, Io::Uring] {
        for (protocol, sent, first_byte_ms, why) in [
            (Protocol::ByteStream, &b""[..], first, Gone::Stalled),
            (Protocol::ByteStream, b"first", first, Gone::Idle),
            (Protocol::ByteStream, b"", None, Gone::Idle),
            (HTTP, b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", first, Gone::Idle),
        ] {
            let streams = StreamTimeouts { first_byte_ms, idle_ms: idle };
            let served = Served::start(io, protocol, streams, 1);
            let mut stream = connect(served.at);
            stream.write_all(sent).expect("send");
            let gone = served.gone.recv_timeout(Duration::from_secs(10));
            assert_eq!(gone, Ok(why), "{protocol:?} {first_byte_ms:?} over {io:?}");
            let mut came = Vec::new();
            let _reset = stream.read_to_end(&mut came);
        }
    }
}

/// RFC 9110 §9.3.6: the tunnel begins after the head, and each side can end alone.
#[test]
fn a_tunnel_gets_the_bytes_after_its_request() {
    for io in [Io::Epoll, Io::Uring] {
        for version in ["1.1", "1.0"] {
            let served = Served::start(io, HTTP, StreamTimeouts::default(), 1);
            let mut stream = connect(served.at);
            let head = format!("CONNECT a:1 HTTP/{version}\r\nHost: a:1\r\n\r\nearly bytes");
            stream.write_all(head.as_bytes()).expect("send");
            let mut came = vec![0; "early bytes".len()];
            stream.read_exact(&mut came).expect("what came with the request");
            assert_eq!(came, b"early bytes", "nothing stands before it");
            stream.write_all(b", more").expect("send");
            stream.shutdown(Shutdown::Write).expect("our end");
            came.clear();
            stream.read_to_end(&mut came).expect("all of it, and the end");
            assert_eq!(came, b", more behind the end", "HTTP/{version} over {io:?}");
        }
    }
}

/// The response to CONNECT may also be sent outside of the events of the stream.
#[test]
fn the_response_to_connect_is_the_first_of_the_stream() {
    for io in [Io::Epoll, Io::Uring] {
        let served = Served::start(io, HTTP, StreamTimeouts::default(), 1);
        let mut stream = connect(served.at);
        stream.write_all(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").expect("send");
        served.opened.recv_timeout(Duration::from_secs(10)).expect("it is taken over");
        let established = Bytes::from_static(ESTABLISHED);
        assert!(served.poster.post_to_apps(|_| Box::new(established.clone())).is_empty());
        let mut came = vec![0; ESTABLISHED.len()];
        stream.read_exact(&mut came).expect("the response");
        assert_eq!(came, ESTABLISHED);
        stream.write_all(b"ping").expect("send");
        stream.read_exact(&mut came[..4]).expect("what was sent");
        assert_eq!(&came[..4], b"ping", "over {io:?}");
    }
}

/// A request with content cannot become a stream: the application cannot know where its bytes end
/// and those of the stream begin.
#[test]
fn a_request_with_content_does_not_become_a_tunnel() {
    for io in [Io::Epoll, Io::Uring] {
        let served = Served::start(io, HTTP, StreamTimeouts::default(), 1);
        let mut stream = connect(served.at);
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            .expect("send");
        let mut came = Vec::new();
        let _reset = stream.read_to_end(&mut came);
        assert!(came.is_empty() && served.opened.try_recv().is_err(), "over {io:?}: {came:?}");
    }
}

#[test]
fn a_broadcast_reaches_the_streams_of_all_workers() {
    for io in [Io::Epoll, Io::Uring] {
        let served = Served::start(io, Protocol::ByteStream, StreamTimeouts::default(), 2);
        let mut streams: Vec<TcpStream> = (0..AUDIENCE).map(|_| connect(served.at)).collect();
        for _ in 0..AUDIENCE {
            served.opened.recv_timeout(Duration::from_secs(10)).expect("each is open");
        }
        for number in 0..5u8 {
            let message = Bytes::from(vec![number; MESSAGE_BYTES]);
            let refused = served.poster.post_to_apps(|_| Box::new(message.clone()));
            assert!(refused.is_empty(), "the inboxes have room");
            for stream in &mut streams {
                let mut came = vec![0; MESSAGE_BYTES];
                stream.read_exact(&mut came).expect("the message");
                assert_eq!(came, message, "over {io:?}");
            }
        }
    }
}

/// A client that does not read is disconnected, and the others get everything.
#[test]
fn a_slow_reader_of_broadcasts_is_closed_and_others_continue() {
    const MESSAGES: usize = 2000;
    for io in [Io::Epoll, Io::Uring] {
        let served = Served::start(io, Protocol::ByteStream, StreamTimeouts::default(), 1);
        let (slow, mut reader) = (connect(served.at), connect(served.at));
        for _ in 0..2 {
            served.opened.recv_timeout(Duration::from_secs(10)).expect("each is open");
        }
        let message = Bytes::from(vec![7; MESSAGE_BYTES]);
        for _ in 0..MESSAGES {
            assert!(served.poster.post_to_apps(|_| Box::new(message.clone())).is_empty());
            let mut came = vec![0; MESSAGE_BYTES];
            reader.read_exact(&mut came).expect("the message");
            assert_eq!(came, message);
        }
        let gone = served.gone.recv_timeout(Duration::from_secs(10));
        assert_eq!(gone, Ok(Gone::SlowReader), "over {io:?}");
        drop(slow);
    }
}
