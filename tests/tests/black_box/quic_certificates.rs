//! Certificates over QUIC: the certificate of a host, certificates of clients, and
//! Strict-Transport-Security. All this works as over TCP, where `tls_*.rs` tests every detail.

use pinion_tests::client::Client;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;

fn files() -> Folder {
    Folder::with("quic-certificates", [("site/index.html", "home")])
}

/// Starts a server whose only listener is one of QUIC.
fn serve(files: &Folder, io: Io, flags: &[String]) -> Server {
    let way = Way { protocol: Protocol::Http3, io, form: Form::Folder };
    Start::site(&files.join("site")).in_way(way).flags(flags).start()
}

/// Returns a pair for these hosts, and an authority of its own for it.
fn pair(files: &Folder, name: &str, hosts: &[&str]) -> (Pair, Pair) {
    let authority = Pair::new(files, &format!("{name}-authority"), &["authority.test"]);
    let pair = authority.vouch(files, name, hosts);
    (pair, authority)
}

fn peer(server: &Server, host: &'static str, trusted: &Pair) -> Peer {
    Peer::new(server.address(), Protocol::Http3, Some(&trusted.cert)).host(host)
}

/// Returns whether a new connection shows a certificate that this client trusts, and is served.
#[track_caller]
fn is_served(peer: &Peer) -> bool {
    // A server of TLS 1.3 gets the client's certificate last, so the first response decides.
    let response = Client::try_open(peer).map(|mut client| client.try_exchange(&Request::get("/")));
    match response {
        Ok(Ok(response)) => {
            assert_eq!((response.status, response.text()), (200, "home"));
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

/// RFC 8446 §4.4.2: a client that trusts only the root has to get the intermediate certificates.
#[test]
fn a_chain_is_served_as_far_as_the_file_has_it() {
    for io in Io::BOTH {
        let files = files();
        let root = Pair::new(&files, "root", &["root.test"]);
        let intermediate = root.intermediate(&files, "intermediate");
        let leaf = intermediate.vouch(&files, "leaf", &["a.test"]);
        for (pair, is_whole) in [(leaf.chained(&intermediate), true), (leaf, false)] {
            let server = serve(&files, io, &pair.flags());
            assert_eq!(is_served(&peer(&server, "a.test", &root)), is_whole, "over {io:?}");
            server.stop();
        }
    }
}

#[test]
fn a_listener_with_client_authorities_refuses_unknown_clients() {
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
fn changed_certificates_are_loaded_and_connections_continue() {
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

/// No other listener needs the certificate.
#[test]
fn an_unusable_certificate_is_one_line_that_names_the_file() {
    let files = files();
    let [own, other] = ["a", "b"].map(|name| Pair::new(&files, name, &["localhost"]));
    files.write("garbage.crt", "no certificate");
    let garbage = Pair { cert: files.join("garbage.crt"), ..own.clone() };
    let missing = Pair { cert: files.join("missing.crt"), ..own.clone() };
    let mixed = Pair { key: other.key.clone(), ..own.clone() };
    let cert = own.cert.display();
    for (pair, named, why) in [
        (&garbage, &garbage.cert, "has no certificate (-----BEGIN CERTIFICATE-----)".to_owned()),
        (&missing, &missing.cert, "does not exist; give the file of the certificate".to_owned()),
        (
            &mixed,
            &other.key,
            format!("the private key does not belong to the certificate in {cert}; `openssl "),
        ),
    ] {
        let site = files.join("site").display().to_string();
        let listener = ["serve", &site, "--quic", "127.0.0.1:0"].map(str::to_owned);
        let Ended { code, stdout, stderr } = run(&[&listener[..], &pair.flags()].concat());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let line = format!("pinion: cannot start: {}: {why}", named.display());
        assert!(stderr.starts_with(&line), "{stderr}");
    }
}

/// The workers of a server share its port (SO_REUSEPORT); two servers do not.
#[test]
fn a_second_server_does_not_get_a_port_in_use() {
    for io in Io::BOTH {
        let files = files();
        let server = serve(&files, io, &["--workers".to_owned(), "3".to_owned()]);
        let address = server.address().to_string();
        let site = files.join("site").display().to_string();
        let flags = ["serve", &site, "--quic", &address, "--workers", "3"].map(str::to_owned);
        let own = Pair::new(&files, "own", &["localhost"]).flags();
        let Ended { code, stdout, stderr } = run(&[&flags[..], &own].concat());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        let said = format!(
            "pinion: cannot start: cannot listen on {address}: another program listens there \
             already, `ss -lunp 'sport = :{}'` shows which one; stop it or choose another address \
             with --quic\n",
            server.address().port()
        );
        assert_eq!(stderr, said);
        // Sixteen clients, each from a port of its own: the first server serves all of them.
        for _ in 0..16 {
            assert_eq!(server.get("/").text(), "home", "over {io:?}");
        }
        server.stop();
    }
}

#[test]
fn the_hsts_flag_sets_the_field_over_http3() {
    for io in Io::BOTH {
        let files = files();
        for (value, expected) in [("off", None), ("1d,subdomains", Some(DAY))] {
            let server = serve(&files, io, &["--hsts".to_owned(), value.to_owned()]);
            let mut client = server.client();
            for (request, status) in [(Request::get("/"), 200), (Request::get("/none"), 404)] {
                let response = client.exchange(&request);
                assert_eq!(response.status, status);
                assert_eq!(response.field("Strict-Transport-Security"), expected, "over {io:?}");
            }
            server.stop();
        }
    }
}

const DAY: &str = "max-age=86400; includeSubDomains";
