//! HTTP/2 from outside: frames in, events and frames out.

mod budgets;
mod client;
mod flow;
mod frames;
mod heads;
mod peer;
mod priorities;
mod properties;
mod sending;
mod states;
