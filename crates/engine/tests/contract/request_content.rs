//! The content of requests: trailers, wants and the report of the end, and the limit.

use std::io::{Read, Write};
use std::time::Duration;

use pinion_engine::app::Gone;

use crate::on_both;
use crate::test_server::{TestServer, UPLOAD_MAX_BYTES, read_response};

/// Returns the content of a chunked response, after which the connection ends.
fn chunks_of(response: &[u8]) -> String {
    let text = String::from_utf8_lossy(response).into_owned();
    let (head, chunks) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{text}");
    chunks.to_owned()
}

fn chunked_post(path: &str, chunks: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n{chunks}"
    )
    .into_bytes()
}

#[test]
fn trailers_are_received_and_sent() {
    on_both(|server| {
        let request = chunked_post(
            "/count",
            "2\r\nhi\r\n0\r\nSum: 209 \r\nHost: evil\r\ncontent_length: 7\r\nSign: x, y\r\n\r\n",
        );
        let expected = "7\r\n2 bytes\r\n0\r\nSum: 209\r\nSign: x, y\r\n\r\n";
        assert_eq!(chunks_of(&server.exchange(&request)), expected);
        // The result does not depend on the division of the bytes into packets.
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        for byte in &request {
            stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert_eq!(chunks_of(&response), expected);
        let none = server.exchange(&chunked_post("/count", "2\r\nhi\r\n0\r\n\r\n"));
        assert_eq!(chunks_of(&none), "7\r\n2 bytes\r\n0\r\n\r\n");
    });
}

#[test]
fn trailers_are_as_strict_as_a_head() {
    on_both(|server| {
        let long = format!("X: {}", "x".repeat(9000));
        let many = "X: y\r\n".repeat(101);
        for (section, status) in [
            ("X : y", "400 "),
            (" X: y", "400 "),
            ("X: y\n", "400 "),
            ("X: y\r\n z", "400 "),
            (long.as_str(), "431 "),
            (many.as_str(), "431 "),
        ] {
            let request = chunked_post("/count", &format!("0\r\n{section}\r\n\r\n"));
            let response = String::from_utf8(server.exchange(&request)).unwrap();
            assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{section}: {response}");
            assert_eq!(server.gone.recv_timeout(Duration::from_secs(10)), Ok(Gone::Refused));
        }
    });
}

#[test]
fn a_response_that_is_not_chunked_has_no_trailers() {
    on_both(|server| {
        // `/echo` ends with the received trailers; a response to HTTP/1.0 cannot have trailers.
        let mut stream = server.connect();
        stream.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        assert_eq!(read_response(&mut stream).1, b"hi");
        let response = server.exchange(b"POST /count HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi");
        assert!(response.ends_with(b"\r\n\r\n2 bytes"), "{}", String::from_utf8_lossy(&response));
    });
}

/// The end of content is reported without a want: `/five` wants five bytes and never more.
#[test]
fn the_end_of_content_is_reported_without_being_requested() {
    on_both(|server| {
        for chunks in [
            "5\r\nhello\r\n0\r\n\r\n",
            "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "5\r\nhello\r\n00000\r\nSum: 7\r\n\r\n",
            "0\r\n\r\n",
        ] {
            let request = chunked_post("/five", chunks);
            let at_once = chunks_of(&server.exchange(&request));
            // The last byte of the content, and each byte of the framing, arrive alone.
            for cut in request.len() - chunks.len()..request.len() {
                let mut stream = server.connect();
                stream.set_nodelay(true).unwrap();
                stream.write_all(&request[..cut]).unwrap();
                std::thread::sleep(Duration::from_millis(2));
                stream.write_all(&request[cut..]).unwrap();
                let mut response = Vec::new();
                stream.read_to_end(&mut response).unwrap();
                assert_eq!(chunks_of(&response), at_once, "cut at {cut}");
            }
        }
        let with_length = b"POST /five HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\
            Connection: close\r\n\r\nhello";
        assert_eq!(chunks_of(&server.exchange(with_length)), "7\r\n5 bytes\r\n0\r\n\r\n");
    });
}

/// Announces `bytes` of content; returns the connection and the head of the first response.
fn ask(server: &TestServer, path: &str, bytes: u64) -> (std::net::TcpStream, String) {
    let mut stream = server.connect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    if path == "/later" {
        server.post(server.next_waiting(), "go on");
    }
    let head = read_response(&mut stream).0;
    (stream, head)
}

#[test]
fn a_handler_may_allow_more_content_or_less() {
    on_both(|server| {
        let refused = "HTTP/1.1 413 ";
        for (path, bytes, allowed) in [
            ("/count", 1 << 20, true),
            ("/count", (1 << 20) + 1, false),
            ("/count", u64::MAX, false),
            ("/upload", UPLOAD_MAX_BYTES, true),
            ("/upload", UPLOAD_MAX_BYTES + 1, false),
            ("/later", UPLOAD_MAX_BYTES, true),
            ("/later", UPLOAD_MAX_BYTES + 1, false),
            ("/little", 3, true),
            ("/little", 4, false),
            // The handler does not respond to content that is too long, or responds without reading
            // it.
            ("/nothing", u64::MAX, false),
        ] {
            let (mut stream, head) = ask(&server, path, bytes);
            if !allowed {
                assert!(head.starts_with(refused), "{path}, {bytes} bytes: {head}");
                let heard = server.gone.recv_timeout(Duration::from_millis(200));
                assert_eq!(heard.is_ok(), path != "/nothing", "{path}");
                continue;
            }
            assert_eq!(head, "HTTP/1.1 100 Continue\r\n\r\n", "{path}, {bytes} bytes");
            stream.write_all(&vec![b'x'; bytes as usize]).unwrap();
            let mut response = Vec::new();
            stream.read_to_end(&mut response).unwrap();
            let text = format!("{bytes} bytes");
            let expected = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
            assert_eq!(chunks_of(&response), expected, "{path}");
        }
        let (_, head) = ask(&server, "/hello", u64::MAX);
        assert!(head.starts_with("HTTP/1.1 200 OK"), "no content is needed for it: {head}");
    });
}

#[test]
fn chunks_are_held_to_the_limit_of_their_handler() {
    on_both(|server| {
        let chunk = format!("{:x}\r\n{}\r\n", 1 << 19, "x".repeat(1 << 19));
        for (path, chunks) in [
            ("/count", chunk.repeat(2)),
            ("/upload", chunk.repeat(6)),
            ("/little", "3\r\nabc\r\n".to_owned()),
        ] {
            let whole = server.exchange(&chunked_post(path, &format!("{chunks}0\r\n\r\n")));
            assert!(whole.starts_with(b"HTTP/1.1 200 "), "{path}");
            let request = chunked_post(path, &format!("{chunks}1\r\nx\r\n0\r\n\r\n"));
            let over = server.exchange(&request);
            assert!(over.starts_with(b"HTTP/1.1 413 "), "{path}");
        }
    });
}
