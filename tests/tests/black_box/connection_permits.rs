//! Permits for connections run short: a client that holds connections without using them loses
//! them to others.

use pinion_tests::client::byte_stream::Peer;
use pinion_tests::client::http3::Http3;
use pinion_tests::client::quic::{self, Quic};
use pinion_tests::client::{Client, Connection};
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use quinn::{ApplicationClose, ConnectionError};
use std::any::Any;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// The limit of connections of the server.
const PERMITS: usize = 48;
/// Requests of other clients, each on a new connection.
const NEWCOMERS: usize = 20;
/// The address of the client that holds connections.
const HOLDER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A server with every kind of listener.
struct Served {
    server: Server,
    certificate: PathBuf,
    _files: Folder,
}

impl Served {
    fn start(io: Io, flags: &[&str]) -> Served {
        Served::start_workers(io, 2, flags)
    }

    fn start_workers(io: Io, workers: u32, flags: &[&str]) -> Served {
        let workers = workers.to_string();
        let files = Folder::new("permits");
        files.write("site/index.html", "home");
        files.write("site/large.bin", vec![b'x'; 8 << 20]);
        let start = Start::site(&files.join("site")).flags(&["--io", io.as_str()]).flags(flags);
        let start = start.flags(&["--workers", &workers, "--tls", "127.0.0.1:0", "--state"]);
        let start = start.flags(&[&files.join("state")]).flags(&["--quic", "127.0.0.1:0"]);
        let certificate = files.join("state/tls/self-signed-p256.crt");
        Served { server: start.start(), certificate, _files: files }
    }

    fn peer(&self, protocol: Protocol) -> Peer {
        let address = self.server.address_over(protocol);
        Peer::new(address, protocol, Some(&self.certificate))
    }

    fn is_answered(&self, protocol: Protocol) {
        // A new QUIC connection without a permit is refused, and one over TCP waits.
        let response = wait_for("a response for a newcomer", || {
            let mut client = Client::try_open(&self.peer(protocol)).ok()?;
            client.try_exchange(&Request::get("/")).ok()
        });
        assert_eq!(response.text(), "home");
    }
}

/// A way to hold a connection.
struct Holding {
    name: &'static str,
    /// Opens a connection; returns `None` if the server does not accept it.
    open: fn(&Served) -> Option<Held>,
}

/// A value that keeps a connection open until it is dropped.
type Held = Box<dyn Any>;

/// Opens a connection of HTTP/1 and sends these bytes.
fn with_bytes(served: &Served, bytes: &[u8]) -> Option<Held> {
    let peer = served.peer(Protocol::Http1).reached_from(HOLDER);
    let mut connection = Connection::try_to(&peer).ok()?;
    connection.send_if_open(bytes);
    Some(Box::new(connection))
}

/// Opens a connection and sends a request over it.
fn idle(served: &Served, protocol: Protocol) -> Option<Held> {
    let mut client = Client::try_open(&served.peer(protocol).reached_from(HOLDER)).ok()?;
    let response = client.try_exchange(&Request::get("/")).ok()?;
    assert_eq!(response.text(), "home");
    Some(Box::new(client))
}

const HOLDINGS: [Holding; 10] = [
    Holding { name: "idle over HTTP/1", open: |served| idle(served, Protocol::Http1) },
    Holding { name: "idle over HTTP/1 and TLS", open: |served| idle(served, Protocol::Http1Tls) },
    Holding { name: "idle over HTTP/2", open: |served| idle(served, Protocol::Http2) },
    Holding { name: "idle over HTTP/2 clear", open: |served| idle(served, Protocol::Http2Clear) },
    Holding { name: "idle over HTTP/3", open: |served| idle(served, Protocol::Http3) },
    Holding { name: "silent", open: |served| with_bytes(served, b"") },
    Holding { name: "half a head", open: |served| with_bytes(served, b"GET / HTTP/1.1\r\nHost") },
    Holding {
        name: "slow reader",
        open: |served| with_bytes(served, b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n"),
    },
    Holding {
        name: "no handshake",
        open: |served| {
            let address = served.server.address_of("https");
            let peer = Peer::plain(address).reached_from(HOLDER);
            Some(Box::new(Connection::try_to(&peer).ok()?))
        },
    },
    Holding {
        name: "a handshake of QUIC alone",
        open: |served| {
            let peer = served.peer(Protocol::Http3).reached_from(HOLDER);
            Some(Box::new(Quic::open(&peer).ok()?))
        },
    },
];

/// Whatever a client does with more connections than the server's limit, each request of others
/// gets its response, and an idle connection of another client stays open.
#[test]
fn a_client_that_holds_all_permits_loses_connections_to_others() {
    let permits = PERMITS.to_string();
    for io in Io::BOTH {
        for Holding { name, open } in HOLDINGS {
            let served = Served::start(io, &["--max-connections", &permits]);
            let mut kept = served.server.client();
            assert_eq!(kept.exchange(&Request::get("/")).text(), "home");
            let held: Vec<Option<Held>> = (0..PERMITS + 8).map(|_| open(&served)).collect();
            let opened = held.iter().flatten().count();
            eprintln!("{name} over {io:?}: {opened} of {} were opened", held.len());
            assert!(opened >= PERMITS / 2, "{name} over {io:?}");
            for number in 0..NEWCOMERS {
                let protocols = [Protocol::Http1, Protocol::Http2, Protocol::Http3];
                served.is_answered(protocols[number % protocols.len()]);
            }
            let again = kept.exchange(&Request::get("/"));
            assert_eq!(again.text(), "home", "{name} over {io:?}: the idle client of another");
            drop(held);
            served.server.stop();
        }
    }
}

/// None of several clients holds the most connections, whatever they hold together.
#[test]
fn clients_that_hold_all_permits_together_lose_connections_to_others() {
    const HOLDERS: [Ipv4Addr; 3] =
        [HOLDER, Ipv4Addr::new(127, 0, 0, 3), Ipv4Addr::new(127, 0, 0, 4)];
    let permits = PERMITS.to_string();
    for io in Io::BOTH {
        let served = Served::start(io, &["--max-connections", &permits]);
        let holders = HOLDERS.iter().cycle().take(PERMITS + 8);
        let held: Vec<_> = holders
            .filter_map(|holder| {
                let peer = served.peer(Protocol::Http1).reached_from(*holder);
                let mut connection = Connection::try_to(&peer).ok()?;
                connection.send_if_open(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
                Some(connection)
            })
            .collect();
        assert!(held.len() >= PERMITS, "over {io:?}");
        for _ in 0..NEWCOMERS {
            served.is_answered(Protocol::Http1);
        }
        drop(held);
        served.server.stop();
    }
}

/// A connection after its last response is useless for its client: no idle connection is closed
/// before it, however many idle ones another client has.
#[test]
fn connections_after_their_last_response_are_closed_first() {
    const IDLE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
    const LINGERING: usize = 8;
    // With these connections, and as many new ones as there are lingering, permits run short.
    const IDLERS: usize = 30;
    // The server drops at most a mebibyte before another request.
    const UPLOAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000000\r\n\r\n";
    let permits = PERMITS.to_string();
    for io in Io::BOTH {
        let served = Served::start_workers(io, 1, &["--max-connections", &permits]);
        let peer = served.peer(Protocol::Http1);
        let mut idlers: Vec<Client> =
            (0..IDLERS).map(|_| Client::open(&peer.reached_from(IDLE))).collect();
        let are_answered = |clients: &mut [Client]| {
            for client in clients {
                assert_eq!(client.exchange(&Request::get("/")).text(), "home", "over {io:?}");
            }
        };
        are_answered(&mut idlers);
        let lingering: Vec<Connection> = (0..LINGERING)
            .map(|_| {
                let connection = Connection::try_to(&peer.reached_from(HOLDER));
                let mut connection = connection.expect("a connection");
                connection.send(UPLOAD);
                assert_eq!(connection.receive().status, 413);
                connection
            })
            .collect();
        // A client that reads has seen its response by then.
        std::thread::sleep(Duration::from_secs(2));
        let mut newcomers: Vec<Client> =
            (0..PERMITS - IDLERS - LINGERING / 2).map(|_| Client::open(&peer)).collect();
        are_answered(&mut newcomers);
        are_answered(&mut idlers);
        // Some of the others have lost their connections.
        wait_for("the end of a connection behind its last response", || {
            lingering.iter().find(|connection| connection.stream().write_all(b"x").is_err())
        });
        served.server.stop();
    }
}

/// `--max-connections-per-client` applies to all protocols and workers together, and to each client
/// separately.
#[test]
fn a_client_holds_at_most_its_limit_of_connections() {
    const MAX: usize = 5;
    let limit = MAX.to_string();
    for io in Io::BOTH {
        let served = Served::start(io, &["--max-connections-per-client", &limit]);
        let protocols = [Protocol::Http1, Protocol::Http2, Protocol::Http3];
        let opened = |number: usize| idle(&served, protocols[number % protocols.len()]);
        let mut held: Vec<Held> = (0..MAX).map(|number| opened(number).expect("open")).collect();
        for number in 0..2 * protocols.len() {
            assert!(opened(number).is_none(), "a connection beyond the limit, over {io:?}");
        }
        let line = served.server.wait_for_line(0, |line| line.contains("closed a connection of"));
        assert!(line.contains("127.0.0.2") && line.contains("holds 5"), "{line}");
        for number in 0..MAX {
            served.is_answered(protocols[number % protocols.len()]);
        }
        // The end of a QUIC connection takes some round trips.
        held.pop();
        wait_for("room for one more", || idle(&served, Protocol::Http1));
        served.server.stop();
    }
}

#[test]
fn an_idle_connection_of_http3_is_closed_after_the_keep_alive_timeout() {
    let served = Served::start(Io::Uring, &["--keep-alive-timeout", "1"]);
    let client = Http3::try_open(&served.peer(Protocol::Http3)).expect("a connection");
    assert_eq!(client.try_exchange(&Request::get("/")).expect("a response").text(), "home");
    // H3_NO_ERROR (RFC 9114 §8.1): the server has closed it, and the client has not timed out.
    let why = quic::wait(client.quic().connection().closed()).expect("an end");
    let is_closed = |close: &ApplicationClose| close.error_code.into_inner() == 0x100;
    assert!(matches!(&why, ConnectionError::ApplicationClosed(close) if is_closed(close)), "{why}");
    served.server.stop();
}

/// A server behind a load balancer should keep connections longer than the load balancer does.
#[test]
fn the_flag_sets_the_keep_alive_timeout() {
    for io in Io::BOTH {
        let served = Served::start(io, &["--keep-alive-timeout", "1", "--header-timeout", "2"]);
        let mut idle = served.server.connect();
        let response = idle.exchange(&Request::get("/"));
        assert_eq!(response.text(), "home");
        let mut half = served.server.connect();
        half.send(b"GET / HTTP/1.1\r\nHo");
        idle.expect_close();
        assert_eq!(half.receive().status, 408);
        served.server.stop();
    }
}
