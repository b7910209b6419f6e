//! Open exchanges: the client reads and sends parts of them at times that a case decides, and over
//! HTTP/2 and HTTP/3 exchanges other requests on the same connection meanwhile.
//!
//! The client has no buffer for unread content: over HTTP/2 and HTTP/3 the window of the stream is
//! used up, over HTTP/1 the buffers of the kernel are full.

use super::http2::Http2;
use super::http3::Http3;
use super::{Broken, Client, http1, http3};
use crate::protocol::Protocol;
use crate::request::Request;
use crate::response::Response;
use crate::server::Server;
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// The window of each stream for content that is not requested yet.
pub const ROOM_BYTES: u32 = 32 << 10;
/// The window of a connection of HTTP/3 for all of its streams.
const CONNECTION_BYTES: u32 = 4 << 20;
/// The receive buffer of the kernel for a client of HTTP/1: a few segments of the loopback
/// interface.
const RECEIVE_BYTES: usize = 256 << 10;

/// An exchange. Only the client that has begun it can continue it.
#[derive(Debug)]
pub struct Underway {
    is_upload: bool,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Http1(http1::Part),
    Http2(u32),
    Http3(Box<http3::Part>),
}

impl Client {
    /// Connects with small buffers for unread content.
    ///
    /// # Panics
    /// Panics if the connection fails.
    #[track_caller]
    pub fn with_little_room(server: &Server) -> Client {
        let peer = server.peer();
        match server.protocol() {
            Protocol::Http1 | Protocol::Http1Tls => {
                let connection = server.connect();
                set_socket_recv_buffer_size(connection.stream(), RECEIVE_BYTES).expect("set");
                Client::Http1(connection)
            }
            Protocol::Http2 | Protocol::Http2Clear => {
                let connection = Http2::with_window(peer, ROOM_BYTES);
                Client::Http2(Box::new(connection.expect("a connection")))
            }
            Protocol::Http3 => {
                let peer = peer.clone().windows([ROOM_BYTES, CONNECTION_BYTES]);
                Client::Http3(Http3::try_open(&peer).expect("a connection"))
            }
        }
    }

    /// Sends a request without content, and reads nothing of its response.
    ///
    /// # Panics
    /// Panics if the server does not accept it.
    #[track_caller]
    pub fn begin(&mut self, request: &Request) -> Underway {
        self.set_aside(request, false)
    }

    /// Sends the head of a request, whose content follows by [`Client::send`] and
    /// [`Client::finish`].
    ///
    /// # Panics
    /// Panics if the server does not accept it.
    #[track_caller]
    pub fn begin_upload(&mut self, request: &Request) -> Underway {
        self.set_aside(&request.clone().field("Transfer-Encoding", "chunked"), true)
    }

    #[track_caller]
    fn set_aside(&mut self, request: &Request, is_upload: bool) -> Underway {
        let begun = match self {
            Client::Http1(connection) => {
                connection.send(request.head_bytes());
                Ok(Way::Http1(http1::Part::default()))
            }
            Client::Http2(connection) => {
                connection.try_set_aside(request, is_upload).map(Way::Http2)
            }
            Client::Http3(connection) => {
                let part = connection.try_set_aside(request, is_upload);
                part.map(|part| Way::Http3(Box::new(part)))
            }
        };
        Underway { is_upload, way: it_goes_on(begun) }
    }

    /// Reads until this many bytes of content have arrived in total, or the end of the response.
    /// Returns the content so far.
    ///
    /// # Panics
    /// Panics if it does not arrive.
    #[track_caller]
    pub fn take<'a>(&'a mut self, underway: &'a mut Underway, bytes: usize) -> &'a [u8] {
        it_goes_on(match (self, &mut underway.way) {
            (Client::Http1(connection), Way::Http1(part)) => connection.try_take(part, bytes),
            (Client::Http2(connection), Way::Http2(stream)) => connection.try_take(*stream, bytes),
            (Client::Http3(_), Way::Http3(part)) => part.try_take(bytes),
            _ => panic!("{ANOTHER}"),
        })
    }

    /// Sends more content.
    ///
    /// # Panics
    /// Panics if the server does not accept it.
    #[track_caller]
    pub fn send(&mut self, underway: &mut Underway, piece: &[u8]) {
        it_goes_on(match (self, &mut underway.way) {
            (Client::Http1(connection), Way::Http1(_)) => {
                connection.send(chunk(piece));
                Ok(())
            }
            (Client::Http2(connection), Way::Http2(stream)) => {
                connection.try_send_piece(*stream, piece)
            }
            (Client::Http3(_), Way::Http3(part)) => part.try_send(piece),
            _ => panic!("{ANOTHER}"),
        });
    }

    /// Sends the rest of an upload, and reads the response to its end. Over HTTP/1 the rest has to
    /// fit into the buffers of the kernel.
    ///
    /// # Panics
    /// Panics if no response arrives, or one that breaks the rules.
    #[track_caller]
    pub fn finish(&mut self, underway: Underway, rest: &[u8]) -> Response {
        it_goes_on(self.try_finish(underway, rest))
    }

    /// Does the same as [`Client::finish`], for a response that may be incomplete.
    ///
    /// # Errors
    /// Returns the reason why there is no complete response.
    pub fn try_finish(&mut self, underway: Underway, rest: &[u8]) -> Result<Response, Broken> {
        let Underway { is_upload, way } = underway;
        assert!(is_upload || rest.is_empty(), "the request is whole already");
        let rest = is_upload.then_some(rest);
        match (self, way) {
            (Client::Http1(connection), Way::Http1(part)) => {
                if let Some(rest) = rest {
                    connection.send([chunk(rest), b"0\r\n\r\n".to_vec()].concat());
                }
                connection.try_finish(part)
            }
            (Client::Http2(connection), Way::Http2(stream)) => connection.try_finish(stream, rest),
            (Client::Http3(connection), Way::Http3(part)) => connection.try_finish(*part, rest),
            _ => panic!("{ANOTHER}"),
        }
    }

    /// Asks the server to stop; the connection stays open.
    ///
    /// # Panics
    /// Panics over HTTP/1, where this is impossible.
    #[track_caller]
    pub fn stop(&mut self, underway: Underway) {
        match (self, underway.way) {
            (Client::Http1(_), _) => panic!("answers of HTTP/1 cannot be stopped"),
            (Client::Http2(connection), Way::Http2(stream)) => connection.stop_aside(stream),
            (Client::Http3(_), Way::Http3(part)) => drop(part),
            _ => panic!("{ANOTHER}"),
        }
    }
}

const ANOTHER: &str = "an exchange of another client";

/// Returns a chunk of HTTP/1; nothing for an empty piece, which would be the last chunk.
fn chunk(piece: &[u8]) -> Vec<u8> {
    match piece {
        [] => Vec::new(),
        _ => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
    }
}

#[track_caller]
fn it_goes_on<T>(outcome: Result<T, Broken>) -> T {
    match outcome {
        Ok(value) => value,
        Err(broken) => panic!("{broken:?} instead of an exchange that goes on"),
    }
}
