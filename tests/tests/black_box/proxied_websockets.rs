//! WebSockets that another server responds to, with clients that people have: over every version of
//! HTTP the application gets the same handshake, and the client the same messages.

use crate::websocket_tunnels::Application;
use pinion_tests::PATIENCE;
use pinion_tests::browser::Browser;
use pinion_tests::external_programs::{output_within, program, python_program};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use serde_json::Value;
use std::process::Command;

/// The heads of these files describe them.
const H2_CLIENT: &str = include_str!("../../src/websocket_h2.mjs");
const H3_CLIENT: &str = include_str!("../../src/websocket_h3.py");

/// Opens a WebSocket and sends a message; resolves to all received messages, and the reason of the
/// close.
const CONVERSATION: &str = "new Promise((done) => {
    const url = location.origin.replace(/^http/, 'ws') + '/chat';
    const socket = new WebSocket(url, ['one', 'two']);
    const came = [];
    socket.onmessage = (message) => {
        came.push(message.data);
        if (came.length === 1) socket.send('é'.repeat(1000));
        else socket.close(4000, 'over');
    };
    socket.onclose = ({ code, reason, wasClean }) =>
        done({ came, code, reason, wasClean, protocol: socket.protocol });
})";

fn server(application: &Application, protocol: Protocol, io: Io) -> Server {
    let way = Way { protocol, io, form: Form::Folder };
    let site = application.folder.join("site");
    Start::site(&site).in_way(way).flags(&["--proxy", &application.url()]).start()
}

/// Returns the fields of the request, with which the application has begun.
#[track_caller]
pub(crate) fn converses_with(browser: &mut Browser, server: &Server) -> Value {
    browser.visit(&server.url("/"));
    let report = browser.evaluate(CONVERSATION);
    let came = report["came"].as_array().expect("messages");
    assert_eq!(came.get(1).and_then(Value::as_str), Some(&*"é".repeat(1000)), "{report}");
    let close = ["code", "reason", "wasClean", "protocol"].map(|name| report[name].to_string());
    assert_eq!(close, ["4000", "\"over\"", "true", "\"two\""], "{report}");
    serde_json::from_str(came[0].as_str().expect("text")).expect("fields")
}

/// `Via` of the request has the version over which the WebSocket came.
#[track_caller]
fn converses(browser: &mut Browser, server: &Server, via: &str) {
    let fields = converses_with(browser, server);
    let found = fields["via"].as_str().expect("Via");
    assert!(found.starts_with(via), "{found}");
    assert_eq!(fields["x-forwarded-host"], fields["host"], "{fields}");
    let origin = fields["origin"].as_str().expect("the page that has opened it");
    assert_eq!(origin, server.url("/").trim_end_matches('/'));
    assert_eq!(fields["sec-websocket-key"].as_str().map(str::len), Some(24), "{fields}");
    assert_eq!(fields["sec-websocket-version"], "13");
}

#[test]
fn chromium_speaks_websocket_over_http1() {
    let application = Application::start();
    let mut browser = Browser::start();
    for io in Io::BOTH {
        let server = server(&application, Protocol::Http1, io);
        converses(&mut browser, &server, "1.1 ");
        server.stop();
    }
}

/// The page was sent over a connection that announces extended CONNECT, so the WebSocket is one
/// more stream of it (RFC 8441).
#[test]
fn chromium_speaks_websocket_over_http2() {
    let application = Application::start();
    for io in Io::BOTH {
        let server = server(&application, Protocol::Http2, io);
        converses(&mut Browser::trusting(&server), &server, "2 ");
        server.stop();
    }
}

#[test]
fn chromium_speaks_websocket_over_http3() {
    let application = Application::start();
    for io in Io::BOTH {
        let server = server(&application, Protocol::Http3, io);
        converses(&mut Browser::trusting(&server), &server, "3 ");
        server.stop();
    }
}

/// Runs a client with the port of a server. The client prints the last received frames.
#[track_caller]
pub(crate) fn client_converses_with(mut client: Command, server: &Server) {
    client.arg(server.address().port().to_string());
    let output = output_within(&mut client, PATIENCE);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim_end(), "..hello..", "{complaint}");
}

/// Returns a client of Node that speaks WebSocket over HTTP/2. Its program is in a folder.
pub(crate) fn node_client(folder: &Folder) -> Command {
    folder.write("client.mjs", H2_CLIENT);
    let mut node = program("node", "nodejs");
    node.arg(folder.join("client.mjs"));
    node
}

/// Returns a client of aioquic that speaks WebSocket over HTTP/3.
pub(crate) fn aioquic_client() -> Command {
    let mut python = python_program("python");
    python.args(["-c", H3_CLIENT]);
    python
}

#[track_caller]
fn client_converses(protocol: Protocol, client: impl Fn(&Folder) -> Command) {
    let application = Application::start();
    for io in Io::BOTH {
        let server = server(&application, protocol, io);
        client_converses_with(client(&application.folder), &server);
        server.stop();
    }
}

#[test]
fn node_speaks_websocket_over_http2() {
    client_converses(Protocol::Http2, node_client);
}

#[test]
fn aioquic_speaks_websocket_over_http3() {
    client_converses(Protocol::Http3, |_| aioquic_client());
}
