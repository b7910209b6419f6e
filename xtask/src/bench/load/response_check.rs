//! One request with a plain socket, which checks that a server gives the response that will be
//! measured.

use crate::process;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The head of any measured server is much shorter.
const HEAD_LIMIT_BYTES: usize = 64 * 1024;

/// The response of a server.
#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    /// The value of `Content-Length`.
    pub(crate) body_bytes: Option<u64>,
}

/// Requests `path` and reads the head of the response.
pub(crate) fn ask(address: SocketAddr, path: &str, fields: &[String]) -> Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
    for field in fields {
        request.push_str(field);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes())?;
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        got.extend_from_slice(piece.get(..count).unwrap_or_default());
        let text = String::from_utf8_lossy(&got);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            return response(head, "HTTP/1.1 ")
                .with_context(|| format!("no answer in HTTP/1.1: {head}"));
        }
        if count == 0 || got.len() > HEAD_LIMIT_BYTES {
            bail!("no whole head: {text}");
        }
    }
}

/// Does the same over TLS, by curl.
pub(crate) fn ask_encrypted(address: SocketAddr, path: &str, http2: bool) -> Result<Response> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", &TIMEOUT.as_secs().to_string()]);
    command.args(["--output", "/dev/null", "--dump-header", "-"]);
    let (flag, version) = if http2 { ("--http2", "HTTP/2 ") } else { ("--http1.1", "HTTP/1.1 ") };
    let text = process::output(command.arg(flag).arg(format!("https://{address}{path}")))?;
    let response = response(text.trim_end(), version);
    response.with_context(|| format!("no answer as it was asked for: {text}"))
}

/// Parses a response head without its blank line. Another version of HTTP is rejected: otherwise, a
/// server that closes after each response would be measured as one that does not.
fn response(head: &str, version: &str) -> Option<Response> {
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix(version)?.split(' ').next()?.parse().ok()?;
    let mut response = Response { status, etag: None, body_bytes: None };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("etag") {
            response.etag = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case("content-length") {
            response.body_bytes = value.parse().ok();
        }
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tag_and_length_are_read() {
        let head = "HTTP/1.1 304 Not Modified\r\nETAG: \"a:b\"\r\ncontent-length:13\r\nX: y";
        let expected =
            Response { status: 304, etag: Some("\"a:b\"".to_owned()), body_bytes: Some(13) };
        assert_eq!(response(head, "HTTP/1.1 "), Some(expected));
        let second = "HTTP/2 404 \r\nx: y";
        assert_eq!(response(second, "HTTP/2 ").map(|response| response.status), Some(404));
        for other in ["SSH-2.0", "HTTP/1.0 200 OK", second] {
            assert_eq!(response(other, "HTTP/1.1 "), None);
        }
    }
}
