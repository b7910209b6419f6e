//! Outgoing connections over real sockets: to servers that respond, refuse or are silent, and the
//! effects of an event of one connection on another.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pinion_engine::app::{App, ByteStreamEvent, Event, Gone};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::listener::{Listener, bind_tcp, local_address};
use pinion_engine::outgoing_connect::{Connect, ConnectError, ConnectTls, RemoteAddress};
use pinion_engine::server::{Io, Kit, RunningServer};
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_http::prepared_response::{Prepared, PreparedBody};
use rustix::net::{self as sockets, AddressFamily, SocketType};

use crate::test_server::{connect, read_response};

/// Timeout for servers that respond, in milliseconds.
const TIMEOUT_MS: u64 = 60_000;
/// Timeout for a server that does not respond, in milliseconds.
const SHORT_TIMEOUT_MS: u64 = 50;
pub(crate) const REQUEST_BYTES: usize = 300_000;
/// Bytes of it that are written before the connection is open.
const EARLY_BYTES: usize = 1000;

/// The destination of a relay, and its timeout.
#[derive(Clone)]
pub(crate) struct Upstream {
    /// `None` for a socket pair, whose other end [echoes](echo).
    pub(crate) remote: Option<RemoteAddress>,
    pub(crate) tls: Option<ConnectTls>,
    pub(crate) timeout_ms: u64,
}

/// Opens a connection for each request, writes [`REQUEST_BYTES`], some before it is open, ends its
/// side, and responds with the number of bytes that have come back, or with the error.
struct Relay {
    upstream: Upstream,
    waiting: HashMap<Address, (Address, usize)>,
}

fn respond(exchange: &mut Exchange<'_>, text: &str) {
    let body = PreparedBody::Bytes(text.as_bytes());
    let content_length = Some(text.len() as u64);
    exchange.prepared(&Prepared { body, content_length, ..Prepared::empty(200) }, None);
}

impl Relay {
    /// Responds to the exchange that waits for a stream.
    fn finish(&mut self, stream: &mut ByteStreamHandle<'_>, text: impl FnOnce(usize) -> String) {
        let (exchange, bytes) = self.waiting.remove(&stream.address()).expect("it waits");
        let text = text(bytes);
        let mut connections = stream.connections();
        respond(&mut connections.exchange(exchange).expect("its client waits"), &text);
    }
}

impl App for Relay {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let Event::Head(_) = event else { return };
        let Upstream { remote, tls, timeout_ms } = self.upstream.clone();
        let from = exchange.address();
        let mut connections = exchange.connections();
        let opened = match remote {
            Some(remote) => connections.connect(Connect { remote, tls, timeout_ms, tag: 7 }),
            None => {
                let (own, other) = UnixStream::pair().expect("a socket pair");
                thread::spawn(move || echo(other));
                connections.adopt(own.into(), 7)
            }
        };
        match opened {
            Ok(address) => {
                let mut connections = exchange.connections();
                let mut stream = connections.stream(address).expect("it is being opened");
                assert_eq!(stream.write(Slice::Copied(&[b'x'; EARLY_BYTES])), ContentRoom::Free);
                self.waiting.insert(address, (from, 0));
                exchange.wait(None);
            }
            Err(ConnectError::TooMany) => respond(exchange, "too many"),
            Err(ConnectError::NoMemory) => respond(exchange, "no memory"),
        }
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        assert_eq!(stream.tag(), Some(7));
        match event {
            ByteStreamEvent::Open => {
                stream.want(u64::MAX);
                stream.write(Slice::Copied(&vec![b'x'; REQUEST_BYTES - EARLY_BYTES]));
                stream.finish();
            }
            ByteStreamEvent::Bytes(bytes) => {
                self.waiting.get_mut(&stream.address()).expect("it waits").1 += bytes.len();
            }
            ByteStreamEvent::End => {
                self.finish(stream, |bytes| format!("{bytes} bytes"));
                stream.close();
            }
            ByteStreamEvent::Gone(Gone::NotConnected(why)) => {
                let error = stream.tls_error().map(|error| format!(": {error}"));
                self.finish(stream, |_| format!("{why}{}", error.unwrap_or_default()));
            }
            ByteStreamEvent::Gone(why) => self.finish(stream, |_| format!("gone: {why:?}")),
            _ => {}
        }
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// Returns the response of a relay that may open this many connections.
fn relayed(io: Io, upstream: &Upstream, outgoing: usize) -> String {
    let socket = Arc::new(bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind"));
    let at = local_address(&socket).expect("an address");
    let settings = ListenerSettings::plain(Protocol::Http(Protocols::ALL));
    let kit = Kit {
        listeners: vec![Listener { socket, settings }],
        quic: Vec::new(),
        settings: WorkerSettings { outgoing, ..WorkerSettings::default() },
        workers: 1,
        io,
    };
    let upstream = upstream.clone();
    let make_app = move |_, _| Relay { upstream: upstream.clone(), waiting: HashMap::new() };
    let server = RunningServer::start(kit, make_app).expect("a server");
    let mut stream = connect(at);
    let mut content = Vec::new();
    // The second request must not be affected by the first one.
    for _ in 0..2 {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("send");
        content = read_response(&mut stream).1;
    }
    server.control().stop();
    server.join();
    String::from_utf8(content).expect("text")
}

pub(crate) fn on_both(upstream: &Upstream, expected: &str) {
    for io in [Io::Epoll, Io::Uring] {
        assert_eq!(relayed(io, upstream, 1), expected, "over {io:?}");
    }
}

pub(crate) fn tcp(address: SocketAddr) -> Upstream {
    Upstream { remote: Some(RemoteAddress::Tcp(address)), tls: None, timeout_ms: TIMEOUT_MS }
}

fn unix(path: PathBuf) -> Upstream {
    Upstream { remote: Some(RemoteAddress::Unix(path)), tls: None, timeout_ms: TIMEOUT_MS }
}

/// Reads a stream to its end and then sends all of it back.
pub(crate) fn echo(mut stream: impl Read + Write) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("all of it, and the end");
    stream.write_all(&all).expect("taken");
}

pub(crate) fn local() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

/// The end of the server's sending side arrives after all written bytes, and later input is still
/// read.
#[test]
fn an_upstream_gets_the_end_of_input_and_responds_after_it() {
    let listener = local();
    let upstream = tcp(listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            echo(stream);
        }
    });
    on_both(&upstream, &format!("{REQUEST_BYTES} bytes"));
}

#[test]
fn a_unix_socket_is_a_server_like_any_other() {
    let folder = std::env::temp_dir().join(format!("pinion-outgoing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            echo(stream);
        }
    });
    on_both(&unix(path), &format!("{REQUEST_BYTES} bytes"));
    on_both(&unix(folder.join("missing")), "no such socket");
    on_both(&unix(folder.join("x".repeat(200))), "the connection failed");
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A socket that is connected already is a stream like one that the server opens.
#[test]
fn a_socket_pair_is_a_stream_like_any_other() {
    let pair = Upstream { remote: None, tls: None, timeout_ms: TIMEOUT_MS };
    on_both(&pair, &format!("{REQUEST_BYTES} bytes"));
    for io in [Io::Epoll, Io::Uring] {
        assert_eq!(relayed(io, &pair, 0), "too many");
    }
}

#[test]
fn a_port_without_a_listener_refuses() {
    let listener = local();
    let upstream = tcp(listener.local_addr().expect("bound"));
    drop(listener);
    on_both(&upstream, "connection refused");
}

/// A listener whose queue is full drops further connections (listen(2)).
#[test]
fn a_connect_to_a_silent_server_times_out() {
    let socket = sockets::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockets::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    sockets::listen(&socket, 0).expect("a listener");
    let at = local_address(&socket).expect("bound");
    let patience = Duration::from_millis(300);
    let fill = || TcpStream::connect_timeout(&at, patience).ok();
    let fillers: Vec<_> = std::iter::from_fn(fill).collect();
    assert!(!fillers.is_empty(), "the queue has a place");
    on_both(&Upstream { timeout_ms: SHORT_TIMEOUT_MS, ..tcp(at) }, "no response in time");
}

#[test]
fn outgoing_connections_are_limited() {
    let listener = local();
    let upstream = tcp(listener.local_addr().expect("bound"));
    for io in [Io::Epoll, Io::Uring] {
        assert_eq!(relayed(io, &upstream, 0), "too many");
    }
}

#[test]
fn a_reset_of_the_upstream_is_reported() {
    let listener = local();
    let upstream = tcp(listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.read_exact(&mut [0; 10]).expect("the first bytes");
            // Closing a socket with unread input resets the connection (RFC 2525 §2.17).
            drop(stream);
        }
    });
    on_both(&upstream, "gone: Peer");
}
