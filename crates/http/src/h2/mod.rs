//! The HTTP/2 wire machine, server side (RFC 9113, RFC 9218): bytes in, events out, frames written.
//!
//! [`session`] is one connection. Received bytes go to [`step`](session::Session::step), which uses
//! at most one frame and returns its event; responses are sent by the functions of `send`. DATA is
//! passed on in pieces and never waits for its frame to be whole; any other frame does, in the
//! buffer of the caller.
//!
//! Content is bounded by windows in both directions. A client may send more on a stream as received
//! content is [consumed](session::Session::consumed): see `stream_window_tuning`. Content of
//! responses is sent as [`room`](session::Session::room) allows, in the order of
//! [`next_ready`](session::Session::next_ready).
//!
//! A client that makes work without end runs out of one of its
//! [budgets](crate::flood_budget::Budget). All of this depends on one duty of the caller: while
//! much of the session's output waits to be sent, it must not pass more input to the session.
//!
//! | Module | Contents |
//! |---|---|
//! | [`session`], [`event`] | a connection, and the actions of its client, one per step |
//! | [`frame`] | the header, the types, the flags and the codes of frames |
//! | `headers_frames` | HEADERS and CONTINUATION |
//! | `data_frames`, `control` | DATA; all other frames |
//! | `stream_table` | the open streams of a connection |
//! | `stream_window_tuning` | flow control in both directions |
//! | `send` | the frames that the server sends |
//! | [`limits`] | every limit of HTTP/2 alone, with its reason |

mod control;
mod data_frames;
pub mod event;
pub mod frame;
mod headers_frames;
pub mod limits;
mod send;
pub mod session;
mod stream_table;
mod stream_window_tuning;
