//! Certificates over QUIC: who gets which, whose clients are let in, and what browsers are told to
//! remember. As over TCP, where `tls_*.rs` tries every corner.
#![forbid(unsafe_code)]

use pinion_tests::client::Client;
use pinion_tests::client::wire::Peer;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::tls::Pair;

fn files() -> Folder {
    Folder::with("quic-certificates", [("site/index.html", "home")])
}

/// A server whose only listener is one of QUIC.
fn serve(files: &Folder, io: Io, flags: &[String]) -> Server {
    let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
    Start::site(&files.join("site")).in_way(way).flags(flags).start()
}

/// A pair for these hosts, and who vouches for it and for nobody else.
fn pair(files: &Folder, name: &str, hosts: &[&str]) -> (Pair, Pair) {
    let authority = Pair::new(files, &format!("{name}-authority"), &["authority.test"]);
    let pair = authority.vouch(files, name, hosts);
    (pair, authority)
}

fn peer(server: &Server, host: &'static str, trusted: &Pair) -> Peer {
    Peer::new(server.address(), Protocol::Http3, Some(&trusted.cert)).host(host)
}

/// Whether a new connection shows a certificate that this client trusts, and is served.
#[track_caller]
fn is_served(peer: &Peer) -> bool {
    // A server of TLS 1.3 hears last who the client is: the first answer tells.
    let answer = Client::try_open(peer).map(|mut client| client.try_exchange(&Request::get("/")));
    match answer {
        Ok(Ok(answer)) => {
            assert_eq!((answer.status, answer.text()), (200, "home"));
            true
        }
        Ok(Err(_)) | Err(_) => false,
    }
}

#[test]
fn a_client_gets_the_certificate_of_the_host_it_asks_for() {
    for io in Io::BOTH {
        let files = files();
        let (first, of_first) = pair(&files, "first", &["first.test"]);
        let (wild, of_wild) = pair(&files, "wild", &["*.b.test"]);
        let (exact, of_exact) = pair(&files, "exact", &["a.b.test"]);
        let server = serve(&files, io, &[first.flags(), wild.flags(), exact.flags()].concat());
        let authorities = [&of_first, &of_wild, &of_exact];
        for (host, right) in
            [("first.test", &of_first), ("a.b.test", &of_exact), ("x.b.test", &of_wild)]
        {
            for authority in authorities {
                let is_right = std::ptr::eq(authority, right);
                assert_eq!(is_served(&peer(&server, host, authority)), is_right, "{host}");
            }
        }
        server.stop();
    }
}

#[test]
fn a_listener_with_authorities_refuses_strangers() {
    for io in Io::BOTH {
        let files = files();
        let (own, of_own) = pair(&files, "a", &["localhost"]);
        let (someone, of_clients) = pair(&files, "someone", &["someone.test"]);
        let (stranger, _) = pair(&files, "stranger", &["someone.test"]);
        let ca = ["--client-ca".to_owned(), of_clients.cert.display().to_string()];
        let server = serve(&files, io, &[&own.flags()[..], &ca].concat());
        let showing =
            |client: &Pair| Peer::asking(server.address(), Protocol::Http3, &of_own.cert, client);
        assert!(is_served(&showing(&someone)), "over {io:?}");
        assert!(!is_served(&showing(&stranger)), "over {io:?}");
        assert!(!is_served(&peer(&server, "localhost", &of_own)), "over {io:?}");
        assert!(is_served(&showing(&someone)), "over {io:?}");
        server.stop();
    }
}

#[test]
fn changed_files_are_taken_up_and_connections_go_on() {
    for io in Io::BOTH {
        let files = files();
        let (served, of_old) = pair(&files, "served", &["localhost"]);
        let (new, of_new) = pair(&files, "new", &["localhost"]);
        let server = serve(&files, io, &served.flags());
        let mut before = Client::open(&peer(&server, "localhost", &of_old));
        assert!(!is_served(&peer(&server, "localhost", &of_new)), "over {io:?}");
        served.become_like(&new);
        server.wait_for_line(0, |line| line.starts_with("reloaded certificate "));
        assert!(is_served(&peer(&server, "localhost", &of_new)), "over {io:?}");
        assert!(!is_served(&peer(&server, "localhost", &of_old)), "over {io:?}");
        assert_eq!(before.exchange(&Request::get("/")).text(), "home");
        server.stop();
    }
}

#[test]
fn browsers_are_told_to_come_encrypted_alone() {
    for io in Io::BOTH {
        let files = files();
        for (value, told) in [("off", None), ("1d,subdomains", Some(DAY))] {
            let server = serve(&files, io, &["--hsts".to_owned(), value.to_owned()]);
            let mut client = server.client();
            for (request, status) in [(Request::get("/"), 200), (Request::get("/none"), 404)] {
                let answer = client.exchange(&request);
                assert_eq!(answer.status, status);
                assert_eq!(answer.field("Strict-Transport-Security"), told, "over {io:?}");
            }
            server.stop();
        }
    }
}

const DAY: &str = "max-age=86400; includeSubDomains";
