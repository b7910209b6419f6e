//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

use super::call::Call;
use super::spec::{CommandDefaults, CommandGroup, CommandSpec, Flags, KeyArguments};
use super::table::CommandRow;
use super::work_estimate::{self, WorkLimit};
use crate::dispatch::{self, CommandCall};
use crate::error::{EXEC_ABORTED, Error};
use crate::job::ShardSet;
use crate::keyspace::deferred_free::Garbage;
use crate::keyspace::shard_locks::Locks;
use crate::limits::LONG_STRING_MIN_BYTES;
use crate::resp::arguments::OwnedArguments;
use crate::store::Store;

const TRANSACTIONS: CommandDefaults =
    CommandDefaults { group: CommandGroup::Transactions, keys: KeyArguments::None };

pub(super) const COMMANDS: &[CommandSpec] = &[
    TRANSACTIONS.command(
        "multi",
        1,
        Flags::FAST.and(Flags::NOT_QUEUED),
        ("1.2.0", "Starts a transaction."),
        multi,
    ),
    TRANSACTIONS.command(
        "exec",
        1,
        Flags::NOT_QUEUED,
        ("1.2.0", "Executes all commands of a transaction."),
        exec,
    ),
    TRANSACTIONS.command(
        "discard",
        1,
        Flags::FAST.and(Flags::NOT_QUEUED),
        ("2.0.0", "Discards a transaction."),
        discard,
    ),
    TRANSACTIONS
        .command(
            "watch",
            -2,
            Flags::FAST.and(Flags::NOT_QUEUED),
            ("2.2.0", "Monitors changes to keys to determine the execution of a transaction."),
            watch,
        )
        .with_keys(KeyArguments::REST),
    TRANSACTIONS.command(
        "unwatch",
        1,
        Flags::FAST,
        ("2.2.0", "Forgets about watched keys of a transaction."),
        unwatch,
    ),
];

/// The transaction of a client, and the keys that it watches for it.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    is_open: bool,
    /// Whether a command could not be queued, so that none is executed.
    has_failed: bool,
    queue: Vec<(CommandRow, OwnedArguments)>,
    /// The bytes of memory that the arguments in the queue occupy.
    queued_bytes: usize,
    watched: Vec<WatchedKey>,
}

#[derive(Debug)]
struct WatchedKey {
    database: usize,
    key: Box<[u8]>,
    version: u64,
    /// Whether the key had expired before it was watched.
    had_expired: bool,
}

impl Transaction {
    /// Returns an open transaction without commands.
    pub(crate) fn begun() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Returns whether commands are queued.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the bytes of memory that the arguments of the queued commands occupy.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Adds a command.
    pub(crate) fn queue(&mut self, row: CommandRow, arguments: OwnedArguments) {
        if !self.has_failed {
            self.queued_bytes += arguments.memory_bytes();
            self.queue.push((row, arguments));
        }
    }

    /// Marks the transaction as failed because a command was refused. It will not be executed.
    pub(crate) fn fail(&mut self) {
        self.has_failed |= self.is_open;
    }

    /// Discards the queued commands and the watched keys.
    pub(crate) fn discard(&mut self, store: &Store) {
        self.is_open = false;
        self.has_failed = false;
        let queue = std::mem::take(&mut self.queue);
        if std::mem::take(&mut self.queued_bytes) >= LONG_STRING_MIN_BYTES {
            let arguments = queue.into_iter().map(|(_, arguments)| arguments);
            store.discard(Garbage::Transaction(arguments.collect()));
        }
        self.unwatch(store);
    }

    /// Ends watching of all keys.
    pub(crate) fn unwatch(&mut self, store: &Store) {
        for watched in self.watched.drain(..) {
            store.unwatch(watched.database, watched.key);
        }
    }

    /// Returns the numbers of the shards that the commands and the watched keys need, in no order;
    /// none if the commands are not executed.
    pub(crate) fn shards(&self, store: &Store) -> ShardSet {
        if !self.is_open || self.has_failed {
            return ShardSet::default();
        }
        let watched = self.watched.iter();
        let mut all: ShardSet =
            watched.map(|watched| store.shard_index(store.key(&watched.key))).collect();
        for (row, arguments) in &self.queue {
            // A command whose keys cannot be found replies with the error itself.
            let shards = dispatch::shards(store, row.command, arguments.get());
            all = all.union(shards.unwrap_or_default());
        }
        all
    }

    /// Returns an upper bound of the work of the commands, in elements. Their shards must be
    /// locked.
    pub(crate) fn work(&self, locks: &Locks<'_>) -> usize {
        work_estimate::of_transaction(locks, &self.queue)
    }

    /// Returns whether no watched key has changed.
    fn is_unchanged(&self, locks: &mut Locks<'_>, now_ms: u64) -> bool {
        self.watched.iter().all(|watched| {
            let key = locks.store().key(&watched.key);
            let (database, _) = locks.database(watched.database, key);
            let has_expired = !watched.had_expired && database.has_expired(key, now_ms);
            database.watches.version(key) == Some(watched.version) && !has_expired
        })
    }
}

fn multi(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if call.client.transaction.is_open {
        return Err(Error::constant("ERR MULTI calls can not be nested"));
    }
    call.client.transaction.is_open = true;
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if !call.client.transaction.is_open {
        return Err(Error::constant("ERR DISCARD without MULTI"));
    }
    call.client.transaction.discard(call.locks.store());
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if call.client.transaction.is_open {
        return Err(Error::constant("ERR WATCH inside MULTI is not allowed"));
    }
    for index in 1..call.arguments.len() {
        let key = call.key(index);
        let watched = &mut call.client.transaction.watched;
        let is_watched = |it: &WatchedKey| it.database == call.database && *it.key == *key.bytes;
        if watched.iter().any(is_watched) {
            continue;
        }
        let (database, _) = call.locks.database(call.database, key);
        let had_expired = database.has_expired(key, call.now_ms);
        let version = database.watches.add(key);
        let database = call.database;
        watched.push(WatchedKey { database, key: key.bytes.into(), version, had_expired });
    }
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_, '_>) -> Result<(), Error> {
    call.client.transaction.unwatch(call.locks.store());
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_, '_>) -> Result<(), Error> {
    if !call.client.transaction.is_open {
        return Err(Error::constant("ERR EXEC without MULTI"));
    }
    let store = call.locks.store();
    let mut transaction = std::mem::take(&mut call.client.transaction);
    if transaction.has_failed {
        transaction.discard(store);
        return Err(EXEC_ABORTED);
    }
    let is_unchanged = transaction.is_unchanged(call.locks, call.now_ms);
    for watched in transaction.watched.drain(..) {
        let key = store.key(&watched.key);
        let (database, _) = call.locks.database(watched.database, key);
        database.watches.remove(key);
    }
    if is_unchanged {
        call.reply.array(transaction.queue.len());
        for (row, arguments) in &transaction.queue {
            let (command, arguments, first_hash) = (row.command, arguments.get(), None);
            let command = CommandCall { command, arguments, first_hash };
            let command = (command, WorkLimit::NONE);
            dispatch::call(call.locks, call.client, command, call.now_ms, call.reply.output);
            call.reply.version = call.client.version;
        }
    } else {
        call.reply.null_array();
    }
    Ok(())
}
