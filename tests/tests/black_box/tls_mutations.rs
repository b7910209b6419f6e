//! Handshakes in which one bit is flipped, or that are cut, at any position: the changed handshake
//! does not succeed, the connection ends, and other clients are served.

use pinion_tests::client::byte_stream::trusting;
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::curl;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, SupportedProtocolVersion, version};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Longer than anything here may take, except for the timeout of a handshake.
const PATIENCE: Duration = Duration::from_secs(9);

/// One of this many positions is tried; with the feature `long`, each one.
const STEP: usize = if cfg!(feature = "long") { 1 } else { 13 };

struct Served {
    server: Server,
    /// Its certificate.
    certificate: PathBuf,
    _files: Folder,
}

impl Served {
    fn start(io: Io) -> Served {
        let files = Folder::with("tls-mutations", [("site/index.html", "home")]);
        let start = Start::site(&files.join("site")).flags(&["--tls", "127.0.0.1:0"]);
        let start = start.flags(&["--io", io.as_str(), "--workers", "1", "--state"]);
        let server = start.flags(&[files.path()]).start();
        Served { server, certificate: files.join("tls/self-signed-p256.crt"), _files: files }
    }

    /// Asserts that a well-behaved client gets its response.
    #[track_caller]
    fn serves(&self) {
        let response = curl(&self.server, "localhost", "/", &self.certificate, &[]);
        assert!(response.as_ref().is_ok_and(|response| response.ends_with("home")), "{response:?}");
    }

    fn config(&self, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        let mut config = trusting(&self.certificate, &[version]).with_no_client_auth();
        // Each handshake is a full one.
        config.resumption = rustls::client::Resumption::disabled();
        Arc::new(config)
    }
}

/// The change of the bytes of one flight of the client.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    /// Flips this bit of this byte.
    Flip(usize, u8),
    /// Sends only this many bytes.
    Cut(usize),
}

/// The result of a connection.
struct Played {
    /// The client's flights before the change.
    flights: Vec<Vec<u8>>,
    is_answered: bool,
}

/// Runs a client that completes a handshake and sends a request; one of its flights is changed. The
/// client continues as if it was unchanged.
fn play(served: &Served, config: &Arc<ClientConfig>, flight: usize, change: Change) -> Played {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let mut stream = TcpStream::connect(served.server.address_of("https")).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_nodelay(true).expect("set");
    let mut played = Played { flights: Vec::new(), is_answered: false };
    let mut has_asked = false;
    loop {
        if !tls.is_handshaking() && !has_asked {
            has_asked = true;
            tls.writer().write_all(REQUEST).expect("a session takes bytes");
        }
        let mut bytes = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut bytes).expect("memory takes bytes");
        }
        if !bytes.is_empty() {
            let is_match = played.flights.len() == flight;
            let sent = if is_match { changed(&bytes, change) } else { bytes.clone() };
            let _ended_meanwhile = stream.write_all(&sent);
            if is_match && is_waited_for(&bytes, change) {
                let _ended_meanwhile = stream.shutdown(Shutdown::Write);
            }
            played.flights.push(bytes);
        }
        match tls.read_tls(&mut stream) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return played,
            Err(error) => panic!("{error}: flight {flight}, {change:?}"),
        }
        if tls.process_new_packets().is_err() {
            break;
        }
        let mut response = Vec::new();
        let _would_block = tls.reader().read_to_end(&mut response);
        if !response.is_empty() {
            assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"), "{change:?}");
            played.is_answered = true;
        }
    }
    // Whichever side has failed, the server ends the connection.
    let _ended_meanwhile = stream.shutdown(Shutdown::Write);
    match stream.read_to_end(&mut Vec::new()) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => {
            panic!("the server keeps the connection: {error}; flight {flight}, {change:?}")
        }
        _ => played,
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn changed(bytes: &[u8], change: Change) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match change {
        Change::Nothing => {}
        Change::Flip(at, bit) => bytes[at] ^= 1 << bit,
        Change::Cut(at) => bytes.truncate(at),
    }
    bytes
}

/// Returns whether the server may have to wait for more after such a change. Then the client sends
/// nothing else.
fn is_waited_for(bytes: &[u8], change: Change) -> bool {
    match change {
        Change::Nothing => false,
        Change::Cut(_) => true,
        Change::Flip(at, _) => place_of(bytes, at) != Place::Sealed,
    }
}

/// The part of a flight to which a byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The type, version or length of a record, or the whole of a record that exists only for
    /// middleboxes.
    Record,
    /// The type or length of a handshake message.
    Message,
    /// A byte that the handshake authenticates.
    Sealed,
}

/// Returns the part of a byte (RFC 8446 §5.1, §4).
fn place_of(flight: &[u8], at: usize) -> Place {
    const CHANGE_CIPHER_SPEC: u8 = 20;
    const HANDSHAKE: u8 = 22;
    let (mut begin, mut is_sealed) = (0, false);
    loop {
        let bytes = usize::from(u16::from_be_bytes([flight[begin + 3], flight[begin + 4]]));
        let (kind, end) = (flight[begin], begin + 5 + bytes);
        if at < end {
            return match at - begin {
                0..5 => Place::Record,
                _ if kind == CHANGE_CIPHER_SPEC => Place::Record,
                5..9 if kind == HANDSHAKE && !is_sealed => Place::Message,
                _ => Place::Sealed,
            };
        }
        is_sealed |= kind == CHANGE_CIPHER_SPEC;
        begin = end;
    }
}

/// Returns the positions to try: one of several, with a step that is coprime to all lengths, and
/// all headers.
fn places(flight: &[u8]) -> impl Iterator<Item = usize> {
    (0..flight.len()).filter(|&at| at.is_multiple_of(STEP) || place_of(flight, at) != Place::Sealed)
}

#[test]
fn a_flipped_bit_in_a_protected_message_fails_the_handshake() {
    for io in Io::BOTH {
        let served = Served::start(io);
        for version in VERSIONS {
            let config = served.config(version);
            let right = play(&served, &config, 0, Change::Nothing);
            assert!(right.is_answered, "{version:?}");
            for (flight, bytes) in right.flights.iter().enumerate() {
                for at in places(bytes) {
                    let bit = (at.wrapping_mul(2_654_435_761) >> 7) as u8 % 8;
                    let played = play(&served, &config, flight, Change::Flip(at, bit));
                    // A flight has the same form each time, except for some lengths.
                    let now = played.flights.get(flight).expect("it got so far");
                    let is_sealed = at < now.len() && place_of(now, at) == Place::Sealed;
                    let why =
                        format!("{version:?} over {io:?}, flight {flight}, bit {bit} of {at}");
                    assert!(!(is_sealed && played.is_answered), "{why} of {}", now.len());
                }
                served.serves();
            }
        }
        served.server.stop();
    }
}

#[test]
fn a_truncated_handshake_gets_no_response() {
    for io in Io::BOTH {
        let served = Served::start(io);
        for version in VERSIONS {
            let config = served.config(version);
            let right = play(&served, &config, 0, Change::Nothing);
            for (flight, bytes) in right.flights.iter().enumerate() {
                for at in places(bytes) {
                    let played = play(&served, &config, flight, Change::Cut(at));
                    assert!(!played.is_answered, "{version:?}, flight {flight}, {at} bytes");
                }
                served.serves();
            }
        }
        served.server.stop();
    }
}
