//! Commands and their replies, without a network.

mod bitmaps;
mod conversation;
mod corpus;
mod hashes;
mod jobs;
mod keys;
mod lists;
mod local;
#[path = "../oracle/mod.rs"]
mod oracle;
mod payloads;
mod rate_limit;
mod server;
mod sets;
mod slow_log;
mod sort;
mod sorted_sets;
mod strings;
mod substrings;
mod transactions;
