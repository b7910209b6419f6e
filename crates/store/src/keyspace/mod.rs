//! Keys and their values: tables, records, shards with their locks.
//!
//! | Module | Contents |
//! |---|---|
//! | `shard` | a part of all databases with its lock |
//! | `locks` | the shards that a command has locked |
//! | `database` | the keys of one database in one shard |
//! | `segment_table` | the hash table that grows by segments |
//! | `key`, `record` | the names of values with their hashes; a key with its value and its expiry |
//! | `walk` | walks through all keys of a database |
//! | `watches` | the watched keys of a database |
//! | `access`, `eviction` | the access data of a key; the removal of keys at the limit of memory |
//! | `allocation` | the memory that an allocation really uses |
//! | `garbage` | memory that takes long to free |

pub(crate) mod access;
pub(crate) mod allocation;
pub(crate) mod database;
pub(crate) mod eviction;
pub(crate) mod garbage;
pub(crate) mod key;
pub(crate) mod locks;
pub(crate) mod record;
pub(crate) mod segment_table;
pub(crate) mod shard;
pub(crate) mod walk;
pub(crate) mod watches;
