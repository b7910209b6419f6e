//! Scripts that send requests to servers that misbehave: each gets a reason within its time, and
//! other requests are not affected.

use super::lua_fetch::{FETCH, fetched};
use pinion_tests::lua_script_site::script;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

/// Starts a server that handles each connection like this once it has read the head of a request.
/// It ends with the test program.
fn peer(behave: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), behave) = (stream, behave.clone()) else { return };
            thread::spawn(move || {
                let (mut stream, mut head) = (stream, Vec::new());
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                behave(stream);
            });
        }
    });
    address
}

/// Starts a server that sends this response, and then closes its side and waits for the other.
pub(crate) fn says(response: impl Into<Vec<u8>>) -> SocketAddr {
    let response = response.into();
    peer(move |mut stream| {
        let _refused = stream.write_all(&response);
        let _gone = stream.shutdown(Shutdown::Write);
        let _until_it_ends = stream.read_to_end(&mut Vec::new());
    })
}

fn serving(case: impl Fn(&Server)) {
    let (_folder, path) = script(FETCH);
    for io in ["epoll", "auto"] {
        let flags = ["--io", io, "--workers", "1", "--fetch-private"];
        let server = Start::site(&path).flags(&flags).start();
        case(&server);
        server.stop();
    }
}

#[test]
fn malformed_responses_are_errors_with_reasons() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "the connection was closed without a response"),
        (b"HTTP/1.1 200 OK\r\nA: b", "the connection was closed within the response's head"),
        (b"\0\xff garbage\r\n\r\n", "nil: "),
        (b"SSH-2.0-OpenSSH_9\r\n", "nil: "),
        (b"HTTP/2.0 200 OK\r\n\r\n", "nil: "),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            "closed within the response's content",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "within the response's"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone",
            "not valid gzip",
        ),
    ];
    let cases = cases.map(|(response, expected)| (says(response), response, expected));
    serving(|server| {
        for (address, response, expected) in &cases {
            let got = fetched(server, &[("url", &format!("http://{address}/"))]);
            let shown = String::from_utf8_lossy(response);
            assert!(got.contains("nil: ") && got.contains(expected), "{shown:?}: {got}");
            assert!(got.contains(&address.to_string()) || got.starts_with("200"), "{got}");
        }
    });
}

/// Content until the server closes, a status line without a reason phrase, interim responses, and
/// bytes after the response, which belong to no other one.
#[test]
fn unusual_responses_are_understood() {
    let cases: [(&[u8], &str); 5] = [
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", "200 - until the end"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "200 - ok"),
        (
            b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "200 - ok",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", "200 - ok"),
        (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", "999 - "),
    ];
    let cases = cases.map(|(response, expected)| (says(response), expected));
    serving(|server| {
        for (address, expected) in &cases {
            for _ in 0..3 {
                assert_eq!(fetched(server, &[("url", &format!("http://{address}/"))]), *expected);
            }
        }
    });
}

/// Endless responses are ended within the limits of time and memory.
#[test]
fn endless_responses_are_ended() {
    let endless = |front: &'static [u8], piece: &'static [u8]| {
        peer(move |mut stream| {
            let _gone = stream.write_all(front);
            while stream.write_all(piece).is_ok() {}
        })
    };
    let silent = peer(|mut stream| {
        let _until_it_ends = stream.read_to_end(&mut Vec::new());
    });
    let stalled = peer(|mut stream| {
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
        let _until_it_ends = stream.read_to_end(&mut Vec::new());
    });
    let endless_head = endless(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n");
    let endless_line = endless(b"HTTP/1.1 200 OK\r\nA: ", b"bbbbbbbbbbbbbbbb");
    let endless_hints = endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n");
    let large = endless(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", &[b'x'; 4096]);
    let looping = peer(|mut stream| {
        let again = "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n";
        let _gone = stream.write_all(again.as_bytes());
    });
    serving(|server| {
        for (address, expected) in [
            (silent, "no response within 1000 ms"),
            (stalled, "sent nothing for 1000 ms in the middle of its response"),
            (endless_head, "nil: "),
            (endless_line, "head is longer than 64 KiB"),
            (endless_hints, "more than 32 interim responses"),
            (large, "longer than 16777216 bytes"),
            (looping, "more than 10 redirects"),
        ] {
            let url = format!("http://{address}/");
            let got = fetched(server, &[("url", &url), ("timeout", "1")]);
            assert!(got.contains("nil: ") && got.contains(expected), "{expected}: {got}");
        }
        let used = server.memory_bytes("VmHWM");
        assert!(used < 200 << 20, "{used} bytes");
    });
}

/// Requests to a silent server delay no others.
#[test]
fn silent_servers_do_not_delay_other_requests() {
    let silent = peer(|mut stream| {
        let _until_it_ends = stream.read_to_end(&mut Vec::new());
    });
    let good = says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    serving(|server| {
        let slow = format!("/fetch?timeout=3&url=http://{silent}/");
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let mut connection = server.connect();
                connection.send(Request::get(&slow).bytes());
                connection
            })
            .collect();
        let begun = Instant::now();
        let got = fetched(server, &[("url", &format!("http://{good}/"))]);
        assert_eq!(got, "200 - ok");
        let after = begun.elapsed();
        for mut connection in waiting {
            let response = connection.receive();
            assert!(response.text().contains("no response within 3000 ms"), "{response}");
        }
        // The order counts, not the time.
        assert!(after < begun.elapsed());
    });
}

/// A visitor who chooses the URL can only reach addresses that the operator allows.
#[test]
fn private_addresses_are_refused_also_after_redirects() {
    let inner = says("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    let to = format!("http://{inner}/");
    let redirect = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let listener = TcpListener::bind("127.0.0.2:0").expect("a port");
    let outer = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _head = stream.read(&mut [0; 4096]);
            let _gone = stream.write_all(redirect.as_bytes());
        }
    });
    let (_folder, path) = script(FETCH);
    let flags = ["--workers", "1", "--fetch-network", "127.0.0.2/32"];
    let server = Start::site(&path).flags(&flags).start();
    let port = inner.port();
    for url in [
        to.clone(),
        format!("http://{outer}/"),
        format!("http://localhost:{port}/"),
        format!("http://a.localhost:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://[64:ff9b::7f00:1]:{port}/"),
        format!("http://[2002:7f00:1::]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        format!("http://[::]:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://192.168.1.1/".to_owned(),
        "http://[fe80::1]/".to_owned(),
        "http://100.64.0.1/".to_owned(),
    ] {
        let got = fetched(&server, &[("url", &url), ("timeout", "5")]);
        assert!(got.starts_with("nil: ") && got.contains("refused ("), "{url}: {got}");
    }
    // Other notations of the address are no valid URLs.
    for url in ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/"] {
        let got = fetched(&server, &[("url", url), ("timeout", "5")]);
        assert!(got.starts_with("nil: ") && got.contains("not an IPv4 address"), "{url}: {got}");
    }
    let socket = fetched(&server, &[("url", "http://a/"), ("socket", "/run/docker.sock")]);
    assert!(socket.contains("add the path to fetch-socket"), "{socket}");
    server.stop();
}
