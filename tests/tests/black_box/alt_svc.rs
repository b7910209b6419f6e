//! The announcement of HTTP/3 to clients over TLS (RFC 7838): the address of the server's own
//! listener, unless the operator sets another value.

use pinion_tests::client::Client;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use std::net::SocketAddr;

struct Served {
    server: Server,
    authority: Pair,
    _files: Folder,
}

impl Served {
    /// Starts a server with a plain listener, one over TLS and one over QUIC.
    fn start(io: Io, flags: &[&str]) -> Served {
        let files = Folder::with("alt-svc", [("site/index.html", "home")]);
        let (authority, pair) = pairs(&files);
        let start = Start::site(&files.join("site")).flags(&["--io", io.as_str()]).tls(&pair);
        let server = start.flags(&["--quic", "127.0.0.1:0"]).flags(flags).start();
        Served { server, authority, _files: files }
    }

    /// Returns the default value of the server: the address of its listener over QUIC.
    fn found(&self) -> String {
        format!("h3=\":{}\"; ma=86400", self.server.address_over(Protocol::Http3).port())
    }

    /// Checks the field in every kind of response over a protocol.
    #[track_caller]
    fn expect_alt_svc(&self, protocol: Protocol, value: Option<&str>) {
        let address = self.server.address_over(protocol);
        for (response, status) in responses(address, protocol, &self.authority) {
            assert_eq!(response.status, status, "{protocol:?}: {response}");
            assert_eq!(response.field("Alt-Svc"), value, "{protocol:?}: {response}");
        }
    }
}

/// Returns an authority that clients trust, and a certificate `a` from it.
fn pairs(files: &Folder) -> (Pair, Pair) {
    let authority = Pair::new(files, "authority", &["authority.test"]);
    let pair = authority.vouch(files, "a", &["localhost"]);
    (authority, pair)
}

/// Returns one response of each kind, with the status that it should have.
#[track_caller]
fn responses(address: SocketAddr, protocol: Protocol, authority: &Pair) -> Vec<(Response, u16)> {
    let mut client = Client::open(&Peer::new(address, protocol, Some(&authority.cert)));
    let home = client.exchange(&Request::get("/"));
    let tag = home.field("ETag").expect("a tag").to_owned();
    let requests = [
        (200, Request::head("/")),
        (304, Request::get("/").field("If-None-Match", tag)),
        (404, Request::get("/none")),
        (405, Request::new("DELETE", "/")),
    ];
    let others = requests.map(|(status, request)| (client.exchange(&request), status));
    [(home, 200)].into_iter().chain(others).collect()
}

const OVER_TLS: [Protocol; 2] = [Protocol::Http1Tls, Protocol::Http2];
const NOT_OVER_TLS: [Protocol; 3] = [Protocol::Http1, Protocol::Http2Clear, Protocol::Http3];

#[test]
fn every_response_over_tls_announces_http3() {
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let found = served.found();
        OVER_TLS.into_iter().for_each(|protocol| served.expect_alt_svc(protocol, Some(&found)));
        // Clients over QUIC know the address already, and an unencrypted field could come from an
        // attacker.
        NOT_OVER_TLS.into_iter().for_each(|protocol| served.expect_alt_svc(protocol, None));
        served.server.stop();
    }
}

/// Clients may see another port, or that of another machine.
#[test]
fn the_alt_svc_flag_replaces_the_default_value() {
    const ELSEWHERE: &str = "h3=\"quic.example.org:443\"; ma=60";
    for io in Io::BOTH {
        for (value, expected) in
            [(ELSEWHERE, Some(ELSEWHERE)), ("clear", Some("clear")), ("off", None)]
        {
            let served = Served::start(io, &["--alt-svc", value]);
            OVER_TLS.into_iter().for_each(|protocol| served.expect_alt_svc(protocol, expected));
            served.expect_alt_svc(Protocol::Http1, None);
            served.server.stop();
        }
    }
}

/// HTTP/3 is provided by another server, and this one has no listener for it.
#[test]
fn listeners_without_h3_send_the_value_of_the_alt_svc_flag() {
    const ELSEWHERE: &str = "h3=\":443\"";
    let files = Folder::with("alt-svc-elsewhere", [("index.html", "home")]);
    let (authority, pair) = pairs(&files);
    for value in [ELSEWHERE, "clear"] {
        let flags = ["--protocols", "h1,h2", "--alt-svc", value];
        let server = Start::site(files.path()).tls(&pair).flags(&flags).start();
        for protocol in OVER_TLS {
            for (response, _) in responses(server.address_over(protocol), protocol, &authority) {
                assert_eq!(response.field("Alt-Svc"), Some(value), "{protocol:?}: {response}");
            }
        }
        assert_eq!(server.get("/").field("Alt-Svc"), None);
        server.stop();
    }
}

#[test]
fn without_a_quic_listener_there_is_no_alt_svc() {
    let files = Folder::with("alt-svc-none", [("index.html", "home")]);
    let (authority, pair) = pairs(&files);
    let server = Start::site(files.path()).tls(&pair).start();
    for protocol in OVER_TLS {
        for (response, _) in responses(server.address_over(protocol), protocol, &authority) {
            assert_eq!(response.field("Alt-Svc"), None, "{protocol:?}: {response}");
        }
    }
    server.stop();
}

/// Two listeners over TLS, of which one must not announce HTTP/3, and two over QUIC.
#[test]
fn a_listener_without_h3_does_not_announce_http3() {
    let files = Folder::with("alt-svc-two", [("site/index.html", "home")]);
    let (authority, _) = pairs(&files);
    let listen = "[[listen]]\ntls = \"127.0.0.1:0\"\nprotocols = [\"h1\", \"h2\"]\n\
                  [[listen]]\ntls = \"127.0.0.1:0\"\nprotocols = \"h1,h2,h3\"\n\
                  [[listen]]\nquic = \"127.0.0.1:0\"\n[[listen]]\nquic = \"127.0.0.1:0\"\n";
    let certificate = "[[certificate]]\ncert = \"a.crt\"\nkey = \"a.key\"\n";
    files.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{listen}{certificate}"));
    let server = Start::site(&files.join("pinion.toml")).start();
    let (mut over_tls, mut over_quic) = (Vec::new(), Vec::new());
    for line in server.lines() {
        let Some(place) = line.strip_prefix("listening https://") else { continue };
        let (address, is_quic) = place.split_once('/').expect("a URL");
        let address: SocketAddr = address.parse().expect("an address");
        if is_quic.is_empty() { over_tls.push(address) } else { over_quic.push(address.port()) }
    }
    over_quic.sort_unstable();
    let services = over_quic.iter().map(|port| format!("h3=\":{port}\"; ma=86400"));
    let both = services.collect::<Vec<_>>().join(", ");
    assert_eq!((over_tls.len(), over_quic.len()), (2, 2));
    for (address, expected) in over_tls.into_iter().zip([None, Some(both.as_str())]) {
        for protocol in OVER_TLS {
            for (response, _) in responses(address, protocol, &authority) {
                assert_eq!(response.field("Alt-Svc"), expected, "{protocol:?}: {response}");
            }
        }
    }
    server.stop();
}
