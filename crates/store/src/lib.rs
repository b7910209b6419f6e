//! A key-value store that clients of Redis can use: bytes and the time in, replies out.
//!
//! **In:** the bytes of connections, and the time. **Out:** replies. It opens no sockets and
//! starts no threads, and the only clocks that it reads are those that the settings have, for the
//! slow log and for `TIME`. One [`Store`](store::Store) is shared by all threads, and each
//! connection has a [`Client`](client::Client).
//!
//! | Module | Holds |
//! |---|---|
//! | [`client`] | one connection: its transaction, its database, the beginning of a command |
//! | [`local_client`] | clients in the same process, without a connection |
//! | `clients` | all connections, as others see them |
//! | [`job`] | commands that take long, for other threads than those of the connections |
//! | `resp` | the protocol: parsing of commands, writing of replies |
//! | `dispatch` | from a command to its call: checks, locks |
//! | `command` | the table of commands, and what they do |
//! | `lookahead`, `prefetch` | memory that is read soon |
//! | [`store`] | the shards that all clients share |
//! | [`gcra`] | rate limits |
//! | `glob` | patterns of keys |
//! | `keyspace` | keys, records, tables, locks, expiry, watched keys |
//! | [`read_set`] | what a local client has read, and whether it has changed since |
//! | `rdb` | values as `DUMP` writes them |
//! | `value` | the types of values |
//! | [`settings`], [`limits`] | what an operator chooses, and what is fixed |
//! | `slow_log` | commands that took long |
//! | [`error`] | errors of commands with their texts |
#![deny(unsafe_code)]

pub mod client;
mod clients;
mod command;
mod dispatch;
pub mod error;
pub mod gcra;
mod glob;
pub mod job;
mod keyspace;
pub mod limits;
pub mod local_client;
mod lookahead;
mod prefetch;
mod rdb;
pub mod read_set;
mod resp;
pub mod settings;
mod slow_log;
pub mod store;
mod value;

pub use resp::output::{OutputPart, OwnedOutputPart, ReplyOutput};
pub use resp::reply_reader::{ReplyElement, ReplyReader};
