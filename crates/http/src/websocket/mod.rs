//! The server's side of WebSockets (RFC 6455), with compressed messages (RFC 7692): bytes in,
//! messages out, and the other way round.
//!
//! A message may come in pieces, as its bytes come: no message is collected here. Neither side
//! keeps a history of the messages before (`no_context_takeover`), so a connection that waits has
//! no memory for compression.
//!
//! | Module | Subject |
//! |---|---|
//! | [`handshake`], [`deflate_offer`] | the request, the response, and whether to compress |
//! | [`connection`] | both directions, responses to pings, the closing handshake |
//! | [`frame_reader`] | the frames of a client |
//! | `mask`, `utf8_check` | the mask of these frames; the check that text in pieces is UTF-8 |
//! | [`frame_writer`] | the frames of the server |
//! | [`deflate_pool`] | the compressors and decompressors of a worker |
//! | [`frame_head`], [`close_frame`] | kinds of messages; codes with which a WebSocket is closed |
//! | [`limits`], [`error`] | limits and errors |
//!
//! ```
//! use pinion_http::websocket::connection::{InputEvent, WebSocketConnection};
//! use pinion_http::websocket::frame_head::MessageKind;
//! use pinion_http::websocket::limits::MESSAGE_MAX_BYTES;
//!
//! let mut connection = WebSocketConnection::new(MESSAGE_MAX_BYTES, None);
//! let (mut content, mut out) = (Vec::new(), Vec::new());
//! // The example of RFC 6455 §5.7.
//! let received = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
//! let input = connection.read(received, 1000, &mut content, &mut out);
//! assert_eq!(input.used, received.len());
//! let (kind, bytes) = (MessageKind::Text, 5);
//! assert_eq!(input.event, InputEvent::Message { kind, bytes, is_end: true });
//! assert_eq!(content, b"Hello");
//! connection.write(kind, &content, true, &mut out);
//! assert_eq!(out, b"\x81\x05Hello");
//! ```

pub mod close_frame;
pub mod connection;
pub mod deflate_offer;
pub mod deflate_pool;
pub mod error;
pub mod frame_head;
pub mod frame_reader;
pub mod frame_writer;
pub mod handshake;
pub mod limits;
mod mask;
mod utf8_check;
