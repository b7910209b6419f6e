//! Responses that come before the client has sent all of its request: whatever it does first, real
//! clients see them (RFC 9112 §9.6, RFC 9113 §8.1).

use pinion_tests::PATIENCE;
use pinion_tests::browser::Browser;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::peers::{output_within, program, python_program};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use std::process::Command;

/// What these say at their tops.
const PYTHON_CLIENTS: &str = include_str!("../../src/early_response.py");
const NODE_CLIENTS: &str = include_str!("../../src/early_response.mjs");

/// A server of a static site, whose pages take no content.
fn start(site: &Folder, io: Io) -> Server {
    let way = Way { protocol: Protocol::Http2, io, form: Form::Folder };
    let server = Start::site(site.path()).in_way(way).flags(&["--listen", "127.0.0.1:0"]);
    server.start()
}

/// Runs clients that print how many responses they saw.
#[track_caller]
fn see_all(server: &Server, mut client: Command, seen: &str) {
    let plain = format!("http://{}/index.html", server.address_of("http"));
    let encrypted = format!("https://localhost:{}/index.html", server.address().port());
    let certificate = server.certificate().expect("a certificate");
    client.args([plain, encrypted]).arg(certificate).env("no_proxy", "*");
    let output = output_within(&mut client, 4 * PATIENCE);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), seen);
}

#[test]
fn python_sees_a_response_that_comes_early() {
    let site = Folder::with("early-python", [("index.html", "home")]);
    for io in Io::BOTH {
        let server = start(&site, io);
        let mut python = python_program("python");
        python.args(["-c", PYTHON_CLIENTS]);
        see_all(&server, python, "11");
        server.stop();
    }
}

#[test]
fn node_sees_a_response_that_comes_early() {
    let site = Folder::with("early-node", [("index.html", "home")]);
    let clients = Folder::with("early-node-clients", [("clients.mjs", NODE_CLIENTS)]);
    for io in Io::BOTH {
        let server = start(&site, io);
        let mut node = program("node", "nodejs");
        node.arg(clients.join("clients.mjs"));
        see_all(&server, node, "4");
        server.stop();
    }
}

#[cfg(feature = "long")]
const LONG: &[(&str, &str, &str, &[&str])] = &[
    ("EarlyResponse.java", include_str!("../../src/EarlyResponse.java"), "java", &[]),
    ("early_response.go", include_str!("../../src/early_response.go"), "go", &["run"]),
];

/// Their programs are compiled first, and Java is a large package: feature `long`.
#[cfg(feature = "long")]
#[test]
fn java_and_go_see_a_response_that_comes_early() {
    let site = Folder::with("early-long", [("index.html", "home")]);
    for (name, text, runner, words) in LONG {
        let clients = Folder::with("early-long-clients", [(*name, *text)]);
        for io in Io::BOTH {
            let server = start(&site, io);
            let package = if *runner == "java" { "default-jdk-headless" } else { "golang-go" };
            let mut client = program(runner, package);
            client.args(*words).arg(clients.join(name));
            see_all(&server, client, "9");
            server.stop();
        }
    }
}

/// A page sends more than a window has, to where no content is taken.
#[test]
fn chromium_sees_a_response_that_comes_early() {
    const SEND: &str = "Promise.all([0, 1, 2].map(() =>
        fetch('/index.html', { method: 'POST', body: new Uint8Array(900 * 1024) })
            .then(response => response.status + ' ' + response.headers.get('allow'))
            .catch(error => String(error))
    ))";
    let icon = ("favicon.ico", "<svg xmlns='http://www.w3.org/2000/svg'/>");
    let site = Folder::with("early-chromium", [("index.html", "home"), icon]);
    for protocol in [Protocol::Http1Tls, Protocol::Http2, Protocol::Http3] {
        let way = Way { protocol, io: Io::Epoll, form: Form::Folder };
        let server = Start::site(site.path()).in_way(way).start();
        let mut browser = Browser::trusting(&server);
        browser.visit(&server.url("/"));
        let seen = browser.evaluate(SEND);
        let expected = vec!["405 GET, HEAD, OPTIONS"; 3];
        assert_eq!(seen, serde_json::json!(expected), "{protocol:?}");
        server.stop();
    }
}
