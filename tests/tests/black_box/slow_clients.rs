//! slowhttptest, a common tool for tests with slow clients: heads and content that arrive in small
//! parts, unread responses, endless ranges. Other clients must not notice. Also bodies that stop in
//! the middle.

use pinion_tests::client::Connection;
use pinion_tests::client::http2::Http2;
use pinion_tests::client::http3::Http3;
use pinion_tests::external_programs::{output, program};
use pinion_tests::matrix::{Io, Matrix};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use std::io::ErrorKind;
use std::thread;

/// Connections of each attack. Three attacks keep theirs open, so a server must support 900.
const CONNECTIONS: &str = "300";
/// Connections that the server must have at once, so that the attack is effective.
const HELD_MIN: usize = 300;
const SECONDS: &str = "5";
const LARGE_BYTES: usize = 4 << 20;

/// The attacks, with the sizes of the examples in the tool's manual.
const ATTACKS: [(&str, &[&str]); 4] = [
    ("slow heads", &["-H", "-i", "1", "-x", "24"]),
    ("slow content", &["-B", "-i", "1", "-s", "8192", "-x", "10"]),
    ("ranges", &["-R", "-i", "1", "-a", "10", "-b", "3000"]),
    ("slow reading", &["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "32", "-k", "3"]),
];

fn site() -> Folder {
    let folder = Folder::with("slow", [("site/index.html", "home")]);
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES]);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    folder
}

#[test]
fn slow_clients_do_not_affect_others() {
    let folder = site();
    // Both run at once, because the attacks wait far more than they work.
    thread::scope(|scope| {
        for io in Io::BOTH {
            let archive = folder.join("site.pinion");
            scope.spawn(move || {
                let server = Start::serve(&[archive]).flags(&["--io", io.as_str()]).start();
                withstands(&server);
                server.stop();
            });
        }
    });
}

fn withstands(server: &Server) {
    let bound_bytes = server.reported_bound_bytes();
    thread::scope(|scope| {
        let attacks = ATTACKS.map(|(name, flags)| scope.spawn(move || attack(server, name, flags)));
        let mut dripping = slow_content(server);
        let mut kept = server.connect();
        let (mut rounds, mut held) = (0, 0);
        while attacks.iter().any(|attack| !attack.is_finished()) {
            canary(server, &mut kept);
            for connection in &mut dripping {
                connection.send("x");
            }
            let sockets =
                server.open_files().iter().filter(|file| file.starts_with("socket:")).count();
            held = held.max(sockets);
            rounds += 1;
            let own_bytes = server.own_memory_bytes();
            assert!(own_bytes <= bound_bytes, "{own_bytes} of {bound_bytes} bytes");
        }
        assert!(held >= HELD_MIN, "only {held} connections at once: that is no attack");
        assert!(rounds > 0);
        for attack in attacks {
            attack.join().expect("the attack ends");
        }
    });
    assert_eq!(server.get("/").text(), "home");
}

/// Runs an attack to its end. The tool sends its own probes meanwhile and reports whether they got
/// responses.
fn attack(server: &Server, name: &str, flags: &[&str]) {
    let mut tool = program("slowhttptest", "slowhttptest");
    tool.args(["-c", CONNECTIONS, "-r", CONNECTIONS, "-l", SECONDS, "-p", "50", "-v", "1"]);
    let output = output(tool.args(flags).arg("-u").arg(server.url("/large.bin")));
    let said = without_colours(&String::from_utf8_lossy(&output.stdout));
    let answered = said.lines().rfind(|line| line.starts_with("service available:"));
    let answered = answered.and_then(|line| line.split_whitespace().last());
    assert_eq!(answered, Some("YES"), "{name}: {said}");
}

/// Opens connections with slow content: the tool disconnects after an error response, so these
/// connections stay open instead.
fn slow_content(server: &Server) -> Vec<Connection> {
    let start = |_| {
        let mut connection = server.connect();
        connection.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
        connection
    };
    (0..100).map(start).collect()
}

/// Checks a well-behaved client, on a new connection and on a persistent one.
fn canary(server: &Server, kept: &mut Connection) {
    for response in [server.get("/"), kept.exchange(&Request::get("/"))] {
        assert_eq!((response.status, response.text()), (200, "home"));
    }
    let range = Request::get("/large.bin").field("Range", "bytes=4000000-");
    let response = kept.exchange(&range);
    assert_eq!((response.status, response.body.len()), (206, LARGE_BYTES - 4_000_000));
    assert_eq!(kept.exchange(&Request::head("/large.bin")).status, 200);
    assert_eq!(server.get("/nothing").status, 404);
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    // Each part but the first begins with the rest of a sequence: `[1;34m`.
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Handlers that wait for a body: all of it, and each piece.
const WAITING: &str = r#"
pinion.post("/whole", function(req) return req:body() end)
pinion.post("/pieces", function(req)
    local bytes = 0
    for piece in req:pieces() do bytes = bytes + #piece end
    return bytes
end)
"#;

/// RFC 9110 §15.5.9. Only the time without a byte counts, so the result is the same on a busy
/// machine.
#[test]
fn a_stalled_body_gets_408() {
    let site = Folder::with("stalled-body", [("main.lua", WAITING)]);
    site.write("public_html/index.html", "home");
    // Without its flag, a body would have more time than a head has here.
    let flags = ["--body-timeout", "1", "--header-timeout", "25", "--lua-time", "3600"];
    Matrix::of(site.path()).serve(&flags).run(|server| {
        let is_plain = server.protocol() == Protocol::Http1;
        let half_a_head = is_plain.then(|| {
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost:");
            client
        });
        thread::scope(|scope| {
            for target in ["/whole", "/pieces"] {
                // No byte of the smallest one is sent.
                for bytes in [1, 1000, 30_000] {
                    let request = Request::new("POST", target).body(&vec![b'x'; bytes]);
                    scope.spawn(move || stalls_in_the_middle(server, &request));
                }
            }
        });
        if let Some(client) = half_a_head {
            client.stream().set_nonblocking(true).expect("a socket");
            let waits = client.stream().peek(&mut [0]).expect_err("it has no response yet");
            assert_eq!(waits.kind(), ErrorKind::WouldBlock);
        }
        let whole = server.exchange(&Request::new("POST", "/whole").body(b"whole"));
        assert_eq!((whole.status, whole.text()), (200, "whole"));
    });
}

/// Sends a request with half of its body and waits for the response. Over HTTP/1 the connection
/// ends with it; over HTTP/2 and HTTP/3 its other requests get their responses.
fn stalls_in_the_middle(server: &Server, request: &Request) {
    let home = &Request::get("/");
    let (response, home) = match server.protocol() {
        Protocol::Http1 | Protocol::Http1Tls => {
            let mut client = server.connect();
            let half = request.body_bytes().len() / 2;
            client.send([&request.head_bytes()[..], &request.body_bytes()[..half]].concat());
            let response = client.receive();
            assert!(response.says_close(), "{response}");
            client.expect_close();
            (response, server.exchange(home))
        }
        Protocol::Http2 | Protocol::Http2Clear => {
            let mut client = Http2::try_open(server.peer()).expect("a connection");
            let response = client.try_half_content(request).expect("a response");
            (response, client.try_exchange(home).expect("a response"))
        }
        Protocol::Http3 => {
            let client = Http3::try_open(server.peer()).expect("a connection");
            let response = client.try_half_content(request).expect("a response");
            (response, client.try_exchange(home).expect("a response"))
        }
    };
    assert_eq!(response.status, 408, "{response}");
    assert_eq!(home.text(), "home");
}
