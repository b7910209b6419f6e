//! HTTP/3 from outside: bytes of streams in, events and frames out.

mod budgets;
mod priorities;
mod properties;
mod raw_client;
mod request_streams;
mod sent_frames;
mod unidirectional_streams;
