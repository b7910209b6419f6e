//! The HTTP/3 wire machine, server side (RFC 9114, RFC 9204, RFC 9218): bytes of streams in, events
//! out, frames written.
//!
//! The transport orders the bytes of each stream, bounds them by windows and carries resets; it is
//! the caller's. Here [`session`] is one connection and the unidirectional streams of the client,
//! [`request_stream`] is one request stream, and [`send`] writes the output of one. A request frame
//! of fields waits in the buffer of the caller until it is whole; DATA is passed on as it arrives.
//!
//! This side has no dynamic table (RFC 9204 §3.2.3): a capacity of 0 is the default. So it opens no
//! decoder stream, which would stay empty (§4.2), and no request waits for another one. It opens an
//! encoder stream once it uses the table of the client.
//!
//! Work that a client could cause without end has a [`Budget`](crate::flood_budget::Budget), the
//! same as in HTTP/2.
//!
//! | Module | Contents |
//! |---|---|
//! | [`session`], [`event`] | a connection, and the actions of its client, one per step |
//! | [`request_stream`] | a request stream |
//! | [`unidirectional_streams`] | the unidirectional streams of the client |
//! | [`send`] | the output of a request stream |
//! | [`frame`], [`varint`] | frames with their codes, and integers of variable length |
//! | [`limits`] | every limit of HTTP/3 alone, with its reason |

pub mod event;
pub mod frame;
pub mod limits;
pub mod request_stream;
pub mod send;
pub mod session;
pub mod unidirectional_streams;
pub mod varint;
