//! Jobs: commands that may take long, or that wait for a shard that such a command has locked. A
//! worker does not execute them; another thread does, and the worker goes on with other clients.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::client::ClientState;
use crate::dispatch::{self, Prepared};
use crate::keyspace::shard_locks::Locks;
use crate::limits::SHARDS;
use crate::resp::arguments::OwnedArguments;
use crate::resp::output::ReplyOutput;
use crate::store::Store;

/// A job: a command of a client that waits for its execution. [`Client`](crate::client::Client)
/// creates jobs.
#[derive(Debug)]
pub struct Job {
    state: ClientState,
    prepared: Prepared,
    arguments: OwnedArguments,
    shards: ShardSet,
}

/// A job that has locked its shards.
#[derive(Debug)]
pub struct LockedJob<'s> {
    job: Job,
    locks: Locks<'s>,
    now_ms: u64,
}

/// A job that was executed.
#[derive(Debug)]
pub struct FinishedJob {
    pub(crate) state: ClientState,
    output: ReplyOutput,
    has_failed: bool,
}

impl Job {
    pub(crate) fn new(
        store: &Store,
        state: ClientState,
        prepared: Prepared,
        arguments: OwnedArguments,
    ) -> Self {
        let shards = dispatch::shards_of_job(store, &state, prepared, arguments.get());
        Self { state, prepared, arguments, shards }
    }

    /// Executes the command, which may take long: the thread waits for other jobs that have locked
    /// its shards. `now_ms` are milliseconds since 1970.
    pub fn run(self, store: &Store, now_ms: u64) -> FinishedJob {
        self.lock(store, now_ms).run()
    }

    /// Locks the shards of the command.
    pub fn lock(self, store: &Store, now_ms: u64) -> LockedJob<'_> {
        let locks = Locks::for_job(store, self.shards, now_ms);
        LockedJob { job: self, locks, now_ms }
    }

    /// Returns the shards that the job locks.
    pub fn shards(&self) -> ShardSet {
        self.shards
    }

    /// Returns whether another job holds one of the shards that this job needs, so that this one
    /// has to wait.
    pub fn is_blocked(&self, store: &Store) -> bool {
        if self.shards.is_empty() {
            // This job locks all shards one after the other.
            return (0..store.shard_count()).any(|index| store.has_job(index));
        }
        self.shards.indices().any(|index| store.has_job(index))
    }

    /// Drops the job of a client that has disconnected, without executing the command.
    pub fn abandon(mut self, store: &Store) {
        self.state.transaction.discard(store);
        store.clients.set_job_memory(&self.state.info, 0);
    }
}

impl LockedJob<'_> {
    /// Executes the command. If the command panics, which is a bug, there is no reply and the
    /// client must be closed, but the thread goes on.
    pub fn run(self) -> FinishedJob {
        let Self { job, mut locks, now_ms } = self;
        let Job { mut state, prepared, arguments, .. } = job;
        let mut output = ReplyOutput::default();
        let command = (prepared, arguments.get());
        let result = catch_unwind(AssertUnwindSafe(|| {
            dispatch::execute_job(&mut locks, &mut state, command, now_ms, &mut output);
        }));
        let has_failed = result.is_err();
        if has_failed {
            output = ReplyOutput::default();
            state.is_closing = true;
        }
        FinishedJob { state, output, has_failed }
    }
}

impl FinishedJob {
    /// Returns whether the command has panicked because of a bug.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns the reply.
    pub fn take_output(&mut self) -> ReplyOutput {
        std::mem::take(&mut self.output)
    }

    /// Drops the result of a job of a client that has disconnected.
    pub fn abandon(mut self, store: &Store) {
        self.state.transaction.discard(store);
        store.clients.set_job_memory(&self.state.info, 0);
    }
}

/// A set of shards, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(u64);

const _: () = assert!(SHARDS <= u64::BITS as usize, "a set of shards has a bit for each");

impl ShardSet {
    /// All shards.
    pub(crate) const ALL: Self = Self(u64::MAX >> (u64::BITS as usize - SHARDS));

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the numbers of the shards, in their order.
    pub(crate) fn indices(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let index = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (index < u64::BITS).then_some(index as usize)
        })
    }
}

impl FromIterator<usize> for ShardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        Self(indices.into_iter().fold(0, |set, index| set | 1 << index))
    }
}

/// The queue of jobs that wait for a thread, each with the shards that it locks. A job begins
/// before all later jobs that need one of its shards, and only when no running job holds one of
/// them. So no thread waits for another one, and no job waits forever.
#[derive(Debug)]
pub struct JobQueue<T> {
    waiting: VecDeque<(ShardSet, T)>,
    running: ShardSet,
}

impl<T> Default for JobQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), running: ShardSet::default() }
    }
}

impl<T> JobQueue<T> {
    /// Adds a job that locks these shards.
    pub fn push(&mut self, shards: ShardSet, job: T) {
        self.waiting.push_back((shards, job));
    }

    /// Returns the next job that can run, if there is one, and its shards. After the end of the
    /// job, the caller calls [`Self::finished`].
    pub fn start(&mut self) -> Option<(ShardSet, T)> {
        let mut taken = self.running.0;
        let position = self.waiting.iter().position(|(shards, _)| {
            let is_free = taken & shards.0 == 0;
            taken |= shards.0;
            is_free
        })?;
        let started = self.waiting.remove(position)?;
        self.running.0 |= started.0.0;
        Some(started)
    }

    /// Records that a job with these shards has ended.
    pub fn finished(&mut self, shards: ShardSet) {
        self.running.0 &= !shards.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::settings::Settings;

    /// A handler that does not find the lock of its key panics.
    #[test]
    fn a_panicking_job_closes_its_client_and_leaves_nothing_behind() {
        let store = Store::new(Settings::default(), [7; 24], 0).with_work_max(0);
        let mut client = Client::new(&store, "a", 0);
        let mut output = ReplyOutput::default();
        client.receive(&store, b"WATCH a b\r\n", 0, &mut output);
        client.run_jobs(&store, 0, &mut output);
        assert_eq!(store.watched_keys(), 2);
        client.receive(&store, b"GET a\r\n", 0, &mut output);
        let mut job = client.take_job().expect("a job");
        job.shards = ShardSet::default();
        output.clear();
        let mut finished = job.run(&store, 0);
        assert!(finished.take_output().is_empty());
        client.finish(&store, finished, 0, &mut output);
        assert!(output.is_empty() && client.is_closing() && !client.is_waiting());
        client.disconnect(&store);
        assert_eq!(store.watched_keys(), 0);
        // Other clients go on.
        let mut other = Client::new(&store, "b", 0);
        other.receive(&store, b"GET a\r\n", 0, &mut output);
        other.run_jobs(&store, 0, &mut output);
        assert!(!output.is_empty());
    }
}
