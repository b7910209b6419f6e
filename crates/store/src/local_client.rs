//! Clients in the same process, such as scripts, which pass arguments instead of bytes of the
//! protocol. Commands, checks and locks are the same as for all other clients. Replies are in
//! RESP3, for [`ReplyReader`](crate::ReplyReader).

use std::sync::Arc;

use crate::client::ClientState;
use crate::client_registry::ClientInfo;
use crate::command::spec::{CommandGroup, CommandSpec, Flags};
use crate::command::table;
use crate::command::transactions::Transaction;
use crate::dispatch::{self, Execution};
use crate::error::Error;
use crate::job::Job;
use crate::read_set::{ReadRecorder, ReadSet};
use crate::resp::arguments::{ArgumentRange, Arguments, OwnedArguments};
use crate::resp::number::IntegerText;
use crate::resp::output::ReplyOutput;
use crate::resp::reply_writer::{RespVersion, double_text};
use crate::store::Store;

/// A command with its arguments, the first of which is its name. The value can be reused for
/// further commands.
#[derive(Debug, Default)]
pub struct LocalCommand {
    bytes: Vec<u8>,
    ranges: Vec<ArgumentRange>,
}

/// A client without a connection. It uses database 0 and needs no password.
#[derive(Debug)]
pub struct LocalClient {
    state: ClientState,
    /// The recorder of the keys that are read, while recording is active.
    recorder: Option<ReadRecorder>,
}

/// A transaction: commands that are executed together, without commands of other clients in
/// between.
#[derive(Debug)]
pub struct LocalTransaction {
    state: ClientState,
}

/// The outcome of a command.
#[derive(Debug)]
pub enum LocalExecution {
    /// The command was executed, and its reply is in the output.
    Done,
    /// The command may take long or waits for a shard, so another thread must run it.
    Job(Box<Job>),
}

impl LocalCommand {
    /// Removes all arguments. The memory of a command of usual size is kept for the next one.
    pub fn clear(&mut self) {
        const KEPT_BYTES: usize = 64 * 1024;
        const KEPT_ARGUMENTS: usize = 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ranges.clear();
        self.ranges.shrink_to(KEPT_ARGUMENTS);
    }

    /// Adds an argument.
    pub fn push(&mut self, argument: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(argument);
        self.ranges.push(ArgumentRange { start, end: self.bytes.len() });
    }

    /// Adds an integer.
    pub fn push_integer(&mut self, number: i64) {
        self.push(IntegerText::new(number).as_bytes());
    }

    /// Adds a floating-point number, in the shortest form that parses to the same number.
    pub fn push_number(&mut self, number: f64) {
        self.push(double_text(number).as_bytes());
    }

    /// Returns the number of arguments, including the name.
    pub fn argument_count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the total number of bytes of the arguments.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns all arguments.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.get().from(0)
    }

    /// Checks the command as far as this is possible without a store: that it exists, that it
    /// allows this number of arguments, and that it makes sense without a connection.
    ///
    /// # Errors
    /// The command is not valid for local clients.
    pub fn check(&self) -> Result<(), Error> {
        let name = self.get().get(0).unwrap_or_default();
        let Some(command) = table::find(name) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(NAME_SHOWN_BYTES)]);
            return Err(Error::new(format!("ERR unknown command '{}'", name.escape_debug())));
        };
        check(command)?;
        if command.takes(self.ranges.len()) {
            Ok(())
        } else {
            Err(dispatch::wrong_arity(command.name))
        }
    }

    fn get(&self) -> Arguments<'_> {
        Arguments { bytes: &self.bytes, ranges: &self.ranges }
    }

    /// Takes the arguments for a job, without copying them.
    fn take(&mut self) -> OwnedArguments {
        let bytes = std::mem::take(&mut self.bytes);
        OwnedArguments::of_buffer(bytes, 0, &self.ranges)
    }
}

/// Most bytes of an unknown command name in an error message.
const NAME_SHOWN_BYTES: usize = 128;

/// Returns whether local clients may use a command with this name in lower case.
pub fn has_command(name: &[u8]) -> bool {
    let found = table::find(name).filter(|command| command.name.as_bytes() == name);
    found.is_some_and(|command| check(command).is_ok())
}

/// Checks that a command makes sense without a connection, and is not an administrative one.
fn check(command: &CommandSpec) -> Result<(), Error> {
    let name = command.name;
    if matches!(command.group, CommandGroup::Connection | CommandGroup::Transactions) {
        return Err(Error::new(format!("ERR the command '{name}' is only for connections")));
    }
    if command.flags.has(Flags::ADMIN) {
        let text = format!("ERR the command '{name}' is for operators, with a client of Redis");
        return Err(Error::new(text));
    }
    Ok(())
}

impl LocalClient {
    /// Creates a client. The slow log shows it under this name.
    pub fn new(name: &str, now_ms: u64) -> Self {
        Self { state: local_state(ClientInfo::unlisted(name, now_ms)), recorder: None }
    }

    /// Executes a command that was [checked](LocalCommand::check). Its reply is added to the
    /// output, unless the command becomes a job, whose reply is in
    /// [`FinishedJob::take_output`](crate::job::FinishedJob::take_output). `now_ms` are
    /// milliseconds since 1970.
    pub fn execute(
        &mut self,
        store: &Store,
        command: &mut LocalCommand,
        now_ms: u64,
        output: &mut ReplyOutput,
    ) -> LocalExecution {
        let arguments = command.get();
        let prepared = dispatch::prepare(store, arguments);
        let call = (prepared, arguments);
        if let Some(recorder) = &mut self.recorder {
            // The keys are recorded before they are read, so that no change between both is missed.
            recorder.add(prepared, arguments, now_ms);
        }
        match dispatch::execute(store, &mut self.state, call, now_ms, output) {
            Execution::Done => LocalExecution::Done,
            Execution::Job | Execution::Queued => {
                self.recorder.iter_mut().for_each(ReadRecorder::give_up);
                let state = local_state(Arc::clone(&self.state.info));
                let state = std::mem::replace(&mut self.state, state);
                LocalExecution::Job(Box::new(Job::new(store, state, prepared, command.take())))
            }
        }
    }

    /// Begins to record the keys that commands read. Returns false if a recording is active
    /// already.
    #[must_use]
    pub fn record_reads(&mut self, store: &Arc<Store>) -> bool {
        let begins = self.recorder.is_none();
        if begins {
            self.recorder = Some(ReadRecorder::new(store, self.state.database));
        }
        begins
    }

    /// Ends recording. Returns the set of keys that were read. Returns `None` if a command has
    /// changed data, was a job or a transaction, or has read data that may change although no key
    /// does, such as the number of keys.
    pub fn recorded_reads(&mut self) -> Option<ReadSet> {
        self.recorder.take().and_then(ReadRecorder::end)
    }

    /// Begins a transaction. Other commands of the client do not belong to it.
    pub fn transaction(&mut self) -> LocalTransaction {
        self.recorder.iter_mut().for_each(ReadRecorder::give_up);
        let mut state = local_state(Arc::clone(&self.state.info));
        state.transaction = Transaction::begun();
        LocalTransaction { state }
    }
}

impl LocalTransaction {
    /// Adds a command that was [checked](LocalCommand::check).
    ///
    /// # Errors
    /// The store refuses the command because it has no memory left. The caller must not execute any
    /// of the commands.
    pub fn queue(
        &mut self,
        store: &Store,
        command: &mut LocalCommand,
        now_ms: u64,
    ) -> Result<(), Vec<u8>> {
        let arguments = command.get();
        let prepared = dispatch::prepare(store, arguments);
        let (call, mut output) = ((prepared, arguments), ReplyOutput::default());
        match dispatch::execute(store, &mut self.state, call, now_ms, &mut output) {
            Execution::Queued => prepared.queue(&mut self.state, command.take(), &mut output),
            execution => debug_assert_eq!(execution, Execution::Done, "it is queued"),
        }
        match output.bytes.strip_prefix(b"-") {
            Some(error) => Err(error.trim_ascii_end().to_vec()),
            None => Ok(()),
        }
    }

    /// Executes the commands. The reply is an array of their replies.
    pub fn execute(
        mut self,
        store: &Store,
        now_ms: u64,
        output: &mut ReplyOutput,
    ) -> LocalExecution {
        let mut command = LocalCommand::default();
        command.push(b"EXEC");
        let prepared = dispatch::prepare(store, command.get());
        let call = (prepared, command.get());
        match dispatch::execute(store, &mut self.state, call, now_ms, output) {
            Execution::Done => LocalExecution::Done,
            Execution::Job | Execution::Queued => {
                let arguments = command.take();
                LocalExecution::Job(Box::new(Job::new(store, self.state, prepared, arguments)))
            }
        }
    }
}

fn local_state(info: Arc<ClientInfo>) -> ClientState {
    ClientState {
        info,
        database: 0,
        version: RespVersion::Three,
        is_authenticated: true,
        transaction: Transaction::default(),
        is_closing: false,
    }
}
