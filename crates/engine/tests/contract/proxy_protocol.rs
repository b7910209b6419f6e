//! The header of the PROXY protocol over real sockets: the address that the application gets, and
//! connections that break the rules of a listener.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use pinion_engine::app::{App, ByteStreamEvent, Event};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::listener::{Listener, bind_tcp, bind_unix, local_address};
use pinion_engine::server::{Io, Kit, RunningServer};
use pinion_engine::settings::{
    ListenerSettings, Protocol, Protocols, ProxySources, WorkerSettings,
};
use pinion_http::prepared_response::{Prepared, PreparedBody};

use crate::test_server::{connect, read_response};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const LINE: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 5000 80\r\n";
/// The same client in version 2.
const BINARY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x13\x88\0\x50";
/// The header of a proxy's own connection.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Responds with the address of the client, and whether the socket is a Unix socket.
struct Addresses;

impl App for Addresses {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let Event::Head(_) = event else { return };
        let peer = exchange.peer().map_or_else(|| "none".to_owned(), |peer| peer.to_string());
        let socket = exchange.socket_peer().map_or("unix", |_| "tcp");
        let text = format!("{peer} by {socket}");
        let body = PreparedBody::Bytes(text.as_bytes());
        let content_length = Some(text.len() as u64);
        exchange.prepared(&Prepared { body, content_length, ..Prepared::empty(200) }, None);
    }

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        stream.close();
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// A server with a listener of TCP and one of a Unix socket.
struct Served {
    server: Option<RunningServer>,
    at: SocketAddr,
    folder: std::path::PathBuf,
}

impl Served {
    fn start(io: Io, sources: ProxySources, connections_per_client: Option<u32>) -> Self {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("pinion-proxy-{id}-{io:?}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let tcp = bind_tcp(([127, 0, 0, 1], 0).into()).expect("bind");
        let at = local_address(&tcp).expect("an address");
        let unix = bind_unix(&folder.join("socket")).expect("bind");
        let settings = ListenerSettings {
            proxy_protocol: Some(sources),
            ..ListenerSettings::plain(Protocol::Http(Protocols::ALL))
        };
        let listener = |socket| Listener { socket: Arc::new(socket), settings: settings.clone() };
        let kit = Kit {
            listeners: vec![listener(tcp), listener(unix)],
            quic: Vec::new(),
            settings: WorkerSettings { connections_per_client, ..WorkerSettings::default() },
            workers: 1,
            io,
        };
        let server = RunningServer::start(kit, |_, _| Addresses).expect("a server");
        Self { server: Some(server), at, folder }
    }

    fn unix(&self) -> UnixStream {
        UnixStream::connect(self.folder.join("socket")).expect("connect")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else { return };
        server.control().stop();
        server.join();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn on_both(sources: fn(Option<SocketAddr>) -> bool, test: impl Fn(&Served)) {
    for io in [Io::Epoll, Io::Uring] {
        eprintln!("over {io:?}");
        test(&Served::start(io, ProxySources::new(sources), None));
    }
}

/// Returns all received bytes until the connection ends in any way.
fn response(mut stream: impl Read + Write, parts: &[&[u8]]) -> String {
    for part in parts {
        // The server may already have closed it.
        let _ = stream.write_all(part);
    }
    let mut came = Vec::new();
    let _ended = stream.read_to_end(&mut came);
    String::from_utf8(came).expect("text")
}

#[test]
fn the_client_is_the_one_in_the_header_wherever_it_is_cut() {
    on_both(
        |_| true,
        |served| {
            for header in [LINE, BINARY] {
                let all = [header, LAST_REQUEST].concat();
                for cut in 0..all.len() {
                    let stream = connect(served.at);
                    stream.set_nodelay(true).expect("set");
                    let came = response(stream, &[&all[..cut], &all[cut..]]);
                    assert!(came.ends_with("\r\n\r\n192.0.2.1:5000 by tcp"), "{cut}: {came}");
                }
                let came = response(served.unix(), &[&all]);
                assert!(came.ends_with("\r\n\r\n192.0.2.1:5000 by unix"), "{came}");
            }
        },
    );
}

#[test]
fn a_proxy_that_speaks_for_itself_has_its_own_address() {
    on_both(
        |_| true,
        |served| {
            for header in [LOCAL, b"PROXY UNKNOWN\r\n"] {
                let stream = connect(served.at);
                let own = stream.local_addr().expect("bound");
                let came = response(stream, &[header, LAST_REQUEST]);
                assert!(came.ends_with(&format!("\r\n\r\n{own} by tcp")), "{came}");
                let came = response(served.unix(), &[header, LAST_REQUEST]);
                assert!(came.ends_with("\r\n\r\nnone by unix"), "{came}");
            }
        },
    );
}

/// HTTP/2 with prior knowledge: the preface of the connection follows the header.
#[test]
fn http2_follows_the_header() {
    on_both(
        |_| true,
        |served| {
            let mut stream = connect(served.at);
            stream.write_all(BINARY).expect("send");
            stream
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                .expect("send");
            let mut frame = [0; 9];
            stream.read_exact(&mut frame).expect("the settings of the server");
            assert_eq!(frame[3], 4, "{frame:?}");
        },
    );
}

#[test]
fn a_trusted_proxy_without_a_header_is_cut_off_without_a_response() {
    on_both(
        |_| true,
        |served| {
            let damaged = [&BINARY[..12], b"\x29\x11\0\0"].concat();
            for bytes in [LAST_REQUEST, b"PROXY TCP4 x\r\n", &damaged, b"\x16\x03\x01"] {
                assert_eq!(response(connect(served.at), &[bytes]), "");
                assert_eq!(response(served.unix(), &[bytes]), "");
            }
            // A connection that ends within its header.
            let mut stream = connect(served.at);
            stream.write_all(&LINE[..20]).expect("send");
            stream.shutdown(Shutdown::Write).expect("ended");
            assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
        },
    );
}

/// The header of an untrusted peer is never used: it is no valid request.
#[test]
fn others_are_served_with_their_own_address_and_refused_with_a_header() {
    on_both(
        |from| from.is_none(),
        |served| {
            let stream = connect(served.at);
            let own = stream.local_addr().expect("bound");
            let came = response(stream, &[LAST_REQUEST]);
            assert!(came.ends_with(&format!("\r\n\r\n{own} by tcp")), "{came}");
            for header in [LINE, BINARY, LOCAL] {
                let came = response(connect(served.at), &[header, LAST_REQUEST]);
                assert!(came.starts_with("HTTP/1.1 400 "), "{came}");
                assert!(!came.contains(" 200 ") && !came.contains("by tcp"), "{came}");
            }
            let came = response(served.unix(), &[LINE, LAST_REQUEST]);
            assert!(came.ends_with("\r\n\r\n192.0.2.1:5000 by unix"), "{came}");
        },
    );
}

/// A connection above the limit is closed, and its slot is free when another one of its client has
/// ended.
#[test]
fn connections_are_counted_for_the_client_in_the_header() {
    for io in [Io::Epoll, Io::Uring] {
        let served = Served::start(io, ProxySources::new(|_| true), Some(1));
        let open = |header: &[u8]| {
            let mut stream = connect(served.at);
            stream.write_all(&[header, REQUEST].concat()).expect("send");
            stream
        };
        let other = b"PROXY TCP4 192.0.2.9 192.0.2.2 5000 80\r\n";
        let mut streams: Vec<TcpStream> = [LINE, other].map(open).into();
        for stream in &mut streams {
            assert!(read_response(stream).0.starts_with("HTTP/1.1 200 "));
        }
        // Connections without a header count for no client.
        let silent: Vec<TcpStream> = (0..4).map(|_| connect(served.at)).collect();
        assert_eq!(response(open(BINARY), &[]), "", "over {io:?}");
        drop(streams);
        let came = loop {
            let came = response(connect(served.at), &[BINARY, LAST_REQUEST]);
            if !came.is_empty() {
                break came;
            }
        };
        assert!(came.starts_with("HTTP/1.1 200 "), "{came}");
        drop(silent);
    }
}
