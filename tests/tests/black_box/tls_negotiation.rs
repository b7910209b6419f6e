//! The negotiation between openssl's client and the server: resumed sessions, protocols,
//! certificates of clients.

use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, curl, s_client};

fn serve(files: &Folder, pair: &Pair, flags: &[&str]) -> Server {
    files.write("site/index.html", "home");
    Start::site(&files.join("site")).tls(pair).flags(flags).start()
}

#[test]
fn a_session_is_resumed_at_every_worker() {
    for io in Io::BOTH {
        let files = Folder::new("tickets");
        let pair = Pair::new(&files, "a", &["a.test"]);
        let server = serve(&files, &pair, &["--workers", "4", "--io", io.as_str()]);
        let address = server.address_of("https");
        let session = files.join("session").display().to_string();
        for version in ["-tls1_2", "-tls1_3"] {
            let first = s_client(&files, address, "a.test", &[version, "-sess_out", &session]);
            assert!(first.contains("New, TLSv1."), "{first}");
            for _ in 0..16 {
                let flags = [version, "-sess_in", &session];
                let again = s_client(&files, address, "a.test", &flags);
                assert!(again.contains("Reused, TLSv1."), "{version}: {again}");
                assert!(again.contains("HTTP/1.1 200"), "{version}: {again}");
            }
        }
        server.stop();
    }
}

/// The default offer of openssl begins with AES-256; that of a client without instructions for AES
/// does not.
#[test]
fn the_cipher_suite_follows_the_order_of_the_client() {
    const SHORT: &str = "TLS_AES_128_GCM_SHA256";
    const LONG: &str = "TLS_AES_256_GCM_SHA384";
    const CHACHA: &str = "TLS_CHACHA20_POLY1305_SHA256";
    let files = Folder::new("suites");
    let pair = Pair::new(&files, "a", &["a.test"]);
    let server = serve(&files, &pair, &[]);
    let address = server.address_of("https");
    let session = files.join("session").display().to_string();
    for (offered, suite) in [
        (vec![LONG, CHACHA, SHORT], SHORT),
        (vec![LONG, SHORT], SHORT),
        (vec![SHORT, LONG], SHORT),
        (vec![CHACHA, SHORT, LONG], CHACHA),
        (vec![LONG, CHACHA], LONG),
        (vec![LONG], LONG),
    ] {
        let offered = offered.join(":");
        let ask = |flags: [&str; 2]| {
            let flags = ["-tls1_3", "-ciphersuites", &offered, flags[0], flags[1]];
            s_client(&files, address, "a.test", &flags)
        };
        let first = ask(["-sess_out", &session]);
        assert!(first.contains(&format!("New, TLSv1.3, Cipher is {suite}")), "{offered}: {first}");
        let again = ask(["-sess_in", &session]);
        let resumed = format!("Reused, TLSv1.3, Cipher is {suite}");
        assert!(again.contains(&resumed), "{offered}: {again}");
    }
    server.stop();
}

#[test]
fn a_session_of_another_server_is_not_resumed() {
    let files = Folder::new("strangers");
    let pair = Pair::new(&files, "a", &["a.test"]);
    let session = files.join("session").display().to_string();
    let server = serve(&files, &pair, &[]);
    s_client(&files, server.address_of("https"), "a.test", &["-sess_out", &session]);
    server.stop();
    let server = serve(&files, &pair, &[]);
    let again = s_client(&files, server.address_of("https"), "a.test", &["-sess_in", &session]);
    assert!(again.contains("New, TLSv1.3") && again.contains("HTTP/1.1 200"), "{again}");
    server.stop();
}

#[test]
fn protocols_are_negotiated_with_alpn() {
    let files = Folder::new("alpn");
    let pair = Pair::new(&files, "a", &["a.test"]);
    let server = serve(&files, &pair, &["--protocols", "h1"]);
    let address = server.address_of("https");
    let connect = |flags: &[&str]| s_client(&files, address, "a.test", flags);
    let both = connect(&["-alpn", "h2,http/1.1"]);
    assert!(both.contains("ALPN protocol: http/1.1"), "{both}");
    let default = serve(&files, &pair, &[]);
    let flags = ["-alpn", "h2,http/1.1"];
    let newer = s_client(&files, default.address_of("https"), "a.test", &flags);
    assert!(newer.contains("ALPN protocol: h2"), "{newer}");
    default.stop();
    let none = connect(&[]);
    assert!(none.contains("No ALPN negotiated") && none.contains("HTTP/1.1 200"), "{none}");
    // RFC 7301 §3.2: without a common protocol the handshake fails.
    let other = connect(&["-alpn", "h3"]);
    assert!(other.contains("no application protocol"), "{other}");
    server.stop();
}

#[test]
fn a_listener_with_client_authorities_refuses_unknown_clients() {
    let files = Folder::new("clients");
    let pair = Pair::new(&files, "a", &["a.test"]);
    let authority = Pair::new(&files, "authority", &["authority.test"]);
    let someone = authority.vouch(&files, "someone", &[]);
    let stranger = Pair::new(&files, "stranger", &["someone"]);
    let ca = authority.cert.display().to_string();
    let server = serve(&files, &pair, &["--client-ca", &ca]);
    let got = |own: Option<&Pair>| {
        let files = own.map(|own| [&own.cert, &own.key].map(|path| path.display().to_string()));
        let flags = files.iter().flat_map(|[cert, key]| ["--cert", cert, "--key", key]);
        let flags: Vec<&str> = flags.collect();
        curl(&server, "a.test", "/", &pair.cert, &flags)
    };
    assert!(got(Some(&someone)).is_ok_and(|got| got.ends_with("home")));
    assert!(got(Some(&stranger)).is_err() && got(None).is_err());
    server.stop();
}

/// Each connection needs the certificate of the client, which may have expired since the last one.
#[test]
fn a_listener_with_client_authorities_issues_no_sessions() {
    let files = Folder::new("no-sessions");
    let pair = Pair::new(&files, "a", &["a.test"]);
    let authority = Pair::new(&files, "authority", &["authority.test"]);
    let someone = authority.vouch(&files, "someone", &[]);
    let ca = authority.cert.display().to_string();
    let server = serve(&files, &pair, &["--client-ca", &ca]);
    let [cert, key] = [&someone.cert, &someone.key].map(|path| path.display().to_string());
    for version in ["-tls1_2", "-tls1_3"] {
        let session = files.join(&version[1..]).display().to_string();
        let ask = |flags: &[&str]| {
            let own = [version, "-cert", &cert, "-key", &key];
            s_client(&files, server.address_of("https"), "a.test", &[&own[..], flags].concat())
        };
        let first = ask(&["-sess_out", &session]);
        assert!(first.contains("HTTP/1.1 200"), "{first}");
        assert!(!first.contains("session ticket"), "{first}");
        // Without a ticket openssl writes no session of TLS 1.3.
        if std::path::Path::new(&session).exists() {
            let again = ask(&["-sess_in", &session]);
            assert!(again.contains("New, TLSv1.") && again.contains("HTTP/1.1 200"), "{again}");
        }
    }
    server.stop();
}

/// Keys of tickets are independent of certificates.
#[test]
fn a_session_is_resumed_after_a_certificate_renewal() {
    let files = Folder::new("renewed");
    let pair = Pair::new(&files, "a", &["a.test"]);
    let next = Pair::new(&files, "next", &["a.test"]);
    let server = serve(&files, &pair, &[]);
    let address = server.address_of("https");
    let sessions = ["-tls1_2", "-tls1_3"].map(|version| {
        let session = files.join(&version[1..]).display().to_string();
        s_client(&files, address, "a.test", &[version, "-sess_out", &session]);
        (version, session)
    });
    pair.become_like(&next);
    server.wait_for_line(0, |line| line.starts_with("reloaded certificate "));
    assert!(curl(&server, "a.test", "/", &next.cert, &[]).is_ok());
    for (version, session) in sessions {
        let again = s_client(&files, address, "a.test", &[version, "-sess_in", &session]);
        assert!(again.contains("Reused, TLSv1.") && again.contains("HTTP/1.1 200"), "{again}");
    }
    server.stop();
}

#[test]
fn a_session_without_a_client_certificate_is_not_resumed_where_needed() {
    let files = Folder::with("realms", [("site/index.html", "home")]);
    let pair = Pair::new(&files, "a", &["a.test"]);
    let authority = Pair::new(&files, "authority", &["authority.test"]);
    files.write(
        "pinion.toml",
        "[[site]]\npath = \"site\"\n[[certificate]]\ncert = \"a.crt\"\nkey = \"a.key\"\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n\
         [[listen]]\ntls = \"127.0.0.1:0\"\n\
         [[listen]]\ntls = \"127.0.0.1:0\"\nclient-ca = \"authority.crt\"\n",
    );
    let (server, _) = (Start::site(&files.join("pinion.toml")).start(), (pair, authority));
    let open = server.address_of("https");
    let closed = server.lines().iter().rev().find_map(|line| {
        let address = line.strip_prefix("listening https://")?.trim_end_matches('/');
        address.parse().ok()
    });
    let closed = closed.expect("a second listener");
    assert_ne!(open, closed);
    let session = files.join("session").display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let first = s_client(&files, open, "a.test", &[version, "-sess_out", &session]);
        assert!(first.contains("HTTP/1.1 200"), "{first}");
        let again = s_client(&files, open, "a.test", &[version, "-sess_in", &session]);
        assert!(again.contains("Reused, TLSv1."), "{again}");
        let output = s_client(&files, closed, "a.test", &[version, "-sess_in", &session]);
        assert!(!output.contains("HTTP/1.1 200") && !output.contains("Reused, "), "{output}");
    }
    server.stop();
}
