//! Keys and their values: tables, records, shards with their locks.
//!
//! | Module | Contents |
//! |---|---|
//! | `shard` | a part of all databases with its lock |
//! | `shard_locks` | the shards that a command has locked |
//! | `database` | the keys of one database in one shard |
//! | `segment_table` | the hash table that grows by segments |
//! | `key`, `record` | the names of values with their hashes; a key with its value and its expiry |
//! | `walk` | walks through all keys of a database |
//! | `watches` | the watched keys of a database |
//! | `access_statistics`, `eviction` | when a key was used; which keys are removed for memory |
//! | `allocation_size` | the memory that an allocation really uses |
//! | `deferred_free` | memory that takes long to free |

pub(crate) mod access_statistics;
pub(crate) mod allocation_size;
pub(crate) mod database;
pub(crate) mod deferred_free;
pub(crate) mod eviction;
pub(crate) mod key;
pub(crate) mod record;
pub(crate) mod segment_table;
pub(crate) mod shard;
pub(crate) mod shard_locks;
pub(crate) mod walk;
pub(crate) mod watches;
