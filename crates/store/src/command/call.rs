//! One call of a command.

use super::spec::{CommandSpec, KeyArguments};
use super::work_estimate::WorkLimit;
use crate::client::ClientState;
use crate::error::{Error, NOT_AN_INTEGER};
use crate::keyspace::key::Key;
use crate::keyspace::shard_locks::Locks;
use crate::resp::arguments::Arguments;
use crate::resp::number::parse_i64;
use crate::resp::reply_writer::Reply;

/// One call of a command. A value that is read stays borrowed from `locks` while its reply is
/// written, so `locks` and `reply` are separate fields.
#[derive(Debug)]
pub(crate) struct Call<'c, 's> {
    pub(crate) command: &'static CommandSpec,
    pub(crate) arguments: Arguments<'c>,
    /// The hash of the first argument after the name, if it is a key.
    pub(crate) first_hash: Option<u64>,
    pub(crate) client: &'c mut ClientState,
    /// The number of the database that the client has selected.
    pub(crate) database: usize,
    pub(crate) locks: &'c mut Locks<'s>,
    pub(crate) reply: Reply<'c>,
    /// The time, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// The limit that a handler checks before work that may take long (see
    /// [`WorkEstimate`](super::work_estimate::WorkEstimate)).
    pub(crate) work_limit: WorkLimit,
}

impl<'c> Call<'c, '_> {
    /// Returns an argument that the arity of the command guarantees.
    pub(crate) fn argument(&self, index: usize) -> &'c [u8] {
        self.arguments.get(index).expect("the arity was checked")
    }

    /// Returns a key, whose shard is locked.
    pub(crate) fn key(&self, index: usize) -> Key<'c> {
        let bytes = self.argument(index);
        match self.first_hash {
            Some(hash) if index == 1 => Key { bytes, hash },
            _ => match self.key_index(index).and_then(|key_index| self.locks.key_hash(key_index)) {
                Some(hash) => Key { bytes, hash },
                None => self.locks.store().key(bytes),
            },
        }
    }

    /// Returns the index of an argument among the keys, if all keys follow one another.
    fn key_index(&self, index: usize) -> Option<usize> {
        let KeyArguments::Range { first, step, .. } = self.command.keys else { return None };
        let from_first = index.checked_sub(first)?;
        from_first.is_multiple_of(step).then(|| from_first / step)
    }

    /// # Errors
    /// The argument is not an integer.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, Error> {
        parse_i64(self.argument(index)).ok_or(NOT_AN_INTEGER)
    }
}
