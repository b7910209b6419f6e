//! Datagrams that are not QUIC, aborted handshakes, clients that vanish: other clients are served
//! meanwhile, and no memory is leaked.

use pinion_tests::client::http3::{Http3, kind, stream};
use pinion_tests::client::quic::{Quic, first_datagram, frame, integer, wait};
use pinion_tests::client::{Broken, qpack};
use pinion_tests::datagram_relay::Relay;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{is_reached, wait_for};
use quinn::ConnectionError;
use std::net::UdpSocket;

struct Served {
    server: Server,
    _site: Folder,
}

impl Served {
    fn start(io: Io, flags: &[&str]) -> Served {
        Served::start_with(io, flags, |start| start)
    }

    fn start_with(io: Io, flags: &[&str], more: impl Fn(Start) -> Start) -> Served {
        let site = Folder::with("quic-bad", [("index.html", "home")]);
        let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
        let start = Start::site(site.path()).in_way(way).flags(&["--workers", "1"]);
        Served { server: more(start.flags(flags)).start(), _site: site }
    }

    fn socket(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(self.server.address()).expect("an address");
        socket
    }

    /// Asserts that a well-behaved client gets its response.
    #[track_caller]
    fn serves(&self) {
        assert_eq!(self.server.get("/").text(), "home");
    }
}

/// Returns bytes that only depend on the seed.
fn noise(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(seed) << 1 | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes + 8).map(|_| next()).skip(8).collect()
}

#[test]
fn datagrams_that_are_not_quic_are_ignored() {
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let socket = served.socket();
        for bytes in [0, 1, 2, 5, 6, 20, 21, 22, 25, 50, 1199, 1200, 1500, 9000, 65_507] {
            for (seed, first) in [(1, 0x00), (2, 0x40), (3, 0x80), (4, 0xc0), (5, 0xff), (6, 0xd0)]
            {
                let mut datagram = noise(seed, bytes);
                if let Some(byte) = datagram.first_mut() {
                    *byte = first;
                }
                socket.send(&datagram).expect("sent");
                // The same datagram with the version of the server.
                if let Some(version) = datagram.get_mut(1..5) {
                    version.copy_from_slice(&[0, 0, 0, 1]);
                    socket.send(&datagram).expect("sent");
                }
            }
        }
        socket.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        served.serves();
        served.server.stop();
    }
}

/// The first datagram of a client with a changed byte, without its end, with additional bytes, and
/// repeated.
#[test]
fn a_damaged_first_datagram_does_not_affect_others() {
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let socket = served.socket();
        let whole = first_datagram(served.server.peer());
        for at in (0..60).chain((60..whole.len()).step_by(37)) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            socket.send(&damaged).expect("sent");
            socket.send(&whole[..at]).expect("sent");
        }
        served.serves();
        for _ in 0..100 {
            socket.send(&whole).expect("sent");
            socket.send(&[&whole[..], &noise(7, 200)].concat()).expect("sent");
        }
        served.serves();
        served.server.stop();
    }
}

/// Runs a client that stops at some point: its connection is open, and nothing more is received
/// from it.
fn vanish(served: &Served, way: usize) {
    let relay = Relay::to(served.server.address());
    let peer = served.server.peer().at(relay.address());
    match way {
        // The client stops after the first datagram.
        0 => drop(served.socket().send(&first_datagram(served.server.peer())).expect("sent")),
        // The client stops after the handshake, with the streams of HTTP/3 or without.
        1 => {
            let quic = Quic::open(&peer).expect("a connection");
            relay.close_to_server();
            drop(quic);
        }
        2 => {
            let client = Http3::try_open(&peer).expect("a connection");
            relay.close_to_server();
            drop(client);
        }
        // The client stops after a response.
        _ => {
            let client = Http3::try_open(&peer).expect("a connection");
            let response = client.try_exchange(&Request::get("/"));
            assert!(response.is_ok_and(|response| response.text() == "home"));
            relay.close_to_server();
            drop(client);
        }
    }
}

/// Ends a connection at once, after a response, or within a request.
fn leave(served: &Served, way: usize) {
    match way {
        0 => drop(Quic::open(served.server.peer()).expect("a connection")),
        1 => served.serves(),
        _ => {
            let quic = Quic::open(served.server.peer()).expect("a connection");
            let (mut sender, _receiver) =
                wait(quic.connection().open_bi()).expect("room").expect("open");
            wait(sender.write_all(&[1, 9])).expect("room").expect("written");
        }
    }
}

impl Served {
    /// Waits until the server has no connection any more, by the figures that it prints every
    /// second.
    fn wait_until_all_have_left(&self) {
        let from = self.server.lines().len();
        let is_empty = || {
            let lines = self.server.lines();
            lines.iter().skip(from).any(|line| line.contains("; 0 connections;"))
        };
        // A connection may be silent for a minute.
        assert!((0..3).any(|_| is_reached(is_empty)), "{:?}", self.server.lines().last());
    }
}

#[test]
fn disconnecting_clients_leak_no_memory() {
    for io in Io::BOTH {
        let served = Served::start(io, &["--stats", "1"]);
        let round = || (0..3).for_each(|way| leave(&served, way));
        (0..50).for_each(|_| round());
        served.wait_until_all_have_left();
        let memory = served.server.memory_bytes("RssAnon");
        (0..200).for_each(|_| round());
        served.wait_until_all_have_left();
        // A connection takes more than ten KiB: if one in two stayed, this would show it.
        let grown = served.server.memory_bytes("RssAnon").saturating_sub(memory);
        assert!(grown < 3 << 20, "{grown} bytes more over {io:?}");
        served.server.stop();
    }
}

/// Other clients are served meanwhile; and after the timeouts nothing of the vanished ones is left.
#[test]
fn vanished_clients_do_not_delay_others() {
    for io in Io::BOTH {
        // With this grace period, the end would wait an hour for a client that still expects data.
        let served = Served::start_with(io, &["--stats", "1"], |start| start.grace(3600));
        for _ in 0..25 {
            (0..4).for_each(|way| vanish(&served, way));
            served.serves();
        }
        if cfg!(feature = "long") {
            served.wait_until_all_have_left();
            served.serves();
        }
        served.server.stop();
    }
}

#[test]
fn connections_beyond_the_cap_are_refused() {
    for io in Io::BOTH {
        // Connections that wait for a response are in use, and none is closed for another.
        let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
        let start = Start::serve(&["--dummy", "--dummy-delay", "60s"]).in_way(way);
        let server = start.flags(&["--workers", "1", "--max-connections", "4"]).start();
        let section = [(":method", "GET"), (":scheme", "https"), (":authority", "a")];
        let section = qpack::encode(&[&section[..], &[(":path", "/")]].concat());
        let head = frame(kind::HEADERS, &section);
        let mut open = Vec::new();
        let refused = loop {
            let quic = match Quic::open(server.peer()) {
                Ok(quic) => quic,
                Err(error) => break error,
            };
            let (mut sender, receiver) =
                wait(quic.connection().open_bi()).expect("room").expect("open");
            wait(sender.write_all(&head)).expect("room").expect("written");
            sender.finish().expect("an open stream");
            open.push((quic, sender, receiver));
            assert!(open.len() <= 4, "over {io:?}");
        };
        // RFC 9000 §20.1: CONNECTION_REFUSED.
        assert!(refused.to_string().contains("refused"), "{refused} over {io:?}");
        assert_eq!(open.len(), 4, "over {io:?}");
        drop(open.pop());
        wait_for("a permit", || Quic::open(server.peer()).ok());
        drop(open);
        server.stop();
    }
}

/// Streams that are opened and not used, or not completed, do not affect others.
#[test]
fn stalled_streams_do_not_delay_others() {
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let quic = Quic::open(served.server.peer()).expect("a connection");
        let section = [(":method", "POST"), (":scheme", "https"), (":authority", "a")];
        let section = qpack::encode(&[&section[..], &[(":path", "/")]].concat());
        let mut open = Vec::new();
        for part in [1, 2, 10, section.len() + 1].into_iter().cycle().take(100) {
            let (mut sender, receiver) =
                wait(quic.connection().open_bi()).expect("room").expect("open");
            let bytes = frame(kind::HEADERS, &section);
            wait(sender.write_all(&bytes[..part])).expect("room").expect("written");
            open.push((sender, receiver));
        }
        for _ in 0..5 {
            served.serves();
        }
        drop(quic);
        served.serves();
        served.server.stop();
    }
}

/// Input that costs a client little and the server more is repeated: the connection is closed.
#[test]
fn too_many_no_op_frames_or_resets_end_the_connection() {
    /// RFC 9114 §8.1: H3_EXCESSIVE_LOAD.
    const EXCESSIVE_LOAD: u64 = 0x107;
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let settings = [&integer(stream::CONTROL)[..], &frame(kind::SETTINGS, &[])].concat();
        for (case, bytes) in [
            ("frames of no meaning", frame(0x21, &[])),
            ("MAX_PUSH_ID", frame(kind::MAX_PUSH_ID, &[5])),
            ("priorities", frame(0xf0700, &[0])),
        ] {
            let quic = Quic::open(served.server.peer()).expect("a connection");
            let mut control = wait(quic.connection().open_uni()).expect("room").expect("open");
            wait(control.write_all(&settings)).expect("room").expect("written");
            while wait(control.write_all(&bytes.repeat(1000))).expect("room").is_ok() {}
            assert_eq!(code(&quic), EXCESSIVE_LOAD, "{case} over {io:?}");
        }
        // Requests that are cancelled at once.
        let quic = Quic::open(served.server.peer()).expect("a connection");
        while let Ok((mut sender, mut receiver)) = wait(quic.connection().open_bi()).expect("room")
        {
            let _closed_meanwhile = wait(sender.write_all(&[1, 9])).expect("room");
            let _closed_meanwhile = sender.reset(0x10c_u32.into());
            let _closed_meanwhile = receiver.stop(0x10c_u32.into());
        }
        assert_eq!(code(&quic), EXCESSIVE_LOAD, "resets over {io:?}");
        served.serves();
        served.server.stop();
    }
}

/// Returns the code with which the server has closed a connection.
#[track_caller]
fn code(quic: &Quic) -> u64 {
    match wait(quic.connection().closed()).expect("an end") {
        ConnectionError::ApplicationClosed(closed) => closed.error_code.into_inner(),
        other => panic!("{other}"),
    }
}

/// A server that is killed disappears; one that stops closes its connections.
#[test]
fn a_stopping_server_closes_its_connections() {
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let client = Http3::try_open(served.server.peer()).expect("a connection");
        assert!(client.try_exchange(&Request::get("/")).is_ok());
        served.server.stop();
        wait_for("the end", || client.quic().connection().close_reason());
        match client.try_exchange(&Request::get("/")) {
            Err(Broken::Closed) => {}
            other => panic!("{other:?} over {io:?}"),
        }
    }
}
