//! HTTP/3 from outside: bytes of streams in, events and frames out.

mod budgets;
mod control;
mod peer;
mod priorities;
mod properties;
mod requests;
mod sending;
