//! Clients that send nonsense, or disconnect in the middle, affect no others; and the contents of
//! an error page.
//!
//! `connection.rs`, `smuggling.rs` and `client_limits.rs` test which requests are refused with
//! which status.

use pinion_tests::client::Connection;
use pinion_tests::matrix::{Matrix, every_way};
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::net::sockopt::set_socket_linger;
use std::time::Duration;

const LARGE_BYTES: usize = 8 << 20;
/// The reason why these cases only run over HTTP/1.
const BYTES: &str = "bytes that are no request of HTTP/1, or not all of one";
/// An error page fits into one packet together with its head.
const PAGE_MAX_BYTES: usize = 1000;

fn site() -> Folder {
    let folder = Folder::with("bad-input", [("index.html", "home")]);
    folder.write("large.bin", vec![b'x'; LARGE_BYTES]);
    folder
}

/// The first bytes of a browser with an `https:` URL.
const TLS_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// Returns one refused request of each kind, with its status.
fn refused() -> Vec<(u16, Vec<u8>)> {
    let line = |line: &str| format!("{line}\r\nHost: localhost\r\n\r\n").into_bytes();
    vec![
        (400, b"nonsense\r\n\r\n".to_vec()),
        (400, TLS_HELLO.to_vec()),
        (400, line("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked")),
        (400, b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (413, line("POST / HTTP/1.1\r\nContent-Length: 99999999")),
        (414, line(&format!("GET /{} HTTP/1.1", "x".repeat(10_000)))),
        (417, line("GET / HTTP/1.1\r\nConnection: close\r\nExpect: a-miracle")),
        (431, line(&format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(20_000)))),
        (501, line("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked")),
        (501, line("CONNECT localhost:80 HTTP/1.1")),
        (505, line("GET / HTTP/2.0")),
    ]
}

#[test]
fn a_refused_request_ends_only_its_own_connection() {
    let site = site();
    // One worker handles all of them.
    Matrix::of(site.path()).serve(&["--workers", "1"]).http1_only(BYTES).run(|server| {
        let mut kept = server.connect();
        let mut half = server.connect();
        half.send("GET / HTTP/1.1\r\nHo");
        let mut slow = server.connect();
        slow.send(Request::get("/large.bin").bytes());
        slow.read_some(1000).expect("the first bytes");
        for (status, bytes) in refused() {
            let mut bad = server.connect();
            bad.send_if_open(&bytes);
            let response = bad.receive();
            assert_eq!(response.status, status, "{}: {response}", bytes.escape_ascii());
            assert!(response.says_close(), "{response}");
            bad.expect_close();
            assert_eq!(kept.exchange(&Request::get("/")).text(), "home");
        }
        half.send("st: localhost\r\n\r\n");
        assert_eq!(half.receive().text(), "home");
        assert_eq!(slow.receive().body.len(), LARGE_BYTES);
    });
}

#[test]
fn requests_before_a_refused_one_are_answered_first() {
    Matrix::of(site().path()).http1_only(BYTES).run(|server| {
        for (status, bytes) in refused() {
            let mut connection = server.connect();
            let before =
                [Request::get("/"), Request::head("/large.bin"), Request::get("/large.bin")];
            let before_bytes: Vec<u8> = before.iter().flat_map(Request::bytes).collect();
            connection.send_if_open([before_bytes.as_slice(), &bytes].concat());
            for request in &before {
                assert_eq!(connection.receive_to(request).status, 200);
            }
            assert_eq!(connection.receive().status, status, "{}", bytes.escape_ascii());
            connection.expect_close();
        }
    });
}

#[test]
fn the_page_for_a_refused_request_is_small_and_reveals_nothing() {
    Matrix::of(site().path()).http1_only(BYTES).run(|server| {
        for (status, bytes) in refused() {
            let refusal = |bytes: &[u8]| {
                let mut connection = server.connect();
                connection.send_if_open(bytes);
                connection.receive()
            };
            if bytes == TLS_HELLO {
                let response = refusal(&bytes);
                is_a_clean_text(&response, status);
                assert!(response.text().contains("plain HTTP"), "{}", response.text());
                continue;
            }
            is_a_clean_page(&refusal(&bytes), status);
            if let Some(asks_for_text) = with_field(&bytes, "Accept: text/plain") {
                is_a_clean_text(&refusal(&asks_for_text), status);
            }
        }
    });
}

#[test]
fn error_pages_are_small_and_reveal_nothing() {
    every_way(&site(), |server| {
        for (status, request) in answered_by_an_error() {
            is_a_clean_page(&server.exchange(&request), status);
            let html = request.clone().field("Accept", "text/html, text/plain;q=0.9");
            is_a_clean_page(&server.exchange(&html), status);

            let text = request.field("Accept", "text/plain");
            is_a_clean_text(&server.exchange(&text), status);
        }
    });
}

/// An error response of the engine has the security fields of the site like any other response, and
/// a response to HEAD has no content (RFC 9110 §9.3.2).
#[test]
fn a_refusal_has_the_fields_of_the_site() {
    Matrix::of(site().path()).http1_only(BYTES).run(|server| {
        let fields_of = |response: &Response| {
            let own = ["content-type", "content-length", "date", "connection", "allow"];
            let mut fields: Vec<_> = response.fields.clone();
            fields.retain(|(name, _)| !own.contains(&name.to_ascii_lowercase().as_str()));
            fields
        };
        let by_the_site = fields_of(&server.exchange(&Request::get("/nothing")));
        for name in ["X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options"] {
            assert!(by_the_site.iter().any(|(found, _)| found == name), "{by_the_site:?}");
        }
        for (status, bytes) in refused() {
            let mut connection = server.connect();
            connection.send_if_open(&bytes);
            let response = connection.receive();
            assert_eq!(fields_of(&response), by_the_site, "{status}: {response}");
        }
        let mut connection = server.connect();
        connection.send("HEAD / HTTP/1.1\r\n\r\n");
        let response = connection.receive_to(&Request::head("/"));
        assert_eq!(response.status, 400, "{response}");
        assert_ne!(response.field("Content-Length"), Some("0"), "{response}");
        connection.expect_close();
    });
}

/// Inserts one more field into a refused request, after its request line; returns `None` if it has
/// no line.
fn with_field(bytes: &[u8], line: &str) -> Option<Vec<u8>> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let (front, rest) = bytes.split_at(end);
    Some([front, line.as_bytes(), b"\r\n", rest].concat())
}

/// Returns requests that are well-formed.
fn answered_by_an_error() -> Vec<(u16, Request)> {
    vec![
        (400, Request::get("/../")),
        (404, Request::get("/nothing")),
        (405, Request::new("DELETE", "/")),
        (412, Request::get("/").field("If-Match", "\"x\"")),
        (416, Request::get("/").field("Range", "bytes=100-")),
    ]
}

/// Checks a page: it describes the error, loads nothing else, and has no validator of a resource.
#[track_caller]
fn is_a_clean_page(response: &Response, status: u16) {
    assert_eq!(response.status, status, "{response}");
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{response}");
    let page = response.text();
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">\n"), "{page}");
    for element in ["title", "h1"] {
        let (_, behind) = page.split_once(&format!("<{element}>")).expect("its beginning");
        let (shown, _) = behind.split_once(&format!("</{element}>")).expect("its end");
        is_the_title(shown, response);
    }
    for reference in ["src=", "href=", "url(", "<script", "http:", "https:"] {
        assert!(!page.contains(reference), "{reference} in {page}");
    }
    assert!(page.len() <= PAGE_MAX_BYTES, "{} bytes: {page}", page.len());
    for name in ["ETag", "Last-Modified", "Content-Encoding", "Accept-Ranges", "Server"] {
        assert_eq!(response.field(name), None, "{response}");
    }
}

/// Checks the status and its reason phrase. Besides the page, only HTTP/1 has the phrase.
#[track_caller]
fn is_the_title(shown: &str, response: &Response) {
    let (status, reason) = shown.split_once(' ').expect("two words");
    assert_eq!(status, response.status.to_string(), "{response}");
    if response.protocol.is_http1() {
        assert_eq!(reason, response.reason, "{response}");
    } else {
        assert!(!reason.is_empty(), "{response}");
    }
}

/// Checks the error as text.
#[track_caller]
fn is_a_clean_text(response: &Response, status: u16) {
    assert_eq!(response.status, status, "{response}");
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"), "{response}");
    is_the_title(response.text().lines().next().expect("a line"), response);
    assert!(!response.text().contains('<'), "{response}");
}

#[test]
fn vanished_clients_leak_no_descriptors() {
    let site = site();
    Matrix::of(site.path()).serve(&["--workers", "1"]).http1_only(BYTES).run(|server| {
        assert_eq!(server.get("/").text(), "home");
        let mut kept = server.connect();
        assert_eq!(kept.exchange(&Request::get("/")).text(), "home");
        let files = server.open_files().len();
        for round in 0..40 {
            for vanish in [vanish_at_once, vanish_in_a_head, vanish_in_content, vanish_in_responses]
            {
                vanish(server, round % 2 == 0);
            }
            assert_eq!(kept.exchange(&Request::get("/")).text(), "home");
        }
        wait_for("closed connections", || (server.open_files().len() <= files).then_some(()));
        assert_eq!(kept.exchange(&Request::get("/large.bin")).body.len(), LARGE_BYTES);
    });
}

/// Ends the connection by a reset (as after a crash), or in an orderly way.
fn leave(connection: Connection, by_reset: bool) {
    if by_reset {
        set_socket_linger(connection.stream(), Some(Duration::ZERO)).expect("a socket");
    }
    drop(connection);
}

fn vanish_at_once(server: &Server, by_reset: bool) {
    leave(server.connect(), by_reset);
}

fn vanish_in_a_head(server: &Server, by_reset: bool) {
    let mut connection = server.connect();
    connection.send("GET / HTTP/1.1\r\nHost: loc");
    leave(connection, by_reset);
}

fn vanish_in_content(server: &Server, by_reset: bool) {
    let mut connection = server.connect();
    connection.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n0123456789");
    leave(connection, by_reset);
}

fn vanish_in_responses(server: &Server, by_reset: bool) {
    let mut connection = server.connect();
    connection.send(Request::get("/large.bin").bytes().repeat(10));
    connection.read_some(100_000).expect("the first bytes");
    leave(connection, by_reset);
}
