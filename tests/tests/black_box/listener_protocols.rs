//! `--protocols`: a listener supports exactly its own protocols, independent of other listeners of
//! the same server.

use pinion_tests::client::byte_stream::Peer;
use pinion_tests::client::{Client, Connection};
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, s_client};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

/// The first bytes of an HTTP/2 client (RFC 9113 §3.4): the preface, and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

struct Served {
    server: Server,
    authority: Pair,
    files: Folder,
}

/// The listeners of a server: one for both protocols over TCP, and one for each of them.
#[derive(Debug)]
struct Listeners {
    both: SocketAddr,
    http1: SocketAddr,
    http2: SocketAddr,
}

impl Served {
    fn start(io: Io) -> Served {
        let files = Folder::with("protocols", [("site/index.html", "home")]);
        let authority = Pair::new(&files, "authority", &["authority.test"]);
        authority.vouch(&files, "a", &["localhost"]);
        let listen = |kind: &str, protocols: &str| {
            format!("[[listen]]\n{kind} = \"127.0.0.1:0\"\nprotocols = {protocols}\n")
        };
        let mut text = "[[site]]\npath = \"site\"\n".to_owned();
        for kind in ["address", "tls"] {
            for protocols in ["\"h1,h2\"", "\"h1\"", "[\"h2\"]"] {
                text += &listen(kind, protocols);
            }
        }
        text += &listen("quic", "\"h3\"");
        text += "[[certificate]]\ncert = \"a.crt\"\nkey = \"a.key\"\n";
        files.write("pinion.toml", text);
        let config = files.join("pinion.toml");
        let server = Start::configured(&config).flags(&["--io", io.as_str()]).start();
        Served { server, authority, files }
    }

    /// Returns the listeners of a scheme, which are printed in the order of the file.
    #[track_caller]
    fn listeners(&self, scheme: &str) -> Listeners {
        let head = format!("listening {scheme}://");
        let found: Vec<SocketAddr> = self
            .server
            .lines()
            .iter()
            .filter_map(|line| line.strip_prefix(&head)?.strip_suffix('/'))
            .map(|address| address.parse().expect("an address"))
            .collect();
        let &[both, http1, http2] = found.as_slice() else { panic!("{found:?}") };
        Listeners { both, http1, http2 }
    }

    fn peer(&self, address: SocketAddr, protocol: Protocol) -> Peer {
        Peer::new(address, protocol, Some(&self.authority.cert))
    }

    #[track_caller]
    fn serves(&self, address: SocketAddr, protocol: Protocol) {
        let response = Client::open(&self.peer(address, protocol)).exchange(&Request::get("/"));
        assert_eq!((response.status, response.text()), (200, "home"), "{protocol:?} at {address}");
    }

    /// Asserts that the listener supports no protocol that the client offers (RFC 7301 §3.2).
    #[track_caller]
    fn refuses(&self, address: SocketAddr, protocol: Protocol) {
        let refused = Client::try_open(&self.peer(address, protocol)).expect_err("not spoken");
        assert!(refused.to_string().contains("NoApplicationProtocol"), "{protocol:?}: {refused}");
    }

    /// Returns the protocol that is negotiated with a TLS client with this offer; `None` if the
    /// negotiation fails.
    #[track_caller]
    fn agreed(&self, address: SocketAddr, offer: &str) -> Option<String> {
        let output = s_client(&self.files, address, "localhost", &["-alpn", offer]);
        let found = output.lines().find_map(|line| line.strip_prefix("ALPN protocol: "));
        found.map(str::to_owned)
    }
}

#[test]
fn unencrypted_listeners_detect_the_protocol_by_its_first_bytes() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let Listeners { both, http1, http2 } = served.listeners("http");
        served.serves(both, Protocol::Http1);
        served.serves(both, Protocol::Http2Clear);
        served.serves(http1, Protocol::Http1);
        served.serves(http2, Protocol::Http2Clear);
        // The response is in the only version that the listener supports (RFC 9110 §15.6.6).
        let mut connection = Connection::open(http1);
        connection.send(PREFACE);
        assert_eq!(connection.receive().status, 505, "over {io:?}");
        connection.expect_close();
        // The other way (RFC 9113 §3.4): the server sends its settings, and PROTOCOL_ERROR.
        let mut connection = Connection::open(http2);
        connection.send(Request::get("/").bytes());
        let response = connection.rest();
        assert_eq!(
            kinds(&response),
            [SETTINGS, GOAWAY],
            "over {io:?}: {}",
            response.escape_ascii()
        );
        assert_eq!(response[response.len() - 4..], [0, 0, 0, 1], "{}", response.escape_ascii());
        served.server.stop();
    }
}

const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// Returns the types of frames (RFC 9113 §4.1), except those that open windows.
#[track_caller]
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, ..] = *bytes {
        kinds.push(kind);
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        bytes = bytes.get(9 + length..).expect("whole frames");
    }
    kinds.retain(|kind| *kind != WINDOW_UPDATE);
    kinds
}

#[test]
fn a_tls_listener_negotiates_its_configured_protocols() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let Listeners { both, http1, http2 } = served.listeners("https");
        for (address, offer, agreed) in [
            (both, "h2,http/1.1", Some("h2")),
            (both, "http/1.1,h2", Some("h2")),
            (both, "http/1.1", Some("http/1.1")),
            (http1, "h2,http/1.1", Some("http/1.1")),
            (http1, "h2", None),
            (http2, "http/1.1,h2", Some("h2")),
            (http2, "http/1.1", None),
        ] {
            let found = served.agreed(address, offer);
            assert_eq!(found.as_deref(), agreed, "{offer} over {io:?}");
        }
        served.serves(http1, Protocol::Http1Tls);
        served.refuses(http1, Protocol::Http2);
        served.serves(http2, Protocol::Http2);
        served.refuses(http2, Protocol::Http1Tls);
        // The client could have offered it in the handshake.
        let mut connection = Client::open(&served.peer(http1, Protocol::Http1Tls));
        let Client::Http1(connection) = &mut connection else { panic!("HTTP/1") };
        connection.send(PREFACE);
        assert_eq!(connection.receive().status, 505, "over {io:?}");
        let quic = served.server.address_over(Protocol::Http3);
        served.serves(quic, Protocol::Http3);
        served.server.stop();
    }
}

/// A client without an offer uses the only protocol, or HTTP/1 if there are two.
#[test]
fn a_tls_client_without_alpn_gets_the_default_protocol() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let Listeners { both, http1, http2 } = served.listeners("https");
        for address in [both, http1] {
            let output = s_client(&served.files, address, "localhost", &[]);
            assert!(output.contains("HTTP/1.1 200"), "over {io:?}: {output}");
        }
        let output = s_client(&served.files, http2, "localhost", &[]);
        assert!(output.contains("No ALPN negotiated"), "over {io:?}: {output}");
        assert!(!output.contains("HTTP/1.1 "), "over {io:?}: {output}");
        served.server.stop();
    }
}

/// RFC 9110 §7.4: a request for `https` on an unencrypted connection is misdirected, unless it
/// comes from a trusted proxy that terminates TLS for the server.
#[test]
fn a_trusted_proxy_may_send_the_https_scheme_over_plain_http() {
    let site = Folder::with("proxy", [("index.html", "home")]);
    for io in Io::BOTH {
        for (networks, status) in [
            (&[][..], 421),
            (&["unix"][..], 421),
            (&["10.0.0.0/8"][..], 421),
            (&["10.0.0.0/8", "127.0.0.0/8"][..], 200),
            (&["127.0.0.1"][..], 200),
        ] {
            let flags = networks.iter().flat_map(|network| ["--trusted-proxy", network]);
            let flags: Vec<&str> = ["--io", io.as_str()].into_iter().chain(flags).collect();
            let server = Start::site(site.path()).flags(&flags).start();
            // Over HTTP/2 the scheme is the pseudo-field `:scheme` (RFC 9113 §8.3.1).
            for protocol in [Protocol::Http1, Protocol::Http2Clear] {
                let mut client = Client::open(&Peer::new(server.address(), protocol, None));
                let response = client.exchange(&Request::get("https://localhost/"));
                assert_eq!(response.status, status, "{networks:?}, {protocol:?} over {io:?}");
                let page = String::from_utf8_lossy(&response.body).into_owned();
                let says_why = page.contains("does not accept https requests over this connection");
                assert_eq!(says_why, status == 421, "{page}");
            }
            let warning = "pinion: warning: 127.0.0.1 sends requests with the scheme https over an \
                           unencrypted connection (421); if it is your proxy, give \
                           --trusted-proxy 127.0.0.1";
            let lines = server.last_words();
            let warned = lines.iter().filter(|line| *line == warning).count();
            assert_eq!(warned, usize::from(status == 421), "{lines:?}");
        }
    }
}

/// A Unix socket has no address: `unix` trusts all clients that may open it.
#[test]
fn a_proxy_on_a_unix_socket_may_be_trusted() {
    let files = Folder::with("proxy", [("site/index.html", "home")]);
    let socket = files.join("pinion.sock");
    let listen = format!("unix:{}", socket.display());
    for (network, status) in [("unix", "200"), ("127.0.0.0/8", "421")] {
        let flags = ["--listen", &listen, "--trusted-proxy", network];
        let server = Start::site(&files.join("site")).flags(&flags).start();
        let mut stream = UnixStream::connect(&socket).expect("a connection");
        let request =
            "GET https://localhost/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{network}: {response}");
        server.stop();
    }
}
