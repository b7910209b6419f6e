//! The limit on WebSockets and other tunnels of one client (`--max-tunnels-per-client`): each of
//! them occupies a connection to another server for as long as the client likes.

use crate::websocket_tunnels::Application;
use pinion_tests::client::Connection;
use pinion_tests::client::tunnel::{Tunnel, TunnelClient};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::upstream::Upstream;
use pinion_tests::{PATIENCE, wait_for};
use std::io::Read as _;
use tokio::runtime;
use tokio::time::timeout;

/// Switches to another protocol if a request asks for that, and keeps the connection until the
/// other side ends.
fn switching() -> Upstream {
    Upstream::start(|connection| {
        while let Some(head) = connection.request() {
            if !head.contains("Upgrade: echo") {
                connection.respond(b"plain");
                continue;
            }
            connection.send("HTTP/1.1 101 On\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
            connection.take(usize::MAX);
            return;
        }
    })
}

/// Requests a tunnel. Returns the head of the response and the connection.
fn ask(server: &Server, client: &str) -> (String, Connection) {
    let mut connection = server.connect();
    let request = Request::get("/x").field("Connection", "Upgrade").field("Upgrade", "echo");
    connection.send(request.field("X-Forwarded-For", client).bytes());
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert!(connection.stream().read(&mut byte).expect("a head") > 0);
        head.push(byte[0]);
    }
    (String::from_utf8(head).expect("text"), connection)
}

fn is_switched(head: &str) -> bool {
    head.starts_with("HTTP/1.1 101 ")
}

/// The client is the one that a trusted proxy names; an IPv6 client is its /64.
#[test]
fn a_client_has_a_share_of_the_tunnels() {
    let folder = Folder::with("tunnel-limits", [("site/index.html", "home")]);
    let upstream = switching();
    for io in Io::BOTH {
        let start = Start::site(&folder.join("site")).flags(&["--proxy", &upstream.url()]);
        let start = start.flags(&["--io", io.as_str(), "--workers", "2"]);
        let flags = ["--max-tunnels-per-client", "2", "--trusted-proxy", "127.0.0.0/8"];
        let server = start.flags(&flags).start();
        for [one, same, other] in [
            ["192.0.2.1", "192.0.2.1", "192.0.2.2"],
            ["2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"],
        ] {
            let open = [ask(&server, one), ask(&server, one)];
            assert!(open.iter().all(|(head, _)| is_switched(head)), "{one}");
            let (refused, _) = ask(&server, same);
            assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
            assert!(refused.contains("\r\nRetry-After: 10\r\n"), "{refused}");
            assert!(is_switched(&ask(&server, other).0), "{other}");
            // Only tunnels are limited.
            let plain = Request::get("/x").field("X-Forwarded-For", one);
            assert_eq!(server.exchange(&plain).text(), "plain");
            drop(open);
            let is_free = || is_switched(&ask(&server, same).0).then_some(());
            wait_for("the place of a tunnel that has ended", is_free);
        }
        let lines = server.last_words();
        let reason = "the client has 2 WebSockets or other tunnels open (--max-tunnels-per-client)";
        assert!(lines.iter().any(|line| line.contains(reason)), "{lines:#?}");
    }
}

/// A quarter of all, so that no client takes them all.
#[test]
fn by_default_no_client_takes_all_connections() {
    let folder = Folder::with("tunnel-limits", [("site/index.html", "home")]);
    let upstream = switching();
    let start = Start::site(&folder.join("site")).flags(&["--proxy", &upstream.url()]);
    let server = start.flags(&["--max-outgoing", "12"]).start();
    let open: Vec<_> = (0..3).map(|_| ask(&server, "")).collect();
    assert!(open.iter().all(|(head, _)| is_switched(head)));
    assert!(ask(&server, "").0.starts_with("HTTP/1.1 429 "));
    drop(open);
    server.stop();
}

async fn connect(client: &mut TunnelClient) -> Tunnel {
    client.connect("websocket", "/echo", &[]).await.expect("a response")
}

/// RFC 8441, RFC 9220: many tunnels are opened on one connection, which continues.
#[test]
fn tunnels_on_streams_are_counted_individually() {
    let application = Application::start();
    let (url, site) = (application.url(), application.folder.join("site"));
    for protocol in [Protocol::Http2, Protocol::Http2Clear, Protocol::Http3] {
        for io in Io::BOTH {
            let way = Way { protocol, io, form: Form::Folder };
            let flags = ["--workers", "1", "--proxy", &url, "--max-tunnels-per-client", "2"];
            let server = Start::site(&site).in_way(way).flags(&flags).start();
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            let mut client = TunnelClient::open(&server, &runtime);
            let case = async {
                let first = connect(&mut client).await;
                let mut second = connect(&mut client).await;
                let third = connect(&mut client).await;
                assert_eq!([first.status, second.status, third.status], [200, 200, 429]);
                // A stream that is reset frees its own place alone, and the connection continues.
                second.sender.reset();
                while connect(&mut client).await.status == 429 {}
                client.get("/told").await;
                drop(first);
            };
            runtime.block_on(async { timeout(PATIENCE, case).await.expect("it does not hang") });
            drop(runtime);
            server.stop();
        }
    }
}
