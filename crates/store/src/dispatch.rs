//! Dispatches commands from their arguments to their handlers: lookup, checks, locks.

use crate::client::ClientState;
use crate::command::call::Call;
use crate::command::spec::{CommandSpec, Flags, KeyArguments};
use crate::command::table::{self, CommandRow};
use crate::command::work_estimate::{self, WorkEstimate, WorkLimit};
use crate::error::{Error, NO_AUTHENTICATION, SYNTAX};
use crate::job::ShardSet;
use crate::keyspace::database::Database;
use crate::keyspace::key::Key;
use crate::keyspace::shard_locks::{Busy, Locks};
use crate::limits::COPIED_COMMAND_MAX_BYTES;
use crate::resp::arguments::{Arguments, OwnedArguments};
use crate::resp::number::parse_i64;
use crate::resp::output::ReplyOutput;
use crate::resp::reply_writer::Reply;
use crate::store::Store;

/// The data of a command that is known before its execution.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prepared {
    row: Option<CommandRow>,
    /// The hash of the first argument after the name, if it is a key.
    first_hash: Option<u64>,
    /// The parts of the first key that were prefetched into the cache.
    fetched: Fetched,
}

/// The progress of prefetching a key into the cache before its command is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fetched {
    #[default]
    Nothing,
    Entry,
    Record,
    /// The parts of the record were prefetched, or it has none.
    Parts,
}

/// Looks a command up.
pub(crate) fn prepare(store: &Store, arguments: Arguments<'_>) -> Prepared {
    let row = table::find_row(&arguments[0]);
    let has_key =
        row.is_some_and(|it| matches!(it.command.keys, KeyArguments::Range { first: 1, .. }));
    let key = if has_key { arguments.get(1) } else { None };
    let first_hash = key.map(|key| store.key(key).hash);
    Prepared { row, first_hash, fetched: Fetched::Nothing }
}

impl Prepared {
    /// Returns the name of the command.
    pub(crate) fn name(&self) -> &'static str {
        self.row.map_or("NULL", |row| row.command.name)
    }

    /// Returns the command, if it exists.
    pub(crate) fn command(&self) -> Option<&'static CommandSpec> {
        self.row.map(|row| row.command)
    }

    /// Queues the command for the transaction of a client. The reply is added to the output.
    pub(crate) fn queue(
        &self,
        client: &mut ClientState,
        arguments: OwnedArguments,
        output: &mut ReplyOutput,
    ) {
        if let Some(row) = self.row {
            client.transaction.queue(row, arguments);
            Reply { output, version: client.version }.simple("QUEUED");
        }
    }

    /// Prefetches the entry of the first key into the cache.
    #[inline]
    pub(crate) fn prefetch_entry(&mut self, store: &Store, database: usize) {
        if let Some(hash) = self.first_hash {
            store.look_ahead(database, hash, Database::prefetch_entry);
            self.fetched = Fetched::Entry;
        }
    }

    /// Prefetches the record of the first key into the cache, if its entry was prefetched.
    #[inline]
    pub(crate) fn prefetch_record(&mut self, store: &Store, database: usize) {
        if let (Some(hash), Fetched::Entry) = (self.first_hash, self.fetched) {
            let has_parts = store.look_ahead(database, hash, Database::prefetch_record);
            self.fetched = if has_parts == Some(true) { Fetched::Record } else { Fetched::Parts };
        }
    }

    /// Prefetches the parts of the record of the first key into the cache, if the record was
    /// prefetched.
    #[inline]
    pub(crate) fn prefetch_parts(&mut self, store: &Store, database: usize) {
        if let (Some(hash), Fetched::Record) = (self.first_hash, self.fetched) {
            store.look_ahead(database, hash, Database::prefetch_parts);
            self.fetched = Fetched::Parts;
        }
    }
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    /// The command was executed or queued, and its reply is in the output.
    Done,
    /// The command may take long or waits for a shard, so it must be executed as a job.
    Job,
    /// The caller must queue the command for a transaction, without copying its arguments.
    Queued,
}

/// Executes one command of a client, or queues it for a transaction. The reply is added to the
/// output.
pub(crate) fn execute(
    store: &Store,
    client: &mut ClientState,
    (prepared, arguments): (Prepared, Arguments<'_>),
    now_ms: u64,
    output: &mut ReplyOutput,
) -> Execution {
    let row = match check(client, prepared.row, arguments) {
        Ok(row) => row,
        Err(error) => {
            client.transaction.fail();
            Reply { output, version: client.version }.error(&error);
            return Execution::Done;
        }
    };
    let flags = row.command.flags;
    if flags.has(Flags::DENY_OOM)
        && let Err(error) = store.make_space(now_ms)
    {
        client.transaction.fail();
        Reply { output, version: client.version }.error(&error);
        return Execution::Done;
    }
    if client.transaction.is_open() && !flags.has(Flags::NOT_QUEUED) {
        if arguments.byte_len() > COPIED_COMMAND_MAX_BYTES {
            return Execution::Queued;
        }
        client.transaction.queue(row, OwnedArguments::new(arguments));
        Reply { output, version: client.version }.simple("QUEUED");
        return Execution::Done;
    }
    let max = store.work_max();
    if work_estimate::of_arguments(arguments) > max {
        return Execution::Job;
    }
    let Prepared { first_hash, .. } = prepared;
    match locks_for(store, client, (row, arguments, first_hash), now_ms) {
        Ok(mut locks) => {
            let is_job = match row.work {
                WorkEstimate::Constant | WorkEstimate::Part | WorkEstimate::Arguments => false,
                WorkEstimate::Values | WorkEstimate::Combination | WorkEstimate::Database => {
                    work_estimate::estimate(&locks, row, (arguments, first_hash)) > max
                }
                WorkEstimate::Transaction => client.transaction.work(&locks) > max,
            };
            if is_job {
                return Execution::Job;
            }
            let command = CommandCall { command: row.command, arguments, first_hash };
            let limit = WorkLimit::new(max);
            call(&mut locks, client, (command, limit), now_ms, output)
        }
        Err(LockError::Busy) => Execution::Job,
        Err(LockError::Keys(error)) => {
            Reply { output, version: client.version }.error(&error);
            Execution::Done
        }
    }
}

/// Returns the shards that a job locks. A job that walks through a database gets none, because it
/// locks one shard after the other.
pub(crate) fn shards_of_job(
    store: &Store,
    client: &ClientState,
    prepared: Prepared,
    arguments: Arguments<'_>,
) -> ShardSet {
    // A command without such keys replies with an error.
    match prepared.row {
        None | Some(CommandRow { work: WorkEstimate::Database, .. }) => ShardSet::default(),
        Some(CommandRow { work: WorkEstimate::Transaction, .. }) => {
            client.transaction.shards(store)
        }
        Some(row) => shards(store, row.command, arguments).unwrap_or_default(),
    }
}

/// Executes a command as a job. The reply is added to the output.
pub(crate) fn execute_job(
    locks: &mut Locks<'_>,
    client: &mut ClientState,
    (prepared, arguments): (Prepared, Arguments<'_>),
    now_ms: u64,
    output: &mut ReplyOutput,
) {
    let Prepared { row: Some(row), first_hash, .. } = prepared else { return };
    if let Err(error) = shards(locks.store(), row.command, arguments) {
        return Reply { output, version: client.version }.error(&error);
    }
    let command = CommandCall { command: row.command, arguments, first_hash };
    call(locks, client, (command, WorkLimit::NONE), now_ms, output);
}

/// A command that was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandCall<'a> {
    pub(crate) command: &'static CommandSpec,
    pub(crate) arguments: Arguments<'a>,
    /// The hash of the first argument after the name, as in [`Call`].
    pub(crate) first_hash: Option<u64>,
}

/// Calls a command whose keys are locked. The reply is added to the output, unless the work of the
/// command exceeds the limit.
pub(crate) fn call(
    locks: &mut Locks<'_>,
    client: &mut ClientState,
    (CommandCall { command, arguments, first_hash }, work_limit): (CommandCall<'_>, WorkLimit),
    now_ms: u64,
    output: &mut ReplyOutput,
) -> Execution {
    let mark = output.mark();
    let (database, version) = (client.database, client.version);
    let reply = Reply { output: &mut *output, version };
    let is_timed = locks.store().slow_log.times(command, arguments, work_limit);
    let mut call =
        Call { command, arguments, first_hash, client, database, locks, reply, now_ms, work_limit };
    let result = if is_timed { call_timed(&mut call) } else { (command.handler)(&mut call) };
    if let Err(error) = result {
        output.truncate(mark);
        if error.is_too_much_work() {
            return Execution::Job;
        }
        Reply { output, version }.error(&error);
    }
    Execution::Done
}

/// Calls a command, and records it if it was slow.
#[cold]
fn call_timed(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let (command, arguments) = (call.command, call.arguments);
    let slow_log = &call.locks.store().slow_log;
    let started_us = slow_log.start(command);
    let result = (command.handler)(call);
    let is_job = result.as_ref().is_err_and(Error::is_too_much_work);
    if let Some(started_us) = started_us.filter(|_| !is_job) {
        slow_log.end(started_us, (command, arguments), &call.client.info, call.now_ms);
    }
    result
}

/// Checks that the client may use a command with these arguments, and returns the command.
fn check(
    client: &ClientState,
    row: Option<CommandRow>,
    arguments: Arguments<'_>,
) -> Result<CommandRow, Error> {
    let Some(row) = row else {
        if !client.is_authenticated {
            return Err(NO_AUTHENTICATION);
        }
        return Err(unknown(arguments));
    };
    let command = row.command;
    if !command.takes(arguments.len()) {
        return Err(wrong_arity(command.name));
    }
    if !client.is_authenticated && !command.flags.has(Flags::NO_AUTH) {
        return Err(NO_AUTHENTICATION);
    }
    if client.transaction.is_open() && command.flags.has(Flags::NO_MULTI) {
        return Err(Error::constant("ERR Command not allowed inside a transaction"));
    }
    Ok(row)
}

/// Returns the error for a number of arguments that the command does not have.
pub(crate) fn wrong_arity(name: &str) -> Error {
    Error::new(format!("ERR wrong number of arguments for '{name}' command"))
}

fn unknown(arguments: Arguments<'_>) -> Error {
    /// Most bytes that Redis shows of the name, and of all other arguments together.
    const SHOWN_BYTES: usize = 128;
    let shown = |bytes: &[u8], most: usize| {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
        text.replace(['\r', '\n'], " ")
    };
    let mut others = String::new();
    for argument in arguments.from(1) {
        if others.len() >= SHOWN_BYTES {
            break;
        }
        let most = SHOWN_BYTES - others.len();
        others.push_str(&format!("'{}' ", shown(argument, most)));
    }
    let name = shown(&arguments[0], SHOWN_BYTES);
    Error::new(format!("ERR unknown command '{name}', with args beginning with: {others}"))
}

/// The reason why the shards of a command were not locked.
enum LockError {
    /// A job holds the lock of one of the shards.
    Busy,
    /// The argument with the number of keys is invalid.
    Keys(Error),
}

impl From<Busy> for LockError {
    fn from(_: Busy) -> Self {
        Self::Busy
    }
}

/// Locks the shards of the keys of a command.
fn locks_for<'s>(
    store: &'s Store,
    client: &ClientState,
    (row, arguments, first_hash): (CommandRow, Arguments<'_>, Option<u64>),
    now_ms: u64,
) -> Result<Locks<'s>, LockError> {
    let shards = match (row.command.keys, first_hash) {
        (KeyArguments::Range { first: 1, last: 1, .. }, Some(hash)) => {
            return Ok(Locks::one(store, Key { bytes: &arguments[1], hash }, now_ms)?);
        }
        (KeyArguments::None, _) if row.work == WorkEstimate::Transaction => {
            client.transaction.shards(store)
        }
        (KeyArguments::None, _) => return Ok(Locks::none(store)),
        (KeyArguments::Range { .. }, _) => {
            let positions = key_positions(row.command, &arguments).map_err(LockError::Keys)?;
            let mut hashes = Vec::with_capacity(positions.len());
            let keys =
                positions.into_iter().filter_map(|index| Some((index, arguments.get(index)?)));
            hashes.extend(keys.map(|(index, key)| match first_hash {
                Some(hash) if index == 1 => hash,
                _ => store.key(key).hash,
            }));
            return Ok(Locks::of_keys(store, hashes, client.database, now_ms)?);
        }
        _ => shards(store, row.command, arguments).map_err(LockError::Keys)?,
    };
    Ok(Locks::some(store, shards, now_ms)?)
}

/// Returns the shards of the keys of a command.
pub(crate) fn shards(
    store: &Store,
    command: &CommandSpec,
    arguments: Arguments<'_>,
) -> Result<ShardSet, Error> {
    let needs_all = match command.keys {
        KeyArguments::All => true,
        KeyArguments::FoundOrAll { needs_all, .. } => needs_all(&arguments),
        _ => false,
    };
    if needs_all {
        return Ok(ShardSet::ALL);
    }
    let positions = key_positions(command, &arguments)?;
    let keys = positions.into_iter().filter_map(|index| arguments.get(index));
    Ok(keys.map(|key| store.shard_index(store.key(key))).collect())
}

/// Returns the indices of the arguments that are keys.
///
/// # Errors
/// The argument with the number of keys is invalid.
pub(crate) fn key_positions(
    command: &CommandSpec,
    arguments: &Arguments<'_>,
) -> Result<Vec<usize>, Error> {
    match command.keys {
        KeyArguments::None | KeyArguments::All => Ok(Vec::new()),
        KeyArguments::Range { first, last, step } => {
            let last = match usize::try_from(last) {
                Ok(last) => last,
                Err(_) => arguments.len().saturating_add_signed(last as isize),
            };
            Ok((first..=last).step_by(step).collect())
        }
        KeyArguments::Counted { count, also } => {
            let text = arguments.get(count).ok_or(SYNTAX)?;
            // The handler replies with the error if the number is invalid or does not fit.
            let keys = usize::try_from(parse_i64(text).unwrap_or(0))
                .unwrap_or(0)
                .min(arguments.len() - count - 1);
            Ok(also.into_iter().chain(count + 1..=count + keys).collect())
        }
        KeyArguments::Found(find) | KeyArguments::FoundOrAll { find, .. } => find(arguments),
    }
}
