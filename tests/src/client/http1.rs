//! One HTTP/1 connection that sends bytes and reads responses.

use super::Broken;
use super::byte_stream::{Peer, Wire};
use crate::PATIENCE;
use crate::protocol::Protocol;
use crate::request::Request;
use crate::response::{Framing, Response, parse_chunk, parse_head};
use crate::response_invariants;
use crate::why_comparison::Served;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// A connection, and its received bytes that are not read yet.
#[derive(Debug)]
pub struct Connection {
    wire: Wire,
    held: Vec<u8>,
    protocol: Protocol,
    served: Option<Arc<Served>>,
}

/// The received part of a response that is read piece by piece. A new value is empty.
#[derive(Debug, Default)]
pub struct Part {
    head: Option<(Response, Framing)>,
    body: Vec<u8>,
    is_over: bool,
}

impl Connection {
    /// Connects over TCP.
    ///
    /// # Panics
    /// Panics if no server listens.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).expect("a connection")
    }

    /// Connects over TCP.
    ///
    /// # Errors
    /// Returns the errors of the socket.
    pub fn try_open(address: SocketAddr) -> io::Result<Connection> {
        Connection::try_to(&Peer::plain(address))
    }

    /// Connects to a peer.
    ///
    /// # Errors
    /// Returns the errors of the socket or of TLS.
    ///
    /// # Panics
    /// Panics if the peer does not speak HTTP/1.
    #[track_caller]
    pub fn try_to(peer: &Peer) -> io::Result<Connection> {
        let protocol = peer.protocol();
        assert!(protocol.is_http1(), "a case about bytes of HTTP/1 has to say `http1_only`");
        let served = peer.served().cloned();
        Ok(Connection { wire: Wire::open(peer)?, held: Vec::new(), protocol, served })
    }

    /// Returns the description of the server for `pinion why`.
    pub(super) fn served(&self) -> Option<&Served> {
        self.served.as_deref()
    }

    /// Returns the socket, for tests that manipulate it.
    pub fn stream(&self) -> &TcpStream {
        self.wire.socket()
    }

    /// Sends bytes unchanged.
    ///
    /// # Panics
    /// Panics if the server does not accept them.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.wire.write_all(bytes.as_ref()).expect("the server takes bytes");
    }

    /// Sends as many bytes as the server accepts before it closes.
    pub fn send_if_open(&mut self, bytes: impl AsRef<[u8]>) {
        let _closed_meanwhile = self.wire.write_all(bytes.as_ref());
    }

    /// Ends the sending side of the connection.
    #[track_caller]
    pub fn finish(&mut self) {
        self.wire.finish().expect("an open connection");
    }

    /// Sends a request and reads its response.
    #[track_caller]
    pub fn exchange(&mut self, request: &Request) -> Response {
        self.send(request.bytes());
        self.receive_to(request)
    }

    /// Reads the response to a request.
    #[track_caller]
    pub fn receive_to(&mut self, request: &Request) -> Response {
        match self.try_receive(request.is_head()) {
            Ok(response) => response,
            Err(broken) => panic!("{broken:?} instead of an answer"),
        }
    }

    /// Reads the response to any request but HEAD.
    #[track_caller]
    pub fn receive(&mut self) -> Response {
        match self.try_receive(false) {
            Ok(response) => response,
            Err(broken) => panic!("{broken:?} instead of an answer"),
        }
    }

    /// Reads one response, interim or final, and checks it with [`response_invariants`].
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_receive(&mut self, to_head: bool) -> Result<Response, Broken> {
        let response = self.try_receive_of_others(to_head)?;
        response_invariants::check(&response, to_head);
        Ok(response)
    }

    /// Reads one response, interim or final, of an application, which need not obey the rules of
    /// this server.
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    pub fn try_receive_of_others(&mut self, to_head: bool) -> Result<Response, Broken> {
        let (mut response, framing) = loop {
            let parsed = parse_head(&self.held, to_head, self.protocol);
            let parsed = parsed.map_err(Broken::Malformed)?;
            if let Some((response, framing, bytes)) = parsed {
                self.held.drain(..bytes);
                break (response, framing);
            }
            if !self.fill()? {
                return Err(if self.held.is_empty() {
                    Broken::Closed
                } else {
                    Broken::Short(format!("a head: {}", self.held.escape_ascii()))
                });
            }
        };
        response.body = self.content(framing)?;
        Ok(response)
    }

    /// Reads until this many bytes of the content of a response have arrived, or its end.
    ///
    /// # Errors
    /// Returns the reason why they do not arrive.
    pub fn try_take<'a>(&mut self, part: &'a mut Part, bytes: usize) -> Result<&'a [u8], Broken> {
        while part.body.len() < bytes && !part.is_over {
            if !self.take_piece(part)? && !self.fill()? {
                return Err(Broken::Short(format!("{} of {bytes} bytes", part.body.len())));
            }
        }
        Ok(&part.body)
    }

    /// Reads the rest of a response of which a part has arrived.
    ///
    /// # Errors
    /// Returns the reason why it does not arrive.
    #[track_caller]
    pub fn try_finish(&mut self, mut part: Part) -> Result<Response, Broken> {
        self.try_take(&mut part, usize::MAX)?;
        let head = part.head.ok_or_else(|| Broken::Malformed("no head".to_owned()))?;
        let mut response = head.0;
        response.body = part.body;
        response_invariants::check(&response, false);
        Ok(response)
    }

    /// Parses the next piece of a response from the received bytes; returns false if it is
    /// incomplete.
    fn take_piece(&mut self, part: &mut Part) -> Result<bool, Broken> {
        let Some((_, framing)) = &part.head else {
            let parsed = parse_head(&self.held, false, self.protocol);
            let Some((head, framing, bytes)) = parsed.map_err(Broken::Malformed)? else {
                return Ok(false);
            };
            self.held.drain(..bytes);
            part.is_over = framing == Framing::Length(0);
            part.head = Some((head, framing));
            return Ok(true);
        };
        let used = match framing {
            Framing::Length(bytes) => {
                let piece = self.held.len().min(bytes - part.body.len());
                part.body.extend_from_slice(&self.held[..piece]);
                part.is_over = part.body.len() == *bytes;
                piece
            }
            Framing::Chunked => match parse_chunk(&self.held).map_err(Broken::Malformed)? {
                None => 0,
                Some((chunk, bytes)) => {
                    part.body.extend_from_slice(chunk);
                    part.is_over = chunk.is_empty();
                    bytes
                }
            },
            Framing::UntilClose => {
                return Err(Broken::Malformed("only its end ends this answer".to_owned()));
            }
        };
        self.held.drain(..used);
        Ok(used > 0)
    }

    /// Reads at most `bytes` bytes of any input, like a slow reader.
    ///
    /// # Errors
    /// Returns the errors of the socket.
    pub fn read_some(&mut self, bytes: usize) -> io::Result<usize> {
        let mut buffer = vec![0; bytes];
        let count = self.wire.read(&mut buffer)?;
        self.held.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    /// Asserts that the server ends the connection without sending anything more.
    #[track_caller]
    pub fn expect_close(&mut self) {
        assert!(self.is_silent_until_close(), "more bytes: {}", self.held.escape_ascii());
    }

    /// Returns whether nothing more arrives before the end, which must come.
    #[track_caller]
    pub fn is_silent_until_close(&mut self) -> bool {
        loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return self.held.is_empty(),
                Err(Broken::Failed(error)) if error.kind() == ErrorKind::ConnectionReset => {
                    return self.held.is_empty();
                }
                Err(broken) => panic!("the connection does not end: {broken:?}"),
            }
        }
    }

    /// Returns all bytes until the end, beginning with those that were received before.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        self.try_rest().expect("an orderly end")
    }

    /// Returns all bytes until the end, beginning with those that were received before.
    ///
    /// # Errors
    /// Returns the error of the socket if there is no orderly end.
    pub fn try_rest(&mut self) -> Result<Vec<u8>, Broken> {
        while self.fill()? {}
        Ok(std::mem::take(&mut self.held))
    }

    fn content(&mut self, framing: Framing) -> Result<Vec<u8>, Broken> {
        match framing {
            Framing::Length(bytes) => {
                while self.held.len() < bytes {
                    self.expect_more(bytes)?;
                }
                let rest = self.held.split_off(bytes);
                Ok(std::mem::replace(&mut self.held, rest))
            }
            Framing::UntilClose => {
                while self.fill()? {}
                Ok(std::mem::take(&mut self.held))
            }
            Framing::Chunked => self.chunks(),
        }
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Broken> {
        let mut content = Vec::new();
        loop {
            match parse_chunk(&self.held).map_err(Broken::Malformed)? {
                Some((chunk, bytes)) => {
                    let last = chunk.is_empty();
                    content.extend_from_slice(chunk);
                    self.held.drain(..bytes);
                    if last {
                        return Ok(content);
                    }
                }
                None => self.expect_more(content.len() + 1)?,
            }
        }
    }

    fn expect_more(&mut self, bytes: usize) -> Result<(), Broken> {
        if self.fill()? {
            Ok(())
        } else {
            Err(Broken::Short(format!("{} of {bytes} bytes", self.held.len())))
        }
    }

    /// Reads available bytes; returns false at the end of the stream.
    fn fill(&mut self) -> Result<bool, Broken> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.wire.read(&mut buffer) {
                Ok(count) => {
                    self.held.extend_from_slice(&buffer[..count]);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken::Failed(error)),
            }
        }
    }
}

/// Requests the root of a host over a Unix socket; returns all received bytes as text.
///
/// # Panics
/// Panics if no response arrives.
#[track_caller]
pub fn ask_unix(socket: &Path, host: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("an answer");
    response
}
