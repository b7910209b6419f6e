//! Commands and their replies, without a network.

mod bitmaps;
mod corpus;
mod dump_restore;
mod hashes;
mod keys;
mod lists;
mod local_clients;
mod long_commands;
#[path = "../oracle/mod.rs"]
mod oracle;
mod rate_limit;
mod server_commands;
mod sets;
mod slow_log;
mod sort;
mod sorted_sets;
mod strings;
mod substrings;
mod test_client;
mod transactions;
