//! The beginning of connections: the protocol is recognised by the first bytes.

use std::io::{Read, Write};
use std::time::Duration;

use crate::on_both;
use crate::test_server::{TestServer, connect, read_response};

/// Sends `bytes`, this many at a time, and returns all received bytes until the end.
fn response_to(server: &TestServer, bytes: &[u8], at_a_time: usize) -> String {
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for part in bytes.chunks(at_a_time) {
        // The response may arrive, and the connection end, before the last byte was sent.
        if stream.write_all(part).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut response = Vec::new();
    let _reset = stream.read_to_end(&mut response);
    String::from_utf8(response).unwrap()
}

#[test]
fn a_tls_hello_on_the_plain_port_gets_a_hint() {
    on_both(|server| {
        for at_a_time in [1, 2, 100] {
            let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
            let response = response_to(&server, hello, at_a_time);
            assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{response}");
            assert!(response.contains("\r\nContent-Type: text/plain"), "{response}");
            assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
            assert!(response.contains("This port speaks plain HTTP"), "{response}");
        }
    });
}

/// RFC 9113 §3.4: the server's preface is a SETTINGS frame, "sent as the first frame".
#[test]
fn http_2_is_spoken_by_prior_knowledge() {
    const SETTINGS: u8 = 4;
    on_both(|server| {
        for at_a_time in [1, 7, 100] {
            let mut stream = server.connect();
            for part in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(at_a_time) {
                stream.write_all(part).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut header = [0; 9];
            stream.read_exact(&mut header).unwrap();
            assert_eq!((header[3], &header[4..]), (SETTINGS, &[0; 5][..]));
        }
    });
}

#[test]
fn a_request_that_begins_like_http_2_is_a_request() {
    on_both(|server| {
        for at_a_time in [1, 3, 100] {
            for method in ["P", "PR", "PRI", "POST"] {
                let request =
                    format!("{method} /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                let response = response_to(&server, request.as_bytes(), at_a_time);
                assert!(response.ends_with("hello world!\n"), "{method}: {response}");
            }
        }
    });
}

/// Only a connection has a preface, and a byte stream has none.
#[test]
fn later_input_is_not_a_preface() {
    on_both(|server| {
        let hello = b"\x16\x03\x01\x02\x00";
        let mut stream = server.connect();
        stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_response(&mut stream);
        stream.write_all(hello).unwrap();
        let (head, body) = read_response(&mut stream);
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        assert!(body.starts_with(b"<!doctype html>"), "an HTTP client is told in its own way");
        let mut raw = connect(server.raw);
        raw.write_all(hello).unwrap();
        let mut echoed = [0; 5];
        raw.read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, hello);
    });
}
