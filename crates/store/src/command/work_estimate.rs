//! Estimates the work of a command, so that no worker executes one that takes long.

use super::spec::{CommandSpec, Flags, KeyArguments};
use super::table::CommandRow;
use crate::dispatch::key_positions;
use crate::error::{Error, TOO_MUCH_WORK};
use crate::keyspace::key::Key;
use crate::keyspace::shard_locks::Locks;
use crate::limits::{SCANNED_MAX, SHARDS, WORK_UNIT_BYTES};
use crate::resp::arguments::{Arguments, OwnedArguments};

/// The quantity with which the work of a command grows, in addition to the number and the length of
/// its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkEstimate {
    /// The work is constant: some microseconds for any value.
    Constant,
    /// The work grows with the values of the keys.
    Values,
    /// The work grows with the values of the keys, each of which may be compared with every other
    /// one.
    Combination,
    /// The work grows with a part of the values of the keys. The handler checks it before it
    /// changes anything.
    Part,
    /// The work follows from the arguments. The handler checks it before it changes anything.
    Arguments,
    /// The work grows with the number of keys in the database.
    Database,
    /// The work is that of the commands of a transaction.
    Transaction,
}

impl WorkEstimate {
    /// Returns the estimate of a command. The work of a command that is not named here grows with
    /// the values of its keys, unless the command is fast.
    pub(crate) fn of(command: &CommandSpec) -> Self {
        match command.name {
            "set" | "setex" | "psetex" | "mset" | "msetnx" | "msetex" | "del" | "rename" => {
                Self::Constant
            }
            // These commands examine some elements, or walk over the chunks of a list.
            "hscan" | "sscan" | "zscan" | "scan" | "lindex" | "lset" | "ltrim" | "lmove"
            | "rpoplpush" => Self::Constant,
            // These commands examine the shards, or a single record.
            "randomkey" | "flushdb" | "flushall" | "info" | "object" | "memory" => Self::Constant,
            "hgetall" | "hkeys" | "hvals" | "smembers" | "lrange" | "lpop" | "rpop" | "lmpop"
            | "spop" | "zpopmin" | "zpopmax" | "zmpop" | "zrange" | "zrevrange"
            | "zrangebyscore" | "zrevrangebyscore" | "zrangebylex" | "zrevrangebylex"
            | "zrangestore" | "zremrangebyrank" | "zremrangebyscore" | "zremrangebylex"
            | "getrange" | "substr" | "mget" | "hget" | "hmget" | "hgetdel" | "hgetex"
            | "hincrbyfloat" => Self::Part,
            "append" | "setrange" | "setbit" | "bitfield" | "lcs" | "hrandfield"
            | "srandmember" | "zrandmember" | "client" | "restore" | "sort" | "sort_ro" => {
                Self::Arguments
            }
            "sinter" | "sinterstore" | "sintercard" | "sunion" | "sunionstore" | "sdiff"
            | "sdiffstore" | "zunion" | "zunionstore" | "zinter" | "zinterstore" | "zintercard"
            | "zdiff" | "zdiffstore" => Self::Combination,
            "keys" => Self::Database,
            "exec" => Self::Transaction,
            _ if command.flags.has(Flags::FAST) || matches!(command.keys, KeyArguments::None) => {
                Self::Constant
            }
            _ => Self::Values,
        }
    }
}

/// Returns the work of the arguments of a command, in elements.
#[inline]
pub(crate) fn of_arguments(arguments: Arguments<'_>) -> usize {
    arguments.len() + arguments.byte_len() / WORK_UNIT_BYTES
}

/// Returns an upper bound of the work of a command whose shards are locked, in elements. For
/// [`WorkEstimate::Arguments`] this is the work of its values.
pub(crate) fn estimate(
    locks: &Locks<'_>,
    row: CommandRow,
    (arguments, first_hash): (Arguments<'_>, Option<u64>),
) -> usize {
    let work = match (row.command.keys, first_hash) {
        (KeyArguments::Range { first: 1, last: 1, .. }, Some(hash)) => {
            return locks.work(Key { bytes: &arguments[1], hash });
        }
        (KeyArguments::All, _) => return locks.keys(),
        _ => {
            // The handler replies with the error for invalid arguments.
            let positions = key_positions(row.command, &arguments).unwrap_or_default();
            let keys = positions.iter().filter_map(|&index| arguments.get(index));
            let values: usize = keys.map(|key| locks.work(locks.store().key(key))).sum();
            if row.work == WorkEstimate::Combination {
                values.saturating_mul(positions.len())
            } else {
                values
            }
        }
    };
    work.saturating_add(of_arguments(arguments))
}

/// Returns an upper bound of the work of the commands of a transaction, in elements. The commands
/// run one after the other, so the estimate of each includes the most that the earlier ones can add
/// to its values. Their shards must be locked.
pub(crate) fn of_transaction(locks: &Locks<'_>, queue: &[(CommandRow, OwnedArguments)]) -> usize {
    let (mut all, mut written) = (0_usize, 0_usize);
    for (row, arguments) in queue {
        let arguments = arguments.get();
        let work = match row.work {
            WorkEstimate::Constant => of_arguments(arguments).saturating_add(scanned(row.command)),
            WorkEstimate::Arguments => usize::MAX,
            WorkEstimate::Combination => estimate(locks, *row, (arguments, None))
                .saturating_add(written.saturating_mul(arguments.len())),
            _ => estimate(locks, *row, (arguments, None)).saturating_add(written),
        };
        all = all.saturating_add(work);
        if row.command.flags.has(Flags::WRITE) {
            written = written.saturating_add(work);
        }
    }
    all
}

/// Returns the number of elements that a short command examines. Alone it takes some microseconds,
/// but many of them in a transaction add up.
fn scanned(command: &CommandSpec) -> usize {
    match command.name {
        "scan" | "hscan" | "sscan" | "zscan" => SCANNED_MAX,
        _ if matches!(command.keys, KeyArguments::All) => SHARDS,
        _ => 0,
    }
}

/// The limit for the work of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkLimit {
    /// The limit in elements.
    max: usize,
}

impl WorkLimit {
    /// No limit: the call may take any time.
    pub(crate) const NONE: Self = Self { max: usize::MAX };

    pub(crate) fn new(max: usize) -> Self {
        Self { max }
    }

    pub(crate) fn is_limited(self) -> bool {
        self.max < usize::MAX
    }

    /// # Errors
    /// The work of the call exceeds the limit. The handler must return this error before it has
    /// changed anything.
    #[inline]
    pub(crate) fn check(self, elements: usize) -> Result<(), Error> {
        if elements > self.max { Err(TOO_MUCH_WORK) } else { Ok(()) }
    }

    /// # Errors
    /// An iteration over `len` elements that occupy so many bytes together exceeds the limit.
    #[inline]
    pub(crate) fn check_value(self, (len, memory_bytes): (usize, usize)) -> Result<(), Error> {
        self.check(len.max(memory_bytes / WORK_UNIT_BYTES))
    }

    /// # Errors
    /// An iteration over `count` of `len` elements that occupy so many bytes together exceeds the
    /// limit.
    #[inline]
    pub(crate) fn check_part(
        self,
        count: usize,
        (len, memory_bytes): (usize, usize),
    ) -> Result<(), Error> {
        let element_bytes = memory_bytes / len.max(1);
        self.check(count.saturating_mul(element_bytes / WORK_UNIT_BYTES + 1))
    }

    /// # Errors
    /// An iteration over so many bytes exceeds the limit.
    #[inline]
    pub(crate) fn check_bytes(self, bytes: usize) -> Result<(), Error> {
        self.check(bytes / WORK_UNIT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    /// A command that is not named in [`WorkEstimate::of`] is never estimated as a cheap one.
    #[test]
    fn the_work_of_each_command_is_estimated() {
        let work = |name: &str| table::find_row(name.as_bytes()).expect(name).work;
        for name in ["get", "set", "incr", "hset", "lpush", "zadd", "expire", "ping", "dbsize"] {
            assert_eq!(work(name), WorkEstimate::Constant, "{name}");
        }
        for name in ["copy", "lrem", "linsert", "lpos", "bitcount", "bitop", "bitpos"] {
            assert_eq!(work(name), WorkEstimate::Values, "{name}");
        }
        assert_eq!(work("exec"), WorkEstimate::Transaction);
        assert_eq!(work("keys"), WorkEstimate::Database);
        for command in table::all().filter(|it| !it.flags.has(Flags::FAST)) {
            let is_keyless = matches!(command.keys, KeyArguments::None);
            let unnamed = CommandSpec { name: "unnamed", ..*command };
            let otherwise = if is_keyless { WorkEstimate::Constant } else { WorkEstimate::Values };
            assert_eq!(WorkEstimate::of(&unnamed), otherwise, "{}", command.name);
        }
    }

    #[test]
    fn a_limit_counts_elements_and_bytes() {
        let limit = WorkLimit::new(10);
        assert!(limit.check(10).is_ok() && limit.check(11).is_err());
        assert!(limit.check_bytes(10 * WORK_UNIT_BYTES + 1).is_ok());
        assert!(limit.check_bytes(11 * WORK_UNIT_BYTES).is_err());
        // Ten elements of one byte, and five of which each is as much work as three.
        assert!(limit.check_part(10, (100, 100)).is_ok());
        assert!(limit.check_part(5, (100, 100 * 2 * WORK_UNIT_BYTES)).is_err());
        assert!(limit.check_part(3, (100, 100 * 2 * WORK_UNIT_BYTES)).is_ok());
        assert!(limit.check_value((5, 12 * WORK_UNIT_BYTES)).is_err());
        assert!(WorkLimit::NONE.check(usize::MAX).is_ok());
        assert!(limit.check(11).expect_err("too much").is_too_much_work());
    }
}
