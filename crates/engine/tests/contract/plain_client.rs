//! A plain client of HTTP/1 and of byte streams.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Returns a connection with a timeout of ten seconds, so that a test that hangs fails.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("timeout");
    stream
}

/// Reads one response with a Content-Length off a stream: (head, content).
pub(crate) fn read_response(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a response head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a response body");
    (head, body)
}
