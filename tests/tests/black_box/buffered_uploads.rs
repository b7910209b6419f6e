//! `buffer-uploads`: a request is forwarded when all of its content has arrived.

use crate::mounts::{reload, site, start};
use pinion_tests::body::noise;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::upstream::Upstream;

/// More than stays in memory.
const LARGE_BYTES: usize = 300_000;

/// Responds with the framing of a request and a figure of its content.
fn sum() -> Upstream {
    Upstream::start(|connection| {
        while let Some(head) = connection.head() {
            let field = |name: &str| {
                let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
                line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned())
            };
            let length = field("content-length:").unwrap_or_else(|| "none".to_owned());
            let content = connection.take(length.parse().unwrap_or(0)).unwrap_or_default();
            let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
            let framing = field("transfer-encoding:").unwrap_or_else(|| "none".to_owned());
            connection.respond(format!("{length} {framing} {sum}").as_bytes());
        }
    })
}

#[test]
fn the_server_gets_the_whole_content_with_its_length() {
    let folder = site("stored-uploads");
    let upstream = sum();
    let lines = format!("[[site.mount]]\nproxy = \"{}\"\nbuffer-uploads = true\n", upstream.url());
    let content = noise(LARGE_BYTES);
    for io in Io::BOTH {
        let server = start(&folder, io, &lines);
        for bytes in [0, 1, 1000, LARGE_BYTES] {
            let content = &content[..bytes];
            let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
            for request in [
                Request::new("POST", "/up").body(content),
                Request::new("POST", "/up").chunked(content, 1000),
            ] {
                let response = server.exchange(&request);
                assert_eq!(response.text(), format!("{bytes} none {sum}"), "{response}");
            }
        }
        assert_eq!(server.get("/x").text(), "none none 0");
        server.stop();
    }
}

/// A slow client uses no connection to the server.
#[test]
fn the_upstream_is_contacted_after_all_content_has_arrived() {
    let folder = site("stored-slow");
    for io in Io::BOTH {
        let upstream = sum();
        let lines =
            format!("[[site.mount]]\nproxy = \"{}\"\nbuffer-uploads = true\n", upstream.url());
        let server = start(&folder, io, &lines);
        let mut slow = server.connect();
        slow.send("POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
        // Earlier input has been read when a later connection has its response.
        for _ in 0..5 {
            assert_eq!(server.get("/").text(), "home");
        }
        assert_eq!(upstream.connections(), 0);
        slow.send("cde");
        assert_eq!(slow.receive().text(), "5 none 495");
        // The server never saw the request of a client that disconnected.
        let mut leaving = server.connect();
        leaving.send("POST /left HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
        drop(leaving);
        let again = server.exchange(&Request::new("POST", "/again").body(b"a"));
        assert_eq!(again.text(), "1 none 97");
        assert!(upstream.heads().iter().all(|head| !head.contains("/left")));
        server.stop();
    }
}

#[test]
fn larger_content_is_refused() {
    let folder = site("stored-limit");
    let upstream = sum();
    let mount = |limit: &str| {
        format!(
            "[[site.mount]]\nproxy = \"{}\"\nbuffer-uploads = true\nbuffer-limit = \"{limit}\"\n",
            upstream.url()
        )
    };
    for io in Io::BOTH {
        let server = start(&folder, io, &mount("1K"));
        let fits = vec![b'a'; 1024];
        let response = server.exchange(&Request::new("POST", "/up").body(&fits));
        assert_eq!(response.status, 200, "{response}");
        let before = upstream.heads().len();
        let content = vec![b'a'; 1025];
        for request in [
            Request::new("POST", "/up").body(&content),
            Request::new("POST", "/up").chunked(&content, 100),
        ] {
            let response = server.exchange(&request);
            assert_eq!(response.status, 413, "{response}");
        }
        assert_eq!(upstream.heads().len(), before);
        folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{}", mount("2K")));
        reload(&server);
        let response = server.exchange(&Request::new("POST", "/up").body(&content));
        assert_eq!(response.status, 200, "{response}");
        server.stop();
    }
}

/// The stored content can be sent to the next server when one is down.
#[test]
fn stored_content_is_retried_on_another_server() {
    let folder = site("stored-next");
    let (mut dead, alive) = (sum(), sum());
    dead.kill();
    let lines = format!(
        "[[site.mount]]\nproxy = [\"{}\", \"{}\"]\nbuffer-uploads = true\nmax-fails = 0\n",
        dead.url(),
        alive.url()
    );
    let content = vec![b'a'; LARGE_BYTES];
    let server = start(&folder, Io::Epoll, &lines);
    for _ in 0..10 {
        let response = server.exchange(&Request::new("POST", "/up").body(&content));
        assert_eq!(response.text(), format!("{LARGE_BYTES} none {}", LARGE_BYTES * 97));
    }
    server.stop();
}
