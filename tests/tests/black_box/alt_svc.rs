//! What clients over TLS are told about HTTP/3 (RFC 7838): where it is, unless the operator knows
//! better.

use pinion_tests::client::Client;
use pinion_tests::client::wire::Peer;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::tls::Pair;
use std::net::SocketAddr;

struct Served {
    server: Server,
    authority: Pair,
    _files: Folder,
}

impl Served {
    /// With a listener in the clear, one over TLS and one over QUIC.
    fn start(io: Io, flags: &[&str]) -> Served {
        let files = Folder::with("alt-svc", [("site/index.html", "home")]);
        let (authority, pair) = pairs(&files);
        let start = Start::site(&files.join("site")).flags(&["--io", io.as_str()]).tls(&pair);
        let server = start.flags(&["--quic", "127.0.0.1:0"]).flags(flags).start();
        Served { server, authority, _files: files }
    }

    /// What the server has by itself: where its listener over QUIC is.
    fn found(&self) -> String {
        format!("h3=\":{}\"; ma=86400", self.server.address_over(Protocol::Http3).port())
    }

    /// What every kind of answer over a protocol tells.
    #[track_caller]
    fn tells(&self, protocol: Protocol, value: Option<&str>) {
        let address = self.server.address_over(protocol);
        for (answer, status) in answers(address, protocol, &self.authority) {
            assert_eq!(answer.status, status, "{protocol:?}: {answer}");
            assert_eq!(answer.field("Alt-Svc"), value, "{protocol:?}: {answer}");
        }
    }
}

/// Whom clients trust, and what the server has from there: `a`.
fn pairs(files: &Folder) -> (Pair, Pair) {
    let authority = Pair::new(files, "authority", &["authority.test"]);
    let pair = authority.vouch(files, "a", &["localhost"]);
    (authority, pair)
}

/// Of each kind one, with the status that it should have.
#[track_caller]
fn answers(address: SocketAddr, protocol: Protocol, authority: &Pair) -> Vec<(Response, u16)> {
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
fn over_tls_every_answer_says_where_http3_is() {
    for io in Io::BOTH {
        let served = Served::start(io, &[]);
        let found = served.found();
        OVER_TLS.into_iter().for_each(|protocol| served.tells(protocol, Some(&found)));
        // Whoever is there knows it, and in the clear anybody could have written it.
        NOT_OVER_TLS.into_iter().for_each(|protocol| served.tells(protocol, None));
        served.server.stop();
    }
}

/// The port that clients see may be another one, or one of another machine.
#[test]
fn the_operator_knows_better() {
    const ELSEWHERE: &str = "h3=\"quic.example.org:443\"; ma=60";
    for io in Io::BOTH {
        for (value, told) in [(ELSEWHERE, Some(ELSEWHERE)), ("clear", Some("clear")), ("off", None)]
        {
            let served = Served::start(io, &["--alt-svc", value]);
            OVER_TLS.into_iter().for_each(|protocol| served.tells(protocol, told));
            served.tells(Protocol::Http1, None);
            served.server.stop();
        }
    }
}

/// Where HTTP/3 ends somewhere else, the server itself speaks none.
#[test]
fn what_the_operator_says_is_sent_by_listeners_without_h3() {
    const ELSEWHERE: &str = "h3=\":443\"";
    let files = Folder::with("alt-svc-elsewhere", [("index.html", "home")]);
    let (authority, pair) = pairs(&files);
    for value in [ELSEWHERE, "clear"] {
        let flags = ["--protocols", "h1,h2", "--alt-svc", value];
        let server = Start::site(files.path()).tls(&pair).flags(&flags).start();
        for protocol in OVER_TLS {
            for (answer, _) in answers(server.address_over(protocol), protocol, &authority) {
                assert_eq!(answer.field("Alt-Svc"), Some(value), "{protocol:?}: {answer}");
            }
        }
        assert_eq!(server.get("/").field("Alt-Svc"), None);
        server.stop();
    }
}

#[test]
fn without_a_listener_over_quic_nothing_is_said() {
    let files = Folder::with("alt-svc-none", [("index.html", "home")]);
    let (authority, pair) = pairs(&files);
    let server = Start::site(files.path()).tls(&pair).start();
    for protocol in OVER_TLS {
        for (answer, _) in answers(server.address_over(protocol), protocol, &authority) {
            assert_eq!(answer.field("Alt-Svc"), None, "{protocol:?}: {answer}");
        }
    }
    server.stop();
}

/// Two listeners over TLS of which one is not to speak of HTTP/3, and two over QUIC.
#[test]
fn a_listener_without_h3_is_silent_about_it() {
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
    for (address, told) in over_tls.into_iter().zip([None, Some(both.as_str())]) {
        for protocol in OVER_TLS {
            for (answer, _) in answers(address, protocol, &authority) {
                assert_eq!(answer.field("Alt-Svc"), told, "{protocol:?}: {answer}");
            }
        }
    }
    server.stop();
}
