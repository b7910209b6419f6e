//! The memory of request content before a script gets it: it has a limit for each worker, whatever
//! clients send and wherever they stop, and other clients get their responses meanwhile.

use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;

/// The most content that a worker keeps, according to `docs/lua.md`.
const CONTENT_MAX_BYTES: u64 = 64 << 20;
/// The other memory of a worker for the connections, tables and coroutines of these tests.
const BESIDE_MAX_BYTES: u64 = 16 << 20;
/// The default limit of a handler for content in one string.
const BODY_BYTES: usize = 1 << 20;
/// Clients with three times as much content together as the server keeps.
const CLIENTS: usize = 192;

const SCRIPT: &str = r#"
pinion.post("/body", function(req) return tostring(#req:body()) end)
pinion.post("/form", function(req) return tostring(#req:form().a) end)
"#;

fn serve(folder: &Folder, io: Io) -> Server {
    let flags = ["--workers", "1", "--io", io.as_str()];
    Start::serve(&[folder.join("site.lua")]).flags(&flags).start()
}

/// Returns the head of a request and its content except the last bytes.
fn unfinished(target: &str) -> Vec<u8> {
    let head = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    let fields = "Host: x\r\nContent-Type: multipart/form-data; boundary=b\r\n";
    let mut bytes =
        format!("POST {target} HTTP/1.1\r\n{fields}Content-Length: {BODY_BYTES}\r\n\r\n{head}")
            .into_bytes();
    bytes.resize(bytes.len() + BODY_BYTES - head.len() - 10, b'x');
    bytes
}

/// Returns the number of requests that the server has refused because of the limit.
fn refused(server: &Server) -> usize {
    server.lines().iter().filter(|line| line.contains("no room for")).count()
}

#[test]
fn stalled_uploads_use_bounded_memory_and_do_not_block_others() {
    for io in Io::BOTH {
        for target in ["/body", "/form"] {
            let folder = Folder::with("content", [("site.lua", SCRIPT)]);
            let server = serve(&folder, io);
            let small = Request::new("POST", "/body").body(b"small");
            assert_eq!(server.exchange(&small).text(), "5");
            let before_bytes = server.memory_bytes("RssAnon");
            let sent = unfinished(target);
            let mut stopped: Vec<Connection> = Vec::new();
            for _ in 0..CLIENTS {
                let mut client = server.connect();
                client.send_if_open(&sent);
                stopped.push(client);
                assert_eq!(server.exchange(&small).text(), "5", "{target} over {io:?}");
            }
            // The kept content of the others must be less than the limit.
            let least = CLIENTS - CONTENT_MAX_BYTES as usize / BODY_BYTES;
            wait_for("most are refused", || (refused(&server) >= least).then_some(()));
            let grown_bytes = server.memory_bytes("RssAnon").saturating_sub(before_bytes);
            let allowed_bytes = CONTENT_MAX_BYTES + BESIDE_MAX_BYTES;
            assert!(grown_bytes <= allowed_bytes, "{grown_bytes} bytes, {target} over {io:?}");
            assert!(server.own_memory_bytes() <= server.reported_bound_bytes());
            assert_eq!(server.exchange(&small).text(), "5");
            drop(stopped);
            let left = || server.memory_bytes("RssAnon").saturating_sub(before_bytes);
            wait_for("memory comes back", || (left() <= BESIDE_MAX_BYTES).then_some(()));
            server.stop();
        }
    }
}

#[test]
fn uploads_refused_for_lack_of_memory_get_503_with_retry_after() {
    let folder = Folder::with("content", [("site.lua", SCRIPT)]);
    let server = serve(&folder, Io::Epoll);
    let sent = unfinished("/body");
    let mut stopped: Vec<Connection> = Vec::new();
    while refused(&server) == 0 {
        assert!(stopped.len() < CLIENTS, "nobody is refused");
        let mut client = server.connect();
        client.send_if_open(&sent);
        stopped.push(client);
        assert_eq!(server.exchange(&Request::new("POST", "/body").body(b"x")).text(), "1");
    }
    let is_answered = |client: &Connection| {
        client.stream().set_nonblocking(true).expect("a mode");
        let has_some = client.stream().peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        client.stream().set_nonblocking(false).expect("a mode");
        has_some
    };
    let refused = wait_for("an answer", || stopped.iter().position(is_answered));
    let response = stopped[refused].receive();
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("5")));
    server.stop();
}
