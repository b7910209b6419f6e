//! HTTP/3 with programs of other projects: aioquic and quinn. Other actions of a QUIC client
//! besides its requests (a new address, new keys, leaving) do not change the responses.

use pinion_tests::body::noise;
use pinion_tests::client::Broken;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::client::http3::{Http3, stream};
use pinion_tests::client::quic::{Quic, first_datagram, integer, wait};
use pinion_tests::datagram_relay::Relay;
use pinion_tests::external_programs::{output_within, python_program};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use pinion_tests::{PATIENCE, wait_for};
use quinn::ConnectionError;
use rustix::process::Signal;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

/// The client script; its head describes the scenarios.
const H3_CLIENT: &str = include_str!("../../src/h3_client.py");

fn site() -> Folder {
    let site = Folder::new("h3-peers");
    site.write("small.bin", noise(5 << 10));
    site.write("large.bin", noise(10 << 20));
    site
}

/// Starts a server whose only listener is one of QUIC.
fn start(site: &Folder, io: Io, workers: &str) -> Server {
    start_with(site, io, workers, &[])
}

/// Does the same with more flags.
fn start_with(site: &Folder, io: Io, workers: &str, flags: &[String]) -> Server {
    let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
    Start::site(site.path()).in_way(way).flags(&["--workers", workers]).flags(flags).start()
}

/// Runs a scenario of `h3_client.py` over both backends.
#[track_caller]
fn aioquic(scenario: &str) {
    aioquic_at(scenario, "2");
}

/// Does the same with this many workers.
#[track_caller]
fn aioquic_at(scenario: &str, workers: &str) {
    aioquic_with(scenario, workers, &[]);
}

/// Does the same with more flags of the server.
#[track_caller]
fn aioquic_with(scenario: &str, workers: &str, flags: &[String]) {
    let site = site();
    for io in Io::BOTH {
        let server = start_with(&site, io, workers, flags);
        let mut python = python_program("python");
        python.args(["-c", H3_CLIENT, scenario, &server.address().port().to_string()]);
        let output = output_within(python.arg(site.path()), 2 * PATIENCE);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scenario} over {io:?}: {said}");
        server.stop();
    }
}

#[test]
fn aioquic_gets_the_content() {
    aioquic("requests");
}

#[test]
fn aioquic_gets_many_concurrent_responses() {
    aioquic("parallel");
}

/// Its decoder is ls-qpack, with a dynamic table (RFC 9204 §3.2).
#[test]
fn aioquic_decodes_repeated_fields_with_the_dynamic_table() {
    aioquic("repeats");
}

/// RFC 9218 §10.
#[test]
fn aioquic_gets_responses_by_priority() {
    aioquic("priorities");
}

/// RFC 9000 §9: either of the two workers may get the datagrams from the new port.
#[test]
fn aioquic_migrates_within_a_download() {
    aioquic("migration");
}

/// Concurrent downloads, and one whose client migrates while BBR keeps its data about the path.
#[test]
fn downloads_are_intact_with_bbr() {
    let flags = ["--quic-congestion", "bbr"].map(str::to_owned);
    for scenario in ["parallel", "migration"] {
        aioquic_with(scenario, "2", &flags);
    }
}

/// RFC 9001 §6.
#[test]
fn aioquic_updates_its_keys() {
    aioquic("keys");
}

#[test]
fn aioquic_closes_its_connection() {
    aioquic("close");
}

/// RFC 8470: a request in early data, which could be a replay, is not processed.
#[test]
fn aioquic_resumes_and_its_early_data_is_not_processed() {
    aioquic("resumption");
}

/// RFC 8446 §4.6.1: a ticket is valid for all workers of the server. The kernel chooses the worker
/// by the port of the client, which differs each time.
#[test]
fn aioquic_resumes_on_any_worker() {
    aioquic_at("tickets", "4");
}

/// RFC 6066 §3: as over TCP, a text that is no host name is treated like no name.
#[test]
fn aioquic_with_an_invalid_server_name_is_served() {
    let files = Folder::new("h3-no-name");
    let first = Pair::new(&files, "first", &["localhost"]);
    let second = Pair::new(&files, "second", &["second.test"]);
    aioquic_with("names", "2", &[first.flags(), second.flags()].concat());
}

/// RFC 9000 §14.1.
#[test]
fn a_small_initial_datagram_of_aioquic_is_ignored() {
    aioquic("small");
}

/// RFC 9000 §9.3: the client does not announce that it has migrated.
#[test]
fn quinn_migrates_between_requests() {
    let site = site();
    for io in Io::BOTH {
        let server = start(&site, io, "3");
        let client = Http3::try_open(server.peer()).expect("a connection");
        for _ in 0..20 {
            let response = client.try_exchange(&Request::get("/small.bin"));
            assert!(response.is_ok_and(|response| response.body == noise(5 << 10)), "over {io:?}");
            client.quic().move_on().expect("another port");
        }
        server.stop();
    }
}

/// With windows this large the server sends many datagrams with one call. A kernel that does not
/// report this (GRO came with Linux 5.0) cannot run this test.
#[test]
fn quinn_gets_batched_datagrams_byte_for_byte() {
    const WINDOW_BYTES: u32 = 16 << 20;
    let site = site();
    for io in Io::BOTH {
        let server = start(&site, io, "1");
        let client = Http3::try_open(&server.peer().clone().windows([WINDOW_BYTES; 2]));
        let client = client.expect("a connection");
        for _ in 0..3 {
            let response = client.try_exchange(&Request::get("/large.bin")).expect("an answer");
            assert!(response.body == noise(10 << 20), "over {io:?}: {response}");
        }
        let at_once = client.quic().most_at_once();
        assert!(at_once.is_some_and(|count| count >= 8), "{at_once:?} over {io:?}");
        server.stop();
    }
}

/// RFC 9114 §5.2: first the client gets a GOAWAY that refuses nothing, then one with the first
/// refused stream. Running requests are completed.
#[test]
fn quinn_gets_the_rest_from_a_stopping_server() {
    /// H3_REQUEST_REJECTED: the client may send the request to another server.
    const REQUEST_REJECTED: u64 = 0x10b;
    let site = site();
    for io in Io::BOTH {
        let mut server = start(&site, io, "1");
        // Only the response has to wait.
        let client = Http3::try_open(&server.peer().clone().windows([64 << 10, 1 << 20]));
        let client = client.expect("a connection");
        let response = client.exchange_around(&Request::get("/large.bin"), || {
            server.signal(Signal::TERM);
            // The first stream is that of the running request; the next one comes too late.
            wait_for("the last GOAWAY", || client.go_away().filter(|id| *id == 4));
            let late = client.try_exchange(&Request::get("/small.bin"));
            assert!(matches!(late, Err(Broken::Reset(REQUEST_REJECTED))), "{late:?}");
        });
        let response = response.expect("an answer");
        assert!(response.body == noise(10 << 20), "over {io:?}: {response}");
        assert!(server.wait().success());
    }
}

/// RFC 9000 §10.3: a killed server has closed no connection. Its successor recognises the
/// connection by the stored keys, and resets it; with other keys the client would have to wait for
/// its timeout.
#[test]
fn a_restarted_server_resets_connections_of_its_killed_predecessor() {
    let site = site();
    for io in Io::BOTH {
        let state = Folder::new("kept-keys");
        let start = |quic: &str| {
            let start = Start::site(site.path()).flags(&["--io", io.as_str(), "--quic", quic]);
            start.flags(&["--workers", "2", "--state"]).flags(&[state.path()]).start()
        };
        let mut killed = start(&format!("127.0.0.1:{}", unassigned_port()));
        let address = killed.address_over(Protocol::Http3);
        let certificate = state.join("tls/self-signed-p256.crt");
        let peer = Peer::new(address, Protocol::Http3, Some(&certificate));
        let client = Http3::try_open(&peer).expect("a connection");
        assert!(client.try_exchange(&Request::get("/small.bin")).is_ok(), "over {io:?}");
        killed.signal(Signal::KILL);
        killed.wait();
        // The kernel closes the sockets of an io_uring a moment later.
        wait_for("the address is free", || UdpSocket::bind(address).ok());
        let successor = start(&address.to_string());
        let lost = client.try_exchange(&Request::get("/small.bin"));
        assert!(lost.is_err(), "over {io:?}: {lost:?}");
        let why = wait(client.quic().connection().closed()).expect("the end");
        assert!(matches!(why, ConnectionError::Reset), "over {io:?}: {why:?}");
        let anew = Http3::try_open(&peer).expect("a connection");
        assert!(anew.try_exchange(&Request::get("/small.bin")).is_ok(), "over {io:?}");
        successor.stop();
    }
}

/// Returns a port that stays free while its server is stopped: below the ports that the system
/// assigns (`ip_local_port_range` in ip(7)), one of which another test may get at any time.
fn unassigned_port() -> u16 {
    let first = 10_000 + (std::process::id() % 20_000) as u16;
    let is_free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    (first..32_000).find(is_free).expect("a free port")
}

/// RFC 9000 §8.1.2: if many handshakes are open, further clients have to prove their address first;
/// a client that does is served.
#[test]
fn many_open_handshakes_require_address_validation() {
    let site = site();
    for io in Io::BOTH {
        let server = start(&site, io, "1");
        let socket = socket(&server);
        let begin = || socket.send(&first_datagram(server.peer())).expect("sent");
        assert_eq!(begin(), 1200);
        assert!(!is_retry(&receive(&socket)), "nobody else has begun");
        // A busy server loses datagrams, so they are repeated until it requires a proof.
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        wait_for("a Retry", || {
            assert_eq!(begin(), 1200);
            let received = || {
                let mut bytes = [0; 2000];
                let count = socket.recv(&mut bytes).ok()?;
                Some(is_retry(&bytes[..count]))
            };
            std::iter::from_fn(received).any(|is_retry| is_retry).then_some(())
        });
        for _ in 0..3 {
            assert_eq!(server.get("/small.bin").status, 200, "over {io:?}");
        }
        server.stop();
    }
}

fn socket(server: &Server) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.connect(server.address()).expect("an address");
    socket
}

#[track_caller]
fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 2000];
    let count = socket.recv(&mut bytes).expect("a datagram");
    bytes.truncate(count);
    bytes
}

/// RFC 9000 §17.2.5.
fn is_retry(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xf0 && datagram[1..5] == [0, 0, 0, 1]
}

/// RFC 9000 §6, RFC 8999 §6.
#[test]
fn an_unknown_version_is_negotiated() {
    const UNKNOWN: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];
    let site = site();
    for io in Io::BOTH {
        let server = start(&site, io, "1");
        let socket = socket(&server);
        let datagram = |destination: &[u8], source: &[u8], bytes: usize| {
            let (to, from) = (destination.len() as u8, source.len() as u8);
            let mut datagram =
                [&[0xc0][..], &UNKNOWN, &[to], destination, &[from], source].concat();
            datagram.resize(bytes, 0);
            datagram
        };
        for (destination, source) in [(&b"12345678"[..], &b"abcd"[..]), (&[7; 20], &[])] {
            // A datagram that is too small for a response, so that responses cannot be used to
            // flood other hosts (§5.2.2).
            socket.send(&datagram(destination, b"ignored", 1199)).expect("sent");
            socket.send(&datagram(destination, source, 1200)).expect("sent");
            let response = receive(&socket);
            let (to, from) = (source.len() as u8, destination.len() as u8);
            let head = [&[0, 0, 0, 0, to][..], source, &[from], destination].concat();
            assert_eq!(response[0] & 0x80, 0x80, "a long header");
            assert_eq!(response[1..=head.len()], head, "over {io:?}");
            let versions = &response[1 + head.len()..];
            assert!(versions.len().is_multiple_of(4) && versions.len() >= 4);
            let versions: Vec<_> = versions.chunks(4).collect();
            assert!(versions.contains(&&[0, 0, 0, 1][..]), "{versions:?}");
            assert!(!versions.contains(&&UNKNOWN[..]), "{versions:?}");
        }
        assert_eq!(server.get("/small.bin").status, 200);
        server.stop();
    }
}

/// RFC 9000 §10.3: the server has closed the connection, but the client has not received that.
#[test]
fn an_unknown_connection_is_reset() {
    let site = site();
    for io in Io::BOTH {
        let server = start(&site, io, "1");
        let relay = Relay::to(server.address());
        let mut away = Duration::from_millis(100);
        let ended = loop {
            relay.open();
            let quic = Quic::open(&server.peer().at(relay.address())).expect("a connection");
            let ended = close_unheard(&quic, &relay, away);
            // It was too soon: the server still remembers the closed connection.
            match ended {
                ConnectionError::ApplicationClosed(_) if away < PATIENCE => away *= 2,
                other => break other,
            }
        };
        assert_eq!(ended, ConnectionError::Reset, "over {io:?}");
        server.stop();
    }
}

/// Makes the server close the connection, and receives nothing from it for a while.
fn close_unheard(quic: &Quic, relay: &Relay, away: Duration) -> ConnectionError {
    // The server's first stream comes after the connection IDs that it issues.
    let control = wait(quic.connection().accept_uni()).expect("no wait").expect("a stream");
    relay.close_to_client();
    // Two control streams are an error (RFC 9114 §6.2.1).
    let streams: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = wait(quic.connection().open_uni()).expect("no wait").expect("open");
            let kind = integer(stream::CONTROL);
            wait(stream.write_all(&kind)).expect("no wait").expect("written");
            stream
        })
        .collect();
    thread::sleep(away);
    relay.open();
    let ended = wait(quic.connection().closed()).expect("an end");
    // An earlier drop of the server's stream would send STOP_SENDING, another error (§6.2.1).
    drop((control, streams));
    ended
}
