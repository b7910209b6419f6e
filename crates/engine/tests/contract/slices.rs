//! The slices of response bodies: shared bytes and ranges of files, in each framing.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use pinion_engine::app::Gone;

use crate::on_both;
use crate::test_server::{SHARED, big};

/// Returns the content of `/pieces`, slice by slice.
fn pieces() -> [Vec<u8>; 4] {
    [SHARED.to_vec(), big()[5..15].to_vec(), SHARED[2..4].to_vec(), big()]
}

fn chunked(pieces: &[Vec<u8>]) -> Vec<u8> {
    let chunk = |piece: &Vec<u8>| {
        let size = format!("{:x}\r\n", piece.len()).into_bytes();
        [size.as_slice(), piece, b"\r\n"].concat()
    };
    pieces.iter().flat_map(chunk).collect()
}

fn split(response: &[u8]) -> (String, &[u8]) {
    let at = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    (String::from_utf8(response[..at].to_vec()).expect("text"), &response[at..])
}

#[test]
fn files_and_shared_bytes_are_sent_in_order() {
    on_both(|server| {
        let request = b"GET /pieces HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let response = server.exchange(request);
        let (head, content) = split(&response);
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
        assert!(content == [chunked(&pieces()).as_slice(), b"0\r\n\r\n"].concat());
        let response = server.exchange(b"GET /pieces HTTP/1.0\r\n\r\n");
        assert!(split(&response).1 == pieces().concat());
        let head_only =
            server.exchange(b"HEAD /pieces HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(split(&head_only).1.is_empty());
    });
}

#[test]
fn a_slow_reader_gets_the_whole_file() {
    on_both(|server| {
        let mut stream = server.connect();
        stream.write_all(b"GET /pieces HTTP/1.0\r\n\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(split(&response).1 == pieces().concat());
    });
}

/// A file that is shorter than promised ends the connection by a reset, even where only the end of
/// the connection would show that content is missing.
#[test]
fn a_response_from_a_failing_file_never_looks_complete() {
    on_both(|server| {
        for path in ["/shrinks", "/directory"] {
            for version in ["HTTP/1.0\r\n\r\n", "HTTP/1.1\r\nHost: a\r\n\r\n"] {
                let mut stream = server.connect();
                stream.write_all(format!("GET {path} {version}").as_bytes()).unwrap();
                let mut response = Vec::new();
                let ended = stream.read_to_end(&mut response).map_err(|error| error.kind());
                assert_eq!(ended, Err(ErrorKind::ConnectionReset), "{path} {version}");
                let expected =
                    if version.contains("1.0") { pieces().concat() } else { chunked(&pieces()) };
                if !response.is_empty() {
                    let (_, content) = split(&response);
                    assert!(content.len() < expected.len() && expected.starts_with(content));
                }
                let why = server.gone.recv_timeout(Duration::from_secs(10));
                assert_eq!(why, Ok(Gone::Broken), "{path} {version}");
            }
        }
    });
}
