//! The HTTP/2 wire machine, server side (RFC 9113, RFC 9218): bytes in, events out, frames written.
//!
//! [`session`] is one connection. What came goes to [`step`](session::Session::step), which uses at
//! most one frame and says what it means; answers go out by the functions of `send`. DATA is handed
//! on as it comes and never waits for its frame to be whole; any other frame does, in the buffer of
//! the caller.
//!
//! Content is bounded by windows in both directions. A client may send more on a stream as what has
//! come is [consumed](session::Session::consumed): see `windows`. Content of responses goes as
//! [`room`](session::Session::room) allows, in the order of
//! [`next_ready`](session::Session::next_ready).
//!
//! A client that makes work without end runs out of one of its [budgets](crate::budget::Budget).
//! All of this rests on the caller on one point: while much of what the session has written waits
//! to be sent, it must not be given more input.

mod control;
mod data;
pub mod event;
pub mod frame;
mod heads;
pub mod limits;
mod send;
pub mod session;
mod streams;
mod windows;
