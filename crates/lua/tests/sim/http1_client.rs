//! A client of HTTP/1.1 on the simulated network: one request at a time, on one connection.

use pinion_engine::backend::sim::{Client, Connect, Network, Read};

/// Bytes that fit between the server and a client: less than a large response, so that the response
/// has to wait.
const WINDOW_BYTES: usize = 30_000;

/// A connection, and the current request on it.
pub(crate) struct Talk {
    network: Network,
    client: Client,
    unsent: Vec<u8>,
    came: Vec<u8>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// The progress of a request.
#[derive(Debug)]
pub(crate) enum Heard {
    /// More has to arrive.
    Nothing,
    Response(Response),
    /// The connection is closed, in the middle of the response or before it.
    Closed,
}

impl Response {
    /// Returns the value of a field, whose name is in the case that the server uses.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let of_name = |line: &&str| line.len() > name.len() && line.starts_with(name);
        let line = self.head.lines().find(of_name)?;
        line[name.len()..].strip_prefix(": ")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

impl Talk {
    /// Opens a new connection that no fault breaks.
    pub(crate) fn new(network: &Network) -> Self {
        let window_bytes = WINDOW_BYTES;
        let connect = Connect { listener: 0, window_bytes, local: false, protected: true };
        let client = network.connect(connect);
        Self { network: network.clone(), client, unsent: Vec::new(), came: Vec::new() }
    }

    /// Queues a request after the previous response is complete.
    pub(crate) fn ask(&mut self, request: &[u8]) {
        assert!(self.unsent.is_empty() && self.came.is_empty(), "one request at a time");
        self.unsent.extend_from_slice(request);
    }

    /// Sends up to `max_bytes` of the request.
    pub(crate) fn send(&mut self, max_bytes: usize) {
        let bytes = max_bytes.min(self.unsent.len());
        let sent = self.network.send(self.client, &self.unsent[..bytes]);
        self.unsent.drain(..sent);
    }

    pub(crate) fn has_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Returns whether a part of the response has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        !self.came.is_empty()
    }

    /// Reads the available bytes.
    pub(crate) fn hear(&mut self) -> Heard {
        let read = self.network.read(self.client, usize::MAX, &mut self.came);
        match taken(&mut self.came) {
            Some(response) => Heard::Response(response),
            None if matches!(read, Read::Ended | Read::Reset) => Heard::Closed,
            None => Heard::Nothing,
        }
    }

    pub(crate) fn reset(self) {
        self.network.reset(self.client);
    }

    pub(crate) fn leave(self) {
        assert!(self.came.is_empty(), "more than was asked for: {:?}", self.came);
        self.network.leave(self.client);
    }
}

/// Removes the first response from the received bytes, if it is complete.
fn taken(came: &mut Vec<u8>) -> Option<Response> {
    let head_bytes = came.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(came[..head_bytes].to_vec()).expect("a head is text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.expect("a status");
    let mut response = Response { status, head, body: Vec::new() };
    let rest = &came[head_bytes..];
    let body_bytes = match response.field("Content-Length") {
        Some(length) => {
            let bytes = length.parse().expect("a length");
            response.body.extend_from_slice(rest.get(..bytes)?);
            bytes
        }
        None if response.field("Transfer-Encoding").is_some() => chunks(rest, &mut response.body)?,
        None => 0,
    };
    came.drain(..head_bytes + body_bytes);
    Some(response)
}

/// Decodes chunked content; returns the number of its bytes, if it is complete.
fn chunks(came: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let line_bytes = came[at..].windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&came[at..at + line_bytes]).expect("a size");
        let bytes = usize::from_str_radix(size, 16).expect("a size");
        at += line_bytes + 2;
        into.extend_from_slice(came.get(at..at + bytes)?);
        at += bytes;
        assert_eq!(came.get(at..at + 2)?, b"\r\n", "a chunk has an end");
        at += 2;
        if bytes == 0 {
            return Some(at);
        }
    }
}
