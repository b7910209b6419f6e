//! Scripts that send requests over TLS, to servers of OpenSSL with valid and invalid certificates.

use super::lua_fetch::{FETCH, Running, fetched};
use super::lua_fetch_faults::says;
use pinion_tests::lua_script_site::script;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, key_hash, openssl};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

/// Starts a server of OpenSSL that responds with a page about the connection; returns it with its
/// port.
pub(crate) fn s_server(pair: &Pair, more: &[&str]) -> (Running, u16) {
    // s_server cannot print the port that the kernel has chosen.
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port()
    };
    let mut server = openssl("s_server");
    server.args(["-www", "-accept", &format!("127.0.0.1:{port}"), "-cert"]).arg(&pair.cert);
    server.arg("-key").arg(&pair.key).args(more).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running::start(&mut server);
    let stdout = running.stdout();
    let mut lines = BufReader::new(stdout).lines();
    let is_ready = lines.any(|line| line.expect("text").starts_with("ACCEPT"));
    assert!(is_ready, "openssl s_server does not start");
    // Later output must be read.
    std::thread::spawn(move || lines.for_each(drop));
    (running, port)
}

#[test]
fn only_the_right_certificate_is_trusted() {
    let files = Folder::new("fetch-tls");
    let authority = Pair::new(&files, "authority", &["authority.test"]);
    let good = authority.vouch(&files, "good", &["good.localhost"]);
    let other = Pair::new(&files, "other", &["good.localhost"]);
    let expired = Pair::expired(&files, "expired");
    let (_good, good_port) = s_server(&good, &[]);
    let (_old, old_port) = s_server(&good, &["-tls1_2"]);
    let (_tls11, tls11_port) = s_server(&good, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    let (_other, other_port) = s_server(&other, &[]);
    let (_expired, expired_port) = s_server(&expired, &[]);
    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain_port = plain.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in plain.incoming().flatten() {
            use std::io::Write as _;
            let _gone = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let url = |host: &str, port: u16| format!("https://{host}:{port}/");
    let to_https = says(format!(
        "HTTP/1.1 301 Moved Permanently\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
        url("good.localhost", good_port)
    ));
    let (_folder, path) = script(FETCH);
    let path_of = |path: &Path| path.display().to_string();
    let ca = path_of(&authority.cert);
    for io in ["epoll", "auto"] {
        let flags = ["--io", io, "--workers", "1", "--fetch-private", "--fetch-ca", &ca];
        let server = Start::site(&path).flags(&flags).start();
        let fetch = |url: &str| fetched(&server, &[("url", url), ("timeout", "10")]);
        for port in [good_port, old_port] {
            let got = fetch(&url("good.localhost", port));
            assert!(got.starts_with("200 ") && got.contains("s_server"), "{got}");
        }
        // A redirect from plain HTTP to HTTPS is followed.
        let got = fetch(&format!("http://{to_https}/"));
        assert!(got.starts_with("200 ") && got.contains("s_server"), "{got}");
        for (url, expected) in [
            (url("wrong.localhost", good_port), "not for wrong.localhost, but for good.localhost"),
            (url("127.0.0.1", good_port), "not for 127.0.0.1"),
            (url("good.localhost", other_port), "self-signed"),
            (url("old.localhost", expired_port), "the certificate of the server"),
            (url("good.localhost", tls11_port), "the TLS handshake has failed"),
            (url("good.localhost", plain_port), "the TLS handshake has failed"),
        ] {
            let got = fetch(&url);
            assert!(got.starts_with("nil: ") && got.contains(expected), "{url}: {got}");
        }
        server.stop();
    }
    // The roots of the system trust none of them.
    let server = Start::site(&path).flags(&["--workers", "1", "--fetch-private"]).start();
    let got = fetched(&server, &[("url", &url("good.localhost", good_port))]);
    assert!(got.starts_with("nil: ") && !got.contains("s_server"), "{got}");
    server.stop();
}

#[test]
fn a_pin_trusts_one_certificate_for_any_host_name() {
    let files = Folder::new("fetch-pin");
    let (pair, other) =
        (Pair::new(&files, "own", &["own.test"]), Pair::new(&files, "other", &["own.test"]));
    let (_own, own_port) = s_server(&pair, &[]);
    let (_other, other_port) = s_server(&other, &[]);
    let fingerprint =
        openssl("x509").args(["-noout", "-fingerprint", "-sha256", "-in"]).arg(&pair.cert).output();
    let fingerprint = String::from_utf8(fingerprint.expect("it runs").stdout).expect("text");
    let fingerprint = fingerprint.trim().rsplit('=').next().expect("a hash").to_owned();
    let (_folder, path) = script(FETCH);
    for pin in [fingerprint, format!("sha256//{}", key_hash(&pair.cert))] {
        let flags = ["--workers", "1", "--fetch-private", "--fetch-pin", &pin];
        let server = Start::site(&path).flags(&flags).start();
        let fetch = |port: u16| fetched(&server, &[("url", &format!("https://127.0.0.1:{port}/"))]);
        let got = fetch(own_port);
        assert!(got.starts_with("200 ") && got.contains("s_server"), "{got}");
        let refused = fetch(other_port);
        assert!(refused.starts_with("nil: ") && refused.contains("pin"), "{refused}");
        server.stop();
    }
}
