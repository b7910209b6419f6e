//! A real redis-server and a store get the same random commands: the replies are the same.
//!
//! Each type of value has a module with a table of its commands ([`command_table`]). A new command
//! needs a row, and a new type needs a module in [`GROUPS`].

mod bitmaps;
mod command_table;
mod comparison;
mod dump_restore;
mod generator;
mod hashes;
mod keys;
mod lists;
#[path = "../fuzz_checks/payload_checksum.rs"]
mod payload_checksum;
mod read_sets;
mod redis_server;
mod resp_reply;
mod sets;
mod sort;
mod sorted_sets;
mod strings;
mod ziplist_listpack_writer;

/// All tables: the commands of the others are mixed in when those of one are compared.
const GROUPS: &[&command_table::Group] = &[
    &keys::GROUP,
    &strings::GROUP,
    &bitmaps::GROUP,
    &hashes::GROUP,
    &lists::GROUP,
    &sets::GROUP,
    &sorted_sets::GROUP,
];
