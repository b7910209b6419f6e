//! Input that is no handshake, aborted handshakes, and connections that end the wrong way: the
//! connection ends, other clients are served meanwhile, and no memory is leaked.

use pinion_tests::client::byte_stream::trusting;
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, curl, openssl};
use pinion_tests::wait_for;
use rustls::{ALL_VERSIONS, AlertDescription, ClientConnection, Error, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// Longer than anything here may take, except for the timeout of a handshake.
const PATIENCE: Duration = Duration::from_secs(20);

struct Served {
    server: Server,
    /// The authority of its certificate.
    authority: Pair,
    _files: Folder,
}

impl Served {
    fn start(io: Io) -> Served {
        Served::start_with(io, &[])
    }

    fn start_with(io: Io, flags: &[&str]) -> Served {
        let files = Folder::with("tls-bad", [("site/index.html", "home")]);
        let authority = Pair::new(&files, "authority", &["authority.test"]);
        let pair = authority.vouch(&files, "a", &["a.test"]);
        let start = Start::site(&files.join("site")).tls(&pair);
        let start = start.flags(&["--io", io.as_str(), "--workers", "1"]).flags(flags);
        Served { server: start.start(), authority, _files: files }
    }

    fn address(&self) -> SocketAddr {
        self.server.address_of("https")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.set_write_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    /// Returns a well-behaved client, which a case may change.
    fn client(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let config = trusting(&self.authority.cert, ALL_VERSIONS).with_no_client_auth();
        let host = "a.test".try_into().expect("a name");
        let session = ClientConnection::new(Arc::new(config), host).expect("a session");
        StreamOwned::new(session, self.connect())
    }

    /// Asserts that a well-behaved client gets its response.
    #[track_caller]
    fn serves(&self) {
        let response = curl(&self.server, "a.test", "/", &self.authority.cert, &[]);
        assert!(response.as_ref().is_ok_and(|response| response.ends_with("home")), "{response:?}");
    }
}

/// Returns all received bytes until the server ends the connection.
#[track_caller]
fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server keeps the connection: {error}"),
    }
    response
}

/// Returns the ClientHello of openssl, which connects to a listener of this test.
fn client_hello() -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client = openssl("s_client");
    client.arg("-connect").arg(listener.local_addr().expect("an address").to_string());
    client.args(["-servername", "a.test"]).stdin(Stdio::null());
    let mut child = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("openssl");
    let (mut stream, _) = listener.accept().expect("a client");
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("a record");
    let mut body = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    stream.read_exact(&mut body).expect("a whole record");
    child.kill().expect("it waits");
    child.wait().expect("its end");
    [&header[..], &body].concat()
}

/// Returns a record of TLS.
fn record(kind: u8, version: [u8; 2], body: &[u8]) -> Vec<u8> {
    let bytes = (body.len() as u16).to_be_bytes();
    [&[kind, version[0], version[1], bytes[0], bytes[1]], body].concat()
}

/// Returns input that can never become a handshake.
fn no_handshakes() -> Vec<(&'static str, Vec<u8>)> {
    let hello = client_hello();
    let mut wrong_length = hello.clone();
    wrong_length[6] = 0x7f;
    let mut cut = hello.clone();
    cut.truncate(60);
    cut[3..5].copy_from_slice(&55u16.to_be_bytes());
    let ssl3 = {
        let body = [&[1, 0, 0, 41, 3, 0][..], &[7; 32], &[0, 0, 2, 0, 4, 1, 0]].concat();
        record(22, [3, 0], &body)
    };
    // SSLv2: a length with its first bit set, type 1, version 0.2, one cipher, a challenge.
    let ssl2 = [&[0x80, 28, 1, 0, 2, 0, 3, 0, 0, 0, 16, 1, 0, 0x80][..], &[7; 16]].concat();
    vec![
        ("zeros", vec![0; 500]),
        ("noise", (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()),
        ("SSLv3", ssl3),
        ("SSLv2", ssl2),
        ("an alert", record(21, [3, 3], &[2, 40])),
        ("application data", record(23, [3, 3], b"GET / HTTP/1.1\r\n\r\n")),
        ("an empty handshake record", record(22, [3, 3], b"")),
        ("an oversized record", record(22, [3, 1], &[1; (1 << 14) + 1])),
        ("a much longer record", record(22, [3, 1], &[1; 65_535])),
        ("a hello with a wrong length", wrong_length),
        ("a hello that is cut", cut),
        ("a finished before anything", record(22, [3, 3], &[20, 0, 0, 4, 1, 2, 3, 4])),
        ("two hellos", [&hello[..], &hello].concat()),
        ("garbage behind a hello", [&hello[..], &[0xff; 100]].concat()),
        (
            "a record too large behind a hello",
            [&hello[..], &record(23, [3, 3], &[0; 17_000])].concat(),
        ),
    ]
}

#[test]
fn invalid_handshakes_end_the_connection_with_an_alert() {
    for io in Io::BOTH {
        let served = Served::start(io);
        for (name, bytes) in no_handshakes() {
            for at_a_time in [bytes.len(), 7] {
                let mut stream = served.connect();
                for part in bytes.chunks(at_a_time) {
                    if stream.write_all(part).is_err() {
                        break;
                    }
                }
                let _ended_already = stream.shutdown(Shutdown::Write);
                let response = rest_of(&mut stream);
                assert!(!response.starts_with(b"HTTP/"), "{name} over {io:?}");
                // RFC 8446 §5.1, §6.2: a fatal alert is sent before the close. The other inputs
                // break the rules after the server's own handshake, or end in the middle of a
                // message.
                let is_incomplete =
                    matches!(name, "a hello with a wrong length" | "a hello that is cut");
                let ends_later = name == "two hellos" || name.ends_with("behind a hello");
                let shown = response.escape_ascii();
                assert!(
                    is_incomplete || ends_later || matches!(&response[..], [21, 3, _, 0, 2, 2, _]),
                    "{name} over {io:?}: {shown}"
                );
                const RECORD_OVERFLOW: u8 = 22;
                let is_overflow = response.last() == Some(&RECORD_OVERFLOW);
                let is_oversized = name == "an oversized record" || name == "a much longer record";
                assert!(is_overflow || !is_oversized, "{name} over {io:?}: {shown}");
            }
            served.serves();
        }
        served.server.stop();
    }
}

/// RFC 9110 §15.5.1: a client that speaks HTTP on this port gets an explanation. Fields that
/// clients of TLS remember must not be in a response that an attacker could have written (RFC 6797
/// §7.2).
#[test]
fn an_http_request_to_the_tls_port_gets_a_hint() {
    for io in Io::BOTH {
        let flags = ["--hsts", "1y", "--quic", "127.0.0.1:0", "--server-name", "Pinion"];
        let served = Served::start_with(io, &flags);
        for request in [
            "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "POST /x HTTP/1.0\r\n\r\n",
            // RFC 9113 §3.4: the preface of HTTP/2 is also a request of HTTP/1 by design, and
            // GOAWAY may be omitted.
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        ] {
            let mut stream = served.connect();
            stream.write_all(request.as_bytes()).expect("it takes bytes");
            let response = String::from_utf8(rest_of(&mut stream)).expect("text");
            assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
            assert!(response.contains("\r\nContent-Type: text/plain"), "{response}");
            assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
            assert!(response.contains("\r\nDate: "), "{response}");
            for field in ["Strict-Transport-Security", "Alt-Svc", "Server"] {
                assert!(!response.contains(field), "{response}");
            }
        }
        // The fields are present in encrypted responses.
        let response = curl(&served.server, "a.test", "/", &served.authority.cert, &[]);
        let response = response.expect("an answer").to_ascii_lowercase();
        for field in ["strict-transport-security", "alt-svc", "server"] {
            assert!(response.contains(&format!("\r\n{field}: ")), "{response}");
        }
        served.server.stop();
    }
}

/// Stops within a handshake in one of several ways, or disconnects.
fn leave_somehow(served: &Served, hello: &[u8], way: usize) {
    let mut stream = served.connect();
    let sent = match way {
        0 => 0,
        1 => 1,
        2 => 5,
        3 => hello.len() - 1,
        _ => hello.len(),
    };
    stream.write_all(&hello[..sent]).expect("it takes bytes");
    match way {
        // The sending side is closed within a handshake, which can never be complete.
        0..=3 => {
            stream.shutdown(Shutdown::Write).expect("an open connection");
            rest_of(&mut stream);
        }
        // The client disconnects after the first flight of the server, which it has read or not.
        4 => stream.read_exact(&mut [0; 100]).expect("a flight"),
        _ => {}
    }
}

#[test]
fn aborted_handshakes_leak_no_sockets_or_memory() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let hello = client_hello();
        let round = || (0..6).for_each(|way| leave_somehow(&served, &hello, way));
        (0..100).for_each(|_| round());
        served.serves();
        wait_for("few sockets", || (served.server.sockets() < 20).then_some(()));
        let sockets = served.server.sockets();
        let memory_bytes = served.server.memory_bytes("RssAnon");
        (0..500).for_each(|_| round());
        served.serves();
        wait_for("as few sockets", || (served.server.sockets() <= sockets).then_some(()));
        // A session takes more than ten KiB: if one in ten stayed, this would show it.
        let grown_bytes = served.server.memory_bytes("RssAnon").saturating_sub(memory_bytes);
        assert!(grown_bytes < 3_000_000, "{grown_bytes} bytes more over {io:?}");
        served.server.stop();
    }
}

/// Other clients are served while many handshakes stall.
#[test]
fn stalled_handshakes_do_not_delay_others() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let hello = client_hello();
        let mut stalled: Vec<TcpStream> = Vec::new();
        for n in 0..200 {
            let mut stream = served.connect();
            stream.write_all(&hello[..[0, 1, 5, 100, hello.len()][n % 5]]).expect("taken");
            stalled.push(stream);
        }
        for _ in 0..5 {
            served.serves();
        }
        // Each is closed after its timeout of ten seconds, for which only a long run has time.
        if cfg!(feature = "long") {
            stalled.iter_mut().for_each(|stream| drop(rest_of(stream)));
        }
        served.server.stop();
    }
}

/// Input after the last request of a connection is dropped: the response arrives, whatever that
/// input was.
#[test]
fn input_after_the_last_request_does_not_truncate_its_response() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let mut client = served.client();
        let request = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 99999999\r\n\r\n";
        client.write_all(request.as_bytes()).expect("taken");
        for _ in 0..20 {
            client.sock.write_all(&[0xff; 5000]).expect("taken");
        }
        let mut response = String::new();
        client.read_to_string(&mut response).expect("an answer, and the end of the session");
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
        served.serves();
        served.server.stop();
    }
}

/// RFC 8446 §5.2: a record may have 2^14 + 256 bytes. A longer one ends the connection, even after
/// the handshake, and so does one that cannot be decrypted. A fatal alert with the reason is sent
/// before the end (§6.2).
#[test]
fn an_oversized_record_ends_only_its_connection() {
    const MOST_BYTES: usize = (1 << 14) + 256;
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for io in Io::BOTH {
        let served = Served::start(io);
        let ask = |client: &mut StreamOwned<ClientConnection, TcpStream>| {
            client.write_all(REQUEST).expect("taken");
            let (mut response, mut piece) = (Vec::new(), [0; 1 << 10]);
            while !response.ends_with(b"\r\n\r\nhome") {
                let bytes = client.read(&mut piece).expect("an answer");
                assert_ne!(bytes, 0, "over {io:?}: {}", response.escape_ascii());
                response.extend_from_slice(&piece[..bytes]);
            }
        };
        let mut other = served.client();
        ask(&mut other);
        // The library allows somewhat longer records than RFC 8446 §5.2, and has another alert for
        // much longer ones.
        for (bytes, wanted) in [
            (MOST_BYTES, AlertDescription::BadRecordMac),
            (MOST_BYTES + 1, AlertDescription::BadRecordMac),
            (usize::from(u16::MAX), AlertDescription::DecodeError),
        ] {
            let mut client = served.client();
            ask(&mut client);
            client.sock.write_all(&record(23, [3, 3], &vec![0; bytes])).expect("taken");
            let ended = client.read_to_end(&mut Vec::new()).expect_err("no orderly end");
            let alert = ended.get_ref().and_then(|error| error.downcast_ref());
            let has_alert = alert == Some(&Error::AlertReceived(wanted));
            assert!(has_alert, "{bytes} bytes over {io:?}: {ended}");
            ask(&mut other);
        }
        served.serves();
        served.server.stop();
    }
}

/// A connection that ends without close_notify, by its end of stream or by a reset, between two
/// requests and within one.
#[test]
fn a_connection_may_end_without_close_notify() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let before = {
            served.serves();
            served.server.sockets()
        };
        for request in ["GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET / HT", ""] {
            let mut client = openssl("s_client");
            client.args(["-quiet", "-servername", "a.test", "-connect"]);
            client.arg(served.address().to_string()).stdin(Stdio::piped());
            client.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = client.spawn().expect("openssl");
            let mut stdin = child.stdin.take().expect("piped");
            stdin.write_all(request.as_bytes()).expect("taken");
            if request.ends_with("\r\n\r\n") {
                let mut stdout = child.stdout.take().expect("piped");
                stdout.read_exact(&mut [0; 15]).expect("an answer");
            }
            // The kernel ends the connection without a message of the client.
            child.kill().expect("it runs");
            child.wait().expect("its end");
            served.serves();
        }
        wait_for("closed", || (served.server.sockets() <= before).then_some(()));
        served.server.stop();
    }
}
