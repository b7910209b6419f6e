//! HTTP/2 from outside: frames in, events and frames out.

mod budgets;
mod field_semantics;
mod flow_control;
mod frames;
mod h2_crate_client;
mod priorities;
mod properties;
mod raw_client;
mod sent_frames;
mod stream_states;
