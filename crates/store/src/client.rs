//! One client of a store. Its input is bytes of the protocol, its output is replies.
//!
//! A command that may take long is not executed by the thread that has the bytes: the client has a
//! [`Job`] then, and waits. The owner of the client takes the job, runs it on another thread, and
//! returns the result to the client. Bytes that arrive meanwhile are buffered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::client_registry::ClientInfo;
use crate::command::transactions::Transaction;
use crate::dispatch::{self, Execution, Prepared};
use crate::error::Error;
use crate::job::{FinishedJob, Job};
use crate::keyspace::deferred_free::Garbage;
use crate::limits::{COMMAND_MAX_BYTES, LONG_STRING_MIN_BYTES, UNCOUNTED_CLIENT_BYTES};
use crate::lookahead::{CommandAhead, Lookahead, Rest};
use crate::resp::output::ReplyOutput;
use crate::resp::reply_writer::{Reply, RespVersion};
use crate::store::Store;

/// One client of a store.
#[derive(Debug)]
pub struct Client {
    state: ClientState,
    /// The parsers of the current command, which is executed or incomplete, and of the following
    /// ones.
    ahead: Lookahead,
    /// The first bytes of an incomplete command.
    buffer: Vec<u8>,
    /// The least number of bytes of the command in the buffer.
    wanted_bytes: usize,
    waiting: JobWait,
    /// The bytes of memory that were counted, without those of the job.
    counted_bytes: usize,
}

/// Whether a client waits for a job.
#[derive(Debug)]
enum JobWait {
    No,
    /// A job exists, but was not taken yet.
    Queued(Box<Job>),
    /// The job runs. It holds the state of the client, which has a placeholder meanwhile.
    Running,
}

/// A command that is not executed in the loop of [`Client::execute_all`].
#[derive(Debug)]
struct DeferredCommand {
    prepared: Prepared,
    /// The number of bytes of the command.
    bytes: usize,
    /// Whether the command becomes a job. Otherwise it is queued for a transaction.
    is_job: bool,
}

/// The state of a client that commands can read and change.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) info: Arc<ClientInfo>,
    pub(crate) database: usize,
    pub(crate) version: RespVersion,
    pub(crate) is_authenticated: bool,
    pub(crate) transaction: Transaction,
    /// Whether the connection must be closed after the replies.
    pub(crate) is_closing: bool,
}

impl ClientState {
    /// Returns a placeholder for the state while a job holds the state.
    fn stand_in(&self) -> Self {
        let Self { info, database, version, is_authenticated, .. } = self;
        Self {
            info: Arc::clone(info),
            database: *database,
            version: *version,
            is_authenticated: *is_authenticated,
            transaction: Transaction::default(),
            is_closing: false,
        }
    }

    pub(crate) fn select(&mut self, database: usize) {
        self.database = database;
        self.info.database.store(database, Ordering::Relaxed);
    }

    pub(crate) fn set_version(&mut self, version: RespVersion) {
        self.version = version;
        self.info.set_resp3(version == RespVersion::Three);
    }
}

impl Client {
    /// Creates a client that has just connected from an address, given as text.
    pub fn new(store: &Store, address: &str, now_ms: u64) -> Self {
        let state = ClientState {
            info: store.clients.add(address, now_ms),
            database: 0,
            version: RespVersion::Two,
            is_authenticated: store.settings.password.is_none(),
            transaction: Transaction::default(),
            is_closing: false,
        };
        let (ahead, buffer) = (Lookahead::default(), Vec::new());
        let waiting = JobWait::No;
        Self { state, ahead, buffer, wanted_bytes: 0, waiting, counted_bytes: 0 }
    }

    /// Sets a function that is called, on any thread, when another client kills this one. The
    /// function must cause the connection to be closed. Without it, the connection is closed when
    /// the client sends data.
    pub fn on_kill(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.state.info.on_kill(Box::new(wake));
    }

    /// Executes the commands in received bytes. `now_ms` is the time in milliseconds since 1970.
    /// The replies are added to the output. Afterwards there may be a job ([`Self::take_job`]).
    pub fn receive(&mut self, store: &Store, bytes: &[u8], now_ms: u64, output: &mut ReplyOutput) {
        self.take_input(store, bytes, now_ms, output);
        self.count_memory(store);
    }

    /// Counts the memory of incomplete and waiting commands. Closes the connection if those of all
    /// clients occupy too much and this client has the most.
    #[inline]
    fn count_memory(&mut self, store: &Store) {
        let bytes = self.buffer.capacity() + self.state.transaction.queued_bytes();
        if bytes > UNCOUNTED_CLIENT_BYTES || self.counted_bytes > 0 {
            self.set_memory(store, bytes);
        }
    }

    #[cold]
    fn set_memory(&mut self, store: &Store, bytes: usize) {
        let bytes = if bytes > UNCOUNTED_CLIENT_BYTES { bytes } else { 0 };
        if bytes == self.counted_bytes {
            return;
        }
        let is_more = bytes > self.counted_bytes;
        self.counted_bytes = bytes;
        store.clients.set_memory(&self.state.info, bytes);
        if is_more {
            store.clients.evict(&self.state.info, store.clients_max_bytes());
            self.state.is_closing |= self.state.info.is_killed();
        }
    }

    fn take_input(&mut self, store: &Store, bytes: &[u8], now_ms: u64, output: &mut ReplyOutput) {
        if self.state.info.is_killed() {
            self.state.is_closing = true;
            return;
        }
        if self.buffer.is_empty() && !self.is_waiting() {
            let (executed, kept) = self.execute_all(store, bytes, now_ms, output);
            let rest = &bytes[executed..];
            if kept.is_none() {
                self.ahead.shrink();
            }
            if let Some(kept) = kept {
                let rest = self.keep(store, (rest.to_vec(), 0), kept, output);
                self.execute_buffer(store, rest, now_ms, output);
            } else if !self.state.is_closing {
                self.buffer.extend_from_slice(rest);
            }
            return;
        }
        if self.buffer.len() + bytes.len() > COMMAND_MAX_BYTES {
            // As in Redis, the connection is closed without a reply.
            self.state.is_closing = true;
            return;
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= self.wanted_bytes {
            let buffer = std::mem::take(&mut self.buffer);
            self.execute_buffer(store, buffer, now_ms, output);
        }
    }

    /// Executes the complete commands in the received bytes, unless the client waits for a job. The
    /// rest of the bytes becomes the buffer.
    fn execute_buffer(
        &mut self,
        store: &Store,
        mut buffer: Vec<u8>,
        now_ms: u64,
        output: &mut ReplyOutput,
    ) {
        while !self.is_waiting() {
            let (executed, kept) = self.execute_all(store, &buffer, now_ms, output);
            if let Some(kept) = kept {
                buffer = self.keep(store, (buffer, executed), kept, output);
                continue;
            }
            if executed == buffer.len() {
                const KEPT_BYTES: usize = 4096;
                buffer.clear();
                buffer.shrink_to(KEPT_BYTES);
                self.ahead.shrink();
            } else {
                buffer.drain(..executed);
            }
            break;
        }
        self.buffer = buffer;
    }

    /// Makes a job of the command at a position of a buffer, or queues it for a transaction without
    /// copying it if it is long. Returns the bytes that follow it.
    fn keep(
        &mut self,
        store: &Store,
        (buffer, start): (Vec<u8>, usize),
        DeferredCommand { prepared, bytes, is_job }: DeferredCommand,
        output: &mut ReplyOutput,
    ) -> Vec<u8> {
        let current = std::mem::take(&mut self.ahead);
        // The bytes after the command are parsed again from their beginning.
        let (arguments, rest) = current.parser().take_arguments(buffer, start, bytes);
        self.wanted_bytes = 0;
        if is_job {
            let bytes = arguments.memory_bytes() + self.state.transaction.queued_bytes();
            if bytes > UNCOUNTED_CLIENT_BYTES {
                // The memory moves to another count, and must not be counted twice.
                store.clients.set_memory(&self.state.info, 0);
                self.counted_bytes = 0;
                store.clients.set_job_memory(&self.state.info, bytes);
            }
            let state = self.state.stand_in();
            let state = std::mem::replace(&mut self.state, state);
            self.waiting = JobWait::Queued(Box::new(Job::new(store, state, prepared, arguments)));
        } else {
            prepared.queue(&mut self.state, arguments, output);
        }
        rest
    }

    /// Returns whether the client waits for a job.
    pub fn is_waiting(&self) -> bool {
        !matches!(self.waiting, JobWait::No)
    }

    /// Returns the job that is to be run, if there is one that was not taken yet. When it is
    /// finished, [`Self::finish`] gets its result.
    pub fn take_job(&mut self) -> Option<Job> {
        match std::mem::replace(&mut self.waiting, JobWait::Running) {
            JobWait::Queued(job) => Some(*job),
            other => {
                self.waiting = other;
                None
            }
        }
    }

    /// Continues after a job with the bytes that have arrived meanwhile. The caller has sent the
    /// reply of the job ([`FinishedJob::take_output`]). The replies of the following commands are
    /// added to the output.
    pub fn finish(
        &mut self,
        store: &Store,
        finished: FinishedJob,
        now_ms: u64,
        output: &mut ReplyOutput,
    ) {
        self.state = finished.state;
        self.waiting = JobWait::No;
        store.clients.set_job_memory(&self.state.info, 0);
        if self.state.info.is_killed() {
            self.state.is_closing = true;
        }
        if !self.state.is_closing && !self.buffer.is_empty() {
            let buffer = std::mem::take(&mut self.buffer);
            self.execute_buffer(store, buffer, now_ms, output);
        }
        self.count_memory(store);
    }

    /// Runs all jobs of the client on this thread, for callers that may block.
    pub fn run_jobs(&mut self, store: &Store, now_ms: u64, output: &mut ReplyOutput) {
        while let Some(job) = self.take_job() {
            let mut finished = job.run(store, now_ms);
            output.append(finished.take_output());
            self.finish(store, finished, now_ms, output);
        }
    }

    /// Executes the complete commands at the start of the input. Returns their number of bytes, and
    /// the command after them if it is not executed here.
    fn execute_all(
        &mut self,
        store: &Store,
        input: &[u8],
        now_ms: u64,
        output: &mut ReplyOutput,
    ) -> (usize, Option<DeferredCommand>) {
        let Self { state, ahead, wanted_bytes, .. } = self;
        let (mut executed, mut rest) = (0, None);
        ahead.begin();
        loop {
            rest = rest.or_else(|| ahead.look(store, state, input));
            let Some(command) = ahead.next(store, state.database) else { break };
            let CommandAhead { start, end, prepared } = command;
            let arguments = ahead.parser().arguments(&input[start..]);
            let execution = dispatch::execute(store, state, (prepared, arguments), now_ms, output);
            if end == input.len() {
                state.info.used(prepared.name(), now_ms);
            }
            if execution != Execution::Done {
                let is_job = execution == Execution::Job;
                return (start, Some(DeferredCommand { prepared, bytes: end - start, is_job }));
            }
            ahead.pop();
            executed = end;
            if state.is_closing {
                return (executed, None);
            }
        }
        match rest {
            Some(Rest::Incomplete { start, bytes }) => {
                *wanted_bytes = bytes;
                executed = start;
            }
            Some(Rest::Malformed(error)) => {
                let text = format!("ERR Protocol error: {error}");
                Reply { output, version: state.version }.error(&Error::new(text));
                state.is_closing = true;
            }
            None => {}
        }
        (executed, None)
    }

    /// Returns whether the connection must be closed after the replies.
    pub fn is_closing(&self) -> bool {
        self.state.is_closing
    }

    /// Handles the end of the connection.
    pub fn disconnect(&mut self, store: &Store) {
        if let Some(job) = self.take_job() {
            job.abandon(store);
        }
        self.state.transaction.discard(store);
        if self.buffer.capacity() >= LONG_STRING_MIN_BYTES {
            store.discard(Garbage::Bytes(std::mem::take(&mut self.buffer)));
        }
        store.clients.remove(self.state.info.id);
    }
}
