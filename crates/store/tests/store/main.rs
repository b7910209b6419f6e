//! Commands and their replies, without a network.

mod bitmaps;
mod corpus;
mod dump_restore;
#[path = "../fuzz_checks/mod.rs"]
mod fuzz_checks;
mod hashes;
mod keys;
mod lists;
mod local_clients;
mod long_commands;
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
