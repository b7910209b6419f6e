//! WebSockets that another server responds to, over streams of HTTP/2 and HTTP/3 (RFC 8441, RFC
//! 9220): the data in both directions, and the end of either side.

use crate::lua_fetch::Running;
use pinion_tests::PATIENCE;
use pinion_tests::body::noise;
use pinion_tests::client::tunnel::{Reset, Sender, Tunnel, TunnelClient, cancelled};
use pinion_tests::external_programs::program;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime;
use tokio::time::{sleep, timeout};

/// The application; its head describes the paths.
const APPLICATION: &str = include_str!("../../src/websocket.mjs");

/// An application that runs as long as the value exists, and the files of the site in front of it.
pub(crate) struct Application {
    pub(crate) folder: Folder,
    port: u16,
    _node: Running,
}

impl Application {
    pub(crate) fn start() -> Application {
        let rules = "/private/* /404.html 404\n";
        let files =
            [("site/index.html", "home"), ("site/404.html", "none"), ("site/_redirects", rules)];
        let folder = Folder::with("websocket", files);
        folder.write("application.mjs", APPLICATION);
        let mut node = program("node", "nodejs");
        node.arg(folder.join("application.mjs")).stdout(Stdio::piped());
        let mut running = Running::start(&mut node);
        let mut line = String::new();
        BufReader::new(running.stdout()).read_line(&mut line).expect("its port");
        Application { folder, port: line.trim().parse().expect("a port"), _node: running }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Returns the protocols with streams, over both backends.
fn ways() -> impl Iterator<Item = Way> {
    let protocols = [Protocol::Http2, Protocol::Http3, Protocol::Http2Clear];
    let way = |protocol| Io::BOTH.map(|io| Way { protocol, io, form: Form::Folder });
    protocols.into_iter().flat_map(way)
}

fn runtime() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs a case in front of the application over each protocol, each with a server of its own. It
/// must not hang.
#[track_caller]
fn each_way(case: &impl AsyncFn(&Server, TunnelClient)) {
    let application = Application::start();
    let (url, site) = (application.url(), application.folder.join("site"));
    for way in ways() {
        eprintln!("{way:?}"); // Shown when the case fails.
        let flags = ["--workers", "1", "--proxy", &url];
        let server = Start::site(&site).in_way(way).flags(&flags).start();
        let runtime = runtime();
        let client = TunnelClient::open(&server, &runtime);
        runtime.block_on(async {
            timeout(PATIENCE, case(&server, client)).await.expect("it does not hang");
        });
        // The connection ends with the runtime that drives it.
        drop(runtime);
        server.stop();
    }
}

/// Waits until the application reports this about its last tunnel.
async fn wait_for_state(client: &mut TunnelClient, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let state = client.get("/told").await;
        let state: Value = serde_json::from_slice(&state).expect("a JSON document");
        if is_so(&state) {
            return state;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn open(client: &mut TunnelClient, path: &str) -> Tunnel {
    let tunnel = client.connect("websocket", path, &[]).await.expect("a response");
    assert_eq!(tunnel.status, 200, "{path}");
    tunnel
}

/// More bytes than all buffers on the way can hold.
const LARGE_BYTES: usize = 24 << 20;

/// Sends pieces on a task of its own; returns the counter of the bytes that the server has
/// accepted.
fn send_on(mut sender: Sender, bytes: usize) -> Arc<AtomicUsize> {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        let piece = vec![b'x'; 16 * 1024];
        while counted.load(Ordering::Relaxed) < bytes {
            sender.send(&piece).await.expect("it is taken");
            counted.fetch_add(piece.len(), Ordering::Relaxed);
        }
        sender.finish().await.expect("it is taken");
    });
    sent
}

/// Waits until a growing number has not grown for half a second.
async fn stop_of(mut count: impl AsyncFnMut() -> usize) -> usize {
    loop {
        let before = count().await;
        sleep(Duration::from_millis(500)).await;
        if count().await == before {
            return before;
        }
    }
}

/// The fields of the handshake are only used between the server and the application (RFC 8441 §5).
#[test]
fn every_byte_passes_in_both_directions() {
    let content = noise(5 << 20);
    each_way(&async |_, mut client| {
        let offered = [("sec-websocket-protocol", "a, b"), ("sec-websocket-key", "own")];
        let tunnel = client.connect("WebSocket", "/echo?a=b", &offered).await.expect("a response");
        let Tunnel { status, fields, mut sender, mut receiver } = tunnel;
        let field = |name: &str| {
            let found = fields.iter().find(|(found, _)| found == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!((status, field("x-app")), (200, Some("node")), "{fields:?}");
        assert_eq!(field("sec-websocket-protocol"), Some("b"));
        for name in ["sec-websocket-accept", "upgrade", "connection", "content-length"] {
            assert_eq!(field(name), None, "{name}");
        }
        let sent = content.clone();
        tokio::spawn(async move {
            for piece in sent.chunks(100_000) {
                sender.send(piece).await.expect("it is taken");
            }
            sender.finish().await.expect("it is taken");
        });
        let all = receiver.rest().await.expect("an orderly end");
        assert!(all == [&content[..], b"over"].concat(), "{} bytes", all.len());
        let state = wait_for_state(&mut client, |state| state["closed"] == true).await;
        assert_eq!((&state["failed"], &state["came"]), (&Value::Null, &content.len().into()));
        assert!(
            state["key"].as_str().is_some_and(|key| key.len() == 24 && key != "own"),
            "{state}"
        );
    });
}

/// RFC 8441 §5: "Orderly TCP-level closures are represented as END_STREAM flags".
#[test]
fn the_application_can_end_first_and_still_receive() {
    const BYTES: usize = 300_000;
    each_way(&async |_, mut client| {
        let Tunnel { mut sender, mut receiver, .. } = open(&mut client, "/ends").await;
        assert_eq!(receiver.rest().await, Ok(b"bye".to_vec()));
        for piece in noise(BYTES).chunks(10_000) {
            sender.send(piece).await.expect("it is taken");
        }
        wait_for_state(&mut client, |state| state["came"] == BYTES).await;
        sender.finish().await.expect("it is taken");
        let state = wait_for_state(&mut client, |state| state["closed"] == true).await;
        assert_eq!((&state["failed"], &state["ended"]), (&Value::Null, &true.into()));
    });
}

/// RFC 8441 §5: "RST exceptions are represented with the RST_STREAM frame with the CANCEL error
/// code"; RFC 9220 §3 has H3_REQUEST_CANCELLED for it.
#[test]
fn a_reset_is_passed_to_the_other_side() {
    each_way(&async |server, mut client| {
        let Tunnel { mut sender, mut receiver, .. } = open(&mut client, "/cut").await;
        assert_eq!(receiver.take(4).await, Ok(b"part".to_vec()));
        sender.send(b"x").await.expect("it is taken");
        assert_eq!(receiver.rest().await, Err(cancelled(server.protocol())));
        let Tunnel { mut sender, mut receiver, .. } = open(&mut client, "/echo").await;
        sender.send(b"some").await.expect("it is taken");
        assert_eq!(receiver.take(4).await, Ok(b"some".to_vec()));
        sender.reset();
        drop((sender, receiver));
        let state = wait_for_state(&mut client, |state| state["closed"] == true).await;
        assert_eq!((&state["failed"], &state["ended"]), (&"ECONNRESET".into(), &false.into()));
    });
}

/// An application that does not read stops its client by the window of the stream, and affects
/// nothing else on the connection.
#[test]
fn an_application_that_does_not_read_blocks_only_its_client() {
    each_way(&async |_, mut client| {
        let Tunnel { sender, mut receiver, .. } = open(&mut client, "/silent").await;
        let sent = send_on(sender, LARGE_BYTES);
        stop_of(async || sent.load(Ordering::Relaxed)).await;
        let mut other = open(&mut client, "/echo").await;
        other.sender.send(&noise(1 << 20)).await.expect("it is taken");
        assert_eq!(other.receiver.take(1 << 20).await, Ok(noise(1 << 20)));
        assert!(sent.load(Ordering::Relaxed) < LARGE_BYTES, "all was taken");
        client.get("/go").await;
        assert_eq!(receiver.rest().await, Ok(b"over".to_vec()));
        assert_eq!(sent.load(Ordering::Relaxed), LARGE_BYTES);
    });
}

/// Data that waits for a client that does not read is bounded, and delays no other stream.
#[test]
fn a_client_that_does_not_read_blocks_only_its_application() {
    each_way(&async |_, mut client| {
        let Tunnel { mut sender, mut receiver, .. } = open(&mut client, "/flood").await;
        receiver.take(1).await.expect("a byte");
        let stopped = stop_of(async || {
            let state = wait_for_state(&mut client, |_| true).await;
            state["sent"].as_u64().expect("a number") as usize
        });
        let stopped = stopped.await;
        assert!(
            stopped < LARGE_BYTES,
            "{stopped} bytes were taken for a client that reads nothing"
        );
        receiver.take(LARGE_BYTES).await.expect("what is sent when there is room");
        sender.reset();
        drop((sender, receiver));
        wait_for_state(&mut client, |state| state["closed"] == true).await;
    });
}

/// A client that reads nothing for 90 seconds loses its tunnel, but nothing else of its connection.
#[cfg(feature = "long")]
#[test]
fn a_client_that_does_not_read_loses_its_tunnel() {
    let application = Application::start();
    let (url, site) = (application.url(), application.folder.join("site"));
    for protocol in [Protocol::Http2, Protocol::Http3] {
        let way = Way { protocol, io: Io::Epoll, form: Form::Folder };
        let server = Start::site(&site).in_way(way).flags(&["--proxy", &url]).start();
        let runtime = runtime();
        let mut client = TunnelClient::open(&server, &runtime);
        runtime.block_on(async {
            let mut other = open(&mut client, "/echo").await;
            let Tunnel { mut receiver, .. } = open(&mut client, "/flood").await;
            let is_over = |state: &Value| state["closed"] == true;
            timeout(3 * PATIENCE, wait_for_state(&mut client, is_over))
                .await
                .expect("it does not hang");
            assert_eq!(receiver.rest().await, Err(cancelled(protocol)));
            other.sender.send(b"hello").await.expect("it is taken");
            assert_eq!(other.receiver.take(5).await, Ok(b"hello".to_vec()));
        });
        drop((client, runtime));
        server.stop();
    }
}

/// A response that opens no tunnel is forwarded like any other, and one that only resembles a
/// tunnel gives an error.
#[test]
fn the_application_decides_whether_there_is_a_tunnel() {
    each_way(&async |server, mut client| {
        for (path, status) in [("/refused", 403), ("/plain", 502), ("/wrong", 502)] {
            let response = client.connect("websocket", path, &[]).await.expect("a response");
            let Tunnel { fields, mut sender, mut receiver, .. } = response;
            assert_eq!(response.status, status, "{path}: {fields:?}");
            let content = receiver.rest().await.expect("a whole response");
            assert!(status != 403 || content == b"no", "{path}");
            sender.reset();
        }
        for protocol in ["connect-udp", "webtransport", "websockets"] {
            let response = client.connect(protocol, "/echo", &[]).await.expect("a response");
            assert_eq!(response.status, 501, "{protocol}");
        }
        let why = "status 200 in place of a WebSocket";
        server.wait_for_line(0, |line| line.contains("502 for /plain: ") && line.ends_with(why));
    });
}

/// Files and rules of the site have precedence over the application, as for a GET.
#[test]
fn files_and_rules_keep_a_path_from_the_application() {
    let application = Application::start();
    let (url, site) = (application.url(), application.folder.join("site"));
    let (api, log) = (format!("/api={url}"), application.folder.join("log"));
    application.folder.write("site/api/file.txt", "hidden");
    let mut expected = Vec::new();
    for way in ways() {
        let log = log.to_str().expect("a path");
        let flags = ["--proxy", &url, "--proxy", &api, "--access-log", log];
        let server = Start::site(&site).in_way(way).flags(&flags).start();
        let runtime = runtime();
        let mut client = TunnelClient::open(&server, &runtime);
        for (path, status) in [
            ("/", 501),
            ("/index.html", 501),
            ("/private/a", 501),
            ("/echo", 200),
            ("/api/file.txt", 200),
            ("/api/../x", 400),
        ] {
            let response = runtime.block_on(client.connect("websocket", path, &[]));
            assert_eq!(response.expect("a response").status, status, "{path}");
            let version = if way.protocol == Protocol::Http3 { 3 } else { 2 };
            expected.push(format!("\"CONNECT {path} HTTP/{version}.0\" {status} "));
        }
        drop((client, runtime));
        server.stop();
    }
    let logged = std::fs::read_to_string(log).expect("the log");
    for expected in expected {
        assert!(logged.contains(&expected), "{expected}: {logged}");
    }
}

/// RFC 8441 §3: the setting is announced once for each connection.
#[test]
fn extended_connect_is_announced_where_there_is_a_proxy() {
    let application = Application::start();
    let (folder, url) = (&application.folder, application.url());
    for way in ways() {
        folder.write("p.toml", "[[site]]\npath = \"site\"\n");
        let server = Start::site(&folder.join("p.toml")).in_way(way).start();
        let runtime = runtime();
        let mut before = TunnelClient::open(&server, &runtime);
        assert!(!runtime.block_on(before.is_announced()), "{way:?}");
        let refused = runtime.block_on(before.connect("websocket", "/echo", &[]));
        assert_eq!(refused.map(|response| response.status), Err(malformed(way.protocol)));
        folder.write("p.toml", format!("[[site]]\npath = \"site\"\nproxy = \"{url}\"\n"));
        let from = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(from, |line| line.contains("1 new, 1 removed"));
        assert!(!runtime.block_on(before.is_announced()), "{way:?}");
        let mut after = TunnelClient::open(&server, &runtime);
        assert!(runtime.block_on(after.is_announced()), "{way:?}");
        let response = runtime.block_on(after.connect("websocket", "/echo", &[]));
        assert_eq!(response.map(|response| response.status), Ok(200));
        drop((before, after, runtime));
        server.stop();
    }
}

/// Returns how a server rejects a malformed request (RFC 9113 §8.1.1, RFC 9114 §4.1.2).
fn malformed(protocol: Protocol) -> Reset {
    Reset(if protocol == Protocol::Http3 { 0x10e } else { 1 })
}
