//! A key-value store in memory for clients of Redis.
//!
//! **Input:** the bytes of connections, and the time. **Output:** replies. The crate opens no
//! sockets and starts no threads, and the only clocks that it reads are those of the settings, for
//! the slow log and for `TIME`. One [`Store`](store::Store) is shared by all threads, and each
//! connection has a [`Client`](client::Client).
//!
//! | Module | Holds |
//! |---|---|
//! | [`client`] | one connection: its transaction, its database, the beginning of a command |
//! | [`local_client`] | clients in the same process, without a connection |
//! | `client_registry` | the registry of all connections |
//! | [`job`] | commands that take long, for other threads than those of the connections |
//! | `resp` | the protocol: parsing of commands, writing of replies |
//! | `dispatch` | dispatch of commands: lookup, checks, locks |
//! | `command` | the table of commands, and their handlers |
//! | `lookahead`, `prefetch` | prefetching of memory that will be read soon |
//! | [`store`] | the shards that all clients share |
//! | [`gcra`] | rate limits |
//! | `glob` | patterns of keys |
//! | `keyspace` | keys, records, tables, locks, expiry, watched keys |
//! | [`read_set`] | the keys that a local client has read, with detection of changes |
//! | `rdb` | the format of `DUMP` and `RESTORE` |
//! | `value` | the types of values |
//! | [`settings`], [`limits`] | the settings of the operator, and the fixed limits |
//! | `slow_log` | the log of slow commands |
//! | [`error`] | errors of commands with their texts |
#![deny(unsafe_code)]

pub mod client;
mod client_registry;
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
