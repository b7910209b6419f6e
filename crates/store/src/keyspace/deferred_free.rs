//! Memory that takes long to free, so another thread than a worker frees it.

use super::database::Database;
use crate::resp::arguments::OwnedArguments;
use crate::value::StoreValue;

/// An object that takes long to free.
#[derive(Debug)]
#[expect(dead_code, reason = "they are kept to be dropped elsewhere")]
pub(crate) enum Garbage {
    /// The value of a key.
    Value(StoreValue),
    /// All keys of a database in one shard.
    Database(Box<Database>),
    /// Bytes that a client has sent.
    Bytes(Vec<u8>),
    /// The arguments of the commands of a transaction.
    Transaction(Vec<OwnedArguments>),
}
