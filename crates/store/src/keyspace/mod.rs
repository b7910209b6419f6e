//! Keys and their values: tables, records, shards with their locks.

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
