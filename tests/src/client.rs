//! Clients: one for each version of HTTP, and [`Client`] for cases that work over any of them.
//!
//! | Module | Gives |
//! |---|---|
//! | [`byte_stream`] | a stream of bytes to a server, plain or encrypted |
//! | [`async_stream`] | the same for libraries that wait by futures |
//! | [`http1`] | one HTTP/1 connection: bytes in, answers out |
//! | [`http2`] | one HTTP/2 connection: requests in, answers out |
//! | [`quic`] | one QUIC connection: streams of bytes |
//! | [`http3`] | one HTTP/3 connection: requests in, answers out |
//! | [`qpack`] | field sections of HTTP/3 |
//! | [`tunnel`] | tunnels over streams of HTTP/2 and HTTP/3 |
//! | [`open_exchanges`] | exchanges that are under way, over any of them |

pub mod async_stream;
pub mod byte_stream;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod open_exchanges;
pub mod qpack;
pub mod quic;
pub mod tunnel;

use crate::protocol::Protocol;
use crate::request::Request;
use crate::response::Response;
use crate::why_comparison::assert_explained;
use byte_stream::Peer;
pub use http1::{Connection, ask_unix};
use http2::Http2;
use http3::Http3;
use std::io;

/// A connection with the protocol of the way.
#[derive(Debug)]
pub enum Client {
    /// HTTP/1.
    Http1(Connection),
    /// HTTP/2.
    Http2(Box<Http2>),
    /// HTTP/3.
    Http3(Http3),
}

/// The reason why there is no response.
#[derive(Debug)]
pub enum Broken {
    /// The server ended the connection before the first byte of a response.
    Closed,
    /// The connection ended within a response.
    Short(String),
    /// The response is malformed.
    Malformed(String),
    /// The socket failed: reset, or silent for too long.
    Failed(io::Error),
    /// The server reset the stream with this code of HTTP/2 or HTTP/3.
    Reset(u64),
    /// The server closed the connection with such a code, or announced its end with it.
    GivenUp(u64),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Failed(error)
    }
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// Panics if no server listens, or the handshake fails.
    #[track_caller]
    pub fn open(peer: &Peer) -> Client {
        Client::try_open(peer).expect("a connection")
    }

    /// Connects.
    ///
    /// # Errors
    /// Returns the errors of the socket or of TLS.
    pub fn try_open(peer: &Peer) -> io::Result<Client> {
        Ok(match peer.protocol() {
            Protocol::Http1 | Protocol::Http1Tls => Client::Http1(Connection::try_to(peer)?),
            Protocol::Http2 | Protocol::Http2Clear => {
                Client::Http2(Box::new(Http2::try_open(peer)?))
            }
            Protocol::Http3 => Client::Http3(Http3::try_open(peer)?),
        })
    }

    /// Returns the client's own port.
    ///
    /// # Panics
    /// Panics if there is no connection.
    pub fn local_port(&self) -> u16 {
        let socket = match self {
            Client::Http1(connection) => connection.stream(),
            Client::Http2(connection) => connection.socket(),
            Client::Http3(connection) => return connection.quic().local_port(),
        };
        socket.local_addr().expect("a connection").port()
    }

    /// Sends a request and reads its response.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn exchange(&mut self, request: &Request) -> Response {
        match self {
            Client::Http1(connection) => {
                let response = connection.exchange(request);
                if let Some(served) = connection.served() {
                    assert_explained(served, request, &response);
                }
                response
            }
            other => match other.try_exchange(request) {
                Ok(response) => response,
                Err(broken) => panic!("{broken:?} instead of an answer to {request:?}"),
            },
        }
    }

    /// Sends as much of a request as the server accepts, and reads its response, which is checked
    /// by [`response_invariants`](crate::response_invariants).
    ///
    /// # Errors
    /// Returns the reason why there is no response.
    #[track_caller]
    pub fn try_exchange(&mut self, request: &Request) -> Result<Response, Broken> {
        match self {
            Client::Http1(connection) => {
                connection.send_if_open(request.bytes());
                connection.try_receive(request.is_head())
            }
            Client::Http2(connection) => connection.try_exchange(request),
            Client::Http3(connection) => connection.try_exchange(request),
        }
    }

    /// Sends a request without content, and disconnects when the first content of its response has
    /// arrived.
    ///
    /// # Panics
    /// Panics if none arrives.
    #[track_caller]
    pub fn leave_within(self, request: &Request) {
        match self {
            Client::Http1(mut connection) => {
                connection.send(request.bytes());
                connection.read_some(1000).expect("the first bytes");
            }
            Client::Http2(mut connection) => {
                connection.try_begin(request).expect("the first bytes");
            }
            Client::Http3(connection) => {
                let rest = connection.try_begin(request).expect("the first bytes");
                drop(connection);
                drop(rest);
            }
        }
    }

    /// Sends a request without content, and stops the response when its first content has arrived;
    /// the connection stays open.
    ///
    /// # Panics
    /// Panics if none arrives, or over HTTP/1, where this is impossible.
    #[track_caller]
    pub fn stop_within(&mut self, request: &Request) {
        match self {
            Client::Http1(_) => panic!("answers of HTTP/1 cannot be stopped"),
            Client::Http2(connection) => {
                connection.try_begin(request).expect("the first bytes");
                connection.stop();
            }
            Client::Http3(connection) => {
                drop(connection.try_begin(request).expect("the first bytes"));
            }
        }
    }
}
