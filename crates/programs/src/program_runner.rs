//! Runs the programs of one worker.
//!
//! The caller starts a program with [`ProgramRunner::start`]. Whenever [`ProgramRunner::next_news`]
//! returns the run, the caller queries it with [`ProgramRunner::started`], [`ProgramRunner::read`]
//! and [`ProgramRunner::exit`]. None of these functions touches a connection.
//! [`ProgramRunner::flush`] does that: the caller calls it after them, and at the end of each event
//! of a stream ([`ProgramRunner::byte_stream_event`]).
//!
//! A program has a socket for its output, and another one if it gets input. The spawner closes its
//! own copies of the sockets, so the output ends when the last process that holds the socket has
//! closed it.

mod spawner_requests;
mod stream_events;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use pinion_engine::app::ByteStreamEvent;
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::outgoing_connect::ConnectError;
use pinion_spawner::reply::ReplyReader;
use pinion_spawner::worker_connection::SpawnerConnection;

use crate::limits::{BUSY_RETRY_MS, OUTPUT_BUFFER_BYTES, RUNS_PER_WORKER_MAX};
use crate::program_run::{Exit, OutputRead, ProgramRun, RunId, RunRequest, RunStage, RunStream};
use crate::run_error::RunError;
use crate::spawner_access::SpawnerAccess;

/// This bit is set in the tags of the streams of programs of scripts, and in no other tags of the
/// worker.
pub const PROGRAM_TAG: u64 = 1 << 63;

/// The runner of the programs of one worker.
#[derive(Debug)]
pub struct ProgramRunner {
    access: SpawnerAccess,
    /// This bit is set in the tags of all streams. It alone is the tag of the stream of replies;
    /// runs have numbers from 1 on.
    tag: u64,
    link: SpawnerLink,
    replies: ReplyReader,
    runs: HashMap<RunId, ProgramRun>,
    /// Runs that were closed while their programs ran. They count as running until the spawner
    /// reports their end, because a program may take some time to stop.
    ending: HashSet<RunId>,
    /// The deadline of each run, in monotonic milliseconds.
    deadlines: BTreeSet<(u64, RunId)>,
    /// Scripts whose output is not read yet, with the time at which reading begins, in monotonic
    /// milliseconds; the earliest one is at the front. Some of them may have ended.
    unread: VecDeque<(u64, RunId)>,
    /// Runs with pending operations on their streams.
    to_do: VecDeque<RunId>,
    /// Streams that are to be cut because they are not wanted any more.
    to_cut: Vec<Address>,
    /// Programs for which a stop request is to be sent; `to_start` has those for which a start
    /// request is to be sent.
    to_stop: VecDeque<RunId>,
    to_start: VecDeque<RunId>,
    news: VecDeque<RunId>,
    last_id: u64,
    /// The time that the last call with a time had, in monotonic milliseconds.
    now_ms: u64,
    is_stopping: bool,
    /// The time at which requests are retried for which the spawner had no space, in monotonic
    /// milliseconds.
    retry_at_ms: Option<u64>,
    /// The delay of the next attempt, in milliseconds.
    retry_after_ms: u64,
}

/// The connection to the spawner.
#[derive(Debug)]
enum SpawnerLink {
    /// No program was started yet, or the connection has ended. The next program opens it.
    Unused,
    /// The connection is open, and the stream of replies has this address.
    Open(SpawnerConnection, Address),
}

impl ProgramRunner {
    /// Creates a runner for the programs of scripts, whose streams have [`PROGRAM_TAG`]. The runner
    /// connects to the spawner when the first program is started.
    #[must_use]
    pub fn new(access: SpawnerAccess) -> Self {
        Self::with_tag(access, PROGRAM_TAG)
    }

    /// Creates a runner as [`Self::new`] does, with another bit that is set in the tags of its
    /// streams. The next lower bit is set in some of them as well.
    #[must_use]
    pub fn with_tag(access: SpawnerAccess, tag: u64) -> Self {
        debug_assert!(tag.is_power_of_two(), "one bit");
        Self {
            access,
            tag,
            link: SpawnerLink::Unused,
            replies: ReplyReader::default(),
            runs: HashMap::new(),
            ending: HashSet::new(),
            deadlines: BTreeSet::new(),
            unread: VecDeque::new(),
            to_do: VecDeque::new(),
            to_cut: Vec::new(),
            to_stop: VecDeque::new(),
            to_start: VecDeque::new(),
            news: VecDeque::new(),
            last_id: 0,
            now_ms: 0,
            is_stopping: false,
            retry_at_ms: None,
            retry_after_ms: BUSY_RETRY_MS,
        }
    }

    /// Starts a program. The first news of the run is that the program runs, or an error; for a
    /// script it is output or the end.
    ///
    /// # Errors
    /// The limit of running programs is reached, or the spawner has ended.
    pub fn start(&mut self, request: RunRequest, now_ms: u64) -> Result<RunId, RunError> {
        self.now_ms = self.now_ms.max(now_ms);
        if self.runs.len() + self.ending.len() >= RUNS_PER_WORKER_MAX {
            return Err(RunError::TooMany);
        }
        if self.access.has_ended() {
            return Err(RunError::SpawnerGone);
        }
        self.last_id += 1;
        let id = RunId(self.last_id);
        let due_ms = self.now_ms.saturating_add(request.timeout_ms.max(1));
        let has_all_input = !request.has_input;
        let is_read = request.script.is_none();
        let input_stream = if has_all_input { RunStream::Over } else { RunStream::Unopened };
        let run = ProgramRun {
            request,
            stage: RunStage::Wanted { since_ms: self.now_ms },
            output_stream: RunStream::Unopened,
            input_stream,
            pid: None,
            output: VecDeque::new(),
            credit: 0,
            is_read,
            unsent: Vec::new(),
            has_all_input,
            is_input_finished: false,
            is_blocked: false,
            error: None,
            is_announced: false,
            due_ms,
        };
        self.runs.insert(id, run);
        self.deadlines.insert((due_ms, id));
        self.to_start.push_back(id);
        Ok(id)
    }

    /// Returns the process ID of a program once it runs. Returns `None` before that, and always for
    /// a script.
    ///
    /// # Errors
    /// The program was not started.
    pub fn started(&mut self, id: RunId) -> Result<Option<u32>, Arc<RunError>> {
        let Some(run) = self.runs.get_mut(&id) else { return Err(Arc::new(RunError::Stopped)) };
        run.is_announced = false;
        match (&run.error, &run.stage) {
            (Some(error), _) => Err(Arc::clone(error)),
            // The process with this ID may have ended already.
            (None, RunStage::Running | RunStage::Ended(_)) => Ok(run.pid),
            (None, _) => Ok(None),
        }
    }

    /// Returns the exit of a program once it has ended, and `None` before that.
    ///
    /// # Errors
    /// The program was not started, or was stopped.
    pub fn exit(&mut self, id: RunId) -> Result<Option<Exit>, Arc<RunError>> {
        let Some(run) = self.runs.get_mut(&id) else { return Err(Arc::new(RunError::Stopped)) };
        run.is_announced = false;
        match (&run.stage, &run.error) {
            (_, Some(error)) => Err(Arc::clone(error)),
            (RunStage::Ended(exit), None) => Ok(Some(*exit)),
            _ => Ok(None),
        }
    }

    /// Passes the next output of a program to `give`, at most `max` bytes.
    pub fn read(&mut self, id: RunId, max: usize, give: impl FnOnce(&[u8])) -> OutputRead {
        let Some(run) = self.runs.get_mut(&id) else { return OutputRead::End };
        let outcome = run.read(max, give);
        if let OutputRead::Bytes(_) = outcome {
            self.to_do.push_back(id);
        }
        outcome
    }

    /// Returns whether the output of a program has ended. The program itself may still run.
    #[must_use]
    pub fn has_all_output(&self, id: RunId) -> bool {
        let is_over = |run: &ProgramRun| run.output_stream.is_over() && run.output.is_empty();
        self.runs.get(&id).is_none_or(is_over)
    }

    /// Returns whether a program has ended or will never run. In both cases its run may be closed.
    pub fn has_ended(&mut self, id: RunId) -> bool {
        let Some(run) = self.runs.get_mut(&id) else { return true };
        run.is_announced = false;
        !run.may_run() && !matches!((&run.stage, &run.error), (RunStage::Wanted { .. }, None))
    }

    /// Stops a program whose output is not wanted any more. The run has news when the program has
    /// ended ([`Self::has_ended`]). A second call for the same program has no effect.
    pub fn cancel(&mut self, id: RunId) {
        if self.runs.get(&id).is_some_and(|run| run.error.is_none()) {
            self.fail(id, RunError::Stopped);
        }
    }

    /// Returns whether [`Self::write`] may be called now; if not, the run has news as soon as it
    /// may. The second value is true if the program does not read its input any more.
    pub fn takes_input(&mut self, id: RunId) -> (bool, bool) {
        let Some(run) = self.runs.get_mut(&id) else { return (false, true) };
        run.is_announced = false;
        (run.takes_input(), run.is_input_refused())
    }

    /// Queues a piece of input; `None` is the end of the input. Input that the program does not
    /// read is dropped.
    pub fn write(&mut self, id: RunId, piece: Option<&[u8]>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match piece {
            _ if run.has_all_input => {}
            Some(bytes) if !run.is_input_refused() => run.unsent.extend_from_slice(bytes),
            Some(_) => {}
            None => run.has_all_input = true,
        }
        self.to_do.push_back(id);
    }

    /// Closes a run that is not wanted any more. If its program has not ended, the program is
    /// stopped.
    pub fn close(&mut self, id: RunId) {
        let Some(run) = self.runs.remove(&id) else { return };
        self.deadlines.remove(&(run.due_ms, id));
        self.let_go(id, &run);
        if run.may_run() {
            self.ending.insert(id);
        }
    }

    /// Returns a run that has news.
    pub fn next_news(&mut self) -> Option<RunId> {
        self.news.pop_front()
    }

    /// Returns whether [`Self::flush`] or [`Self::next_news`] has work to do.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        let has_requests = !self.to_stop.is_empty() || !self.to_start.is_empty();
        let has_requests = has_requests && self.retry_at_ms.is_none();
        let has_commands = !self.to_do.is_empty() || !self.to_cut.is_empty();
        has_requests || has_commands || !self.news.is_empty() || self.is_done()
    }

    /// Returns the time at which [`Self::pass`] has work to do, in monotonic milliseconds.
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        if self.has_work() {
            return Some(0);
        }
        let first = self.deadlines.first().map(|(due_ms, _)| *due_ms);
        let unread = self.unread.front().map(|(due_ms, _)| *due_ms);
        first.into_iter().chain(unread).chain(self.retry_at_ms).min()
    }

    /// Begins the stop of the server: the connection to the spawner is closed with the last run.
    /// The caller calls [`Self::flush`] afterwards.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Returns whether the connection to the spawner is not needed any more.
    fn is_done(&self) -> bool {
        let is_open = matches!(self.link, SpawnerLink::Open(..));
        self.is_stopping && is_open && self.runs.is_empty() && self.to_stop.is_empty()
    }

    /// Handles the deadlines that have passed.
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        self.now_ms = connections.now().monotonic_ms;
        while let Some((due_ms, id)) = self.deadlines.first().copied()
            && due_ms <= self.now_ms
        {
            self.deadlines.pop_first();
            let timeout_ms = self.runs.get(&id).map_or(0, |run| run.request.timeout_ms);
            self.fail(id, RunError::TimedOut(timeout_ms));
        }
        while let Some((due_ms, id)) = self.unread.front().copied()
            && due_ms <= self.now_ms
        {
            self.unread.pop_front();
            self.read_output(id);
        }
        if self.retry_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.retry_at_ms = None;
        }
        self.flush(connections);
    }

    /// Handles an event of a stream whose tag has the bit of this runner.
    pub fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let Some(tag) = stream.tag() else { return };
        self.now_ms = stream.now().monotonic_ms;
        let id = RunId(tag & !self.tag & !self.input_bit());
        if tag == self.tag {
            self.answers_event(event, stream);
        } else if tag & self.input_bit() != 0 {
            self.input_event(id, event, stream);
        } else {
            self.output_event(id, event, stream);
        }
        self.flush(&mut stream.connections());
    }

    /// Returns the bit that the tags of input streams have in addition to that of the runner.
    fn input_bit(&self) -> u64 {
        self.tag >> 1
    }

    /// Performs all pending operations on connections.
    pub fn flush(&mut self, connections: &mut Connections<'_>) {
        for address in std::mem::take(&mut self.to_cut) {
            if let Some(mut stream) = connections.stream(address) {
                stream.abort();
            }
        }
        self.send_requests(connections);
        for _ in 0..self.to_do.len() {
            let Some(id) = self.to_do.pop_front() else { return };
            self.go_on(id, connections);
        }
        if self.is_done()
            && let SpawnerLink::Open(_, replies) =
                std::mem::replace(&mut self.link, SpawnerLink::Unused)
        {
            self.ending.clear();
            if let Some(mut stream) = connections.stream(replies) {
                stream.abort();
            }
        }
    }

    /// Registers the output socket of a run with the engine, if the output is to be read. The
    /// output of a program that has ended is in the socket, so no stream of the engine is needed
    /// for it.
    fn open_output(
        &mut self,
        id: RunId,
        connections: &mut Connections<'_>,
    ) -> Result<(), RunError> {
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.is_read) else { return Ok(()) };
        if run.has_held_output() && matches!(run.stage, RunStage::Ended(_)) {
            let is_left = run.read_held_output();
            self.went_on(id);
            if !is_left {
                return Ok(());
            }
        }
        let Some(run) = self.runs.get_mut(&id) else { return Ok(()) };
        let Some(socket) = run.output_stream.take_held() else { return Ok(()) };
        let address = connections.adopt(socket, self.tag | id.0).map_err(no_stream)?;
        run.output_stream = RunStream::Open(address);
        // A program without input reads its end of file from the same socket.
        if !run.request.has_input
            && run.request.script.is_none()
            && let Some(mut stream) = connections.stream(address)
        {
            stream.finish();
        }
        Ok(())
    }

    /// Transfers input and output of a run as far as possible.
    fn go_on(&mut self, id: RunId, connections: &mut Connections<'_>) {
        if let Err(error) = self.open_output(id, connections) {
            return self.fail(id, error);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        let open = |stream: &RunStream| stream.address();
        if let Some(mut stream) =
            open(&run.input_stream).and_then(|address| connections.stream(address))
        {
            if !run.is_blocked && !run.unsent.is_empty() {
                run.is_blocked = stream.write(Slice::Copied(&run.unsent)) != ContentRoom::Free;
                run.unsent.clear();
            }
            // The stream stays open after the end of the input, because only later events show
            // whether the program reads all of it.
            if run.has_all_input && run.unsent.is_empty() && !run.is_input_finished {
                run.is_input_finished = true;
                stream.finish();
            }
        }
        if let Some(mut stream) =
            open(&run.output_stream).and_then(|address| connections.stream(address))
        {
            let room = OUTPUT_BUFFER_BYTES - (run.output.len() as u64).min(OUTPUT_BUFFER_BYTES);
            if run.credit < OUTPUT_BUFFER_BYTES / 2 && room > run.credit {
                stream.want(room - run.credit);
                run.credit = room;
            }
        }
        if run.takes_input() && !run.is_blocked {
            self.announce(id);
        }
    }

    /// Makes the engine read the output of a script from now on.
    fn read_output(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.is_read = true;
            self.to_do.push_back(id);
        }
    }

    /// Marks a run as failed, and stops its program.
    fn fail(&mut self, id: RunId, error: RunError) {
        let Some(mut run) = self.runs.remove(&id) else { return };
        self.deadlines.remove(&(run.due_ms, id));
        self.let_go(id, &run);
        (run.output_stream, run.input_stream) = (RunStream::Over, RunStream::Over);
        run.unsent = Vec::new();
        if run.error.is_none() {
            run.error = Some(Arc::new(error));
        }
        self.runs.insert(id, run);
        self.announce(id);
    }

    /// Cuts the streams of a run, and requests the stop of its program.
    fn let_go(&mut self, id: RunId, run: &ProgramRun) {
        self.to_cut.extend(run.output_stream.address());
        self.to_cut.extend(run.input_stream.address());
        if run.error.is_none() && run.may_run() {
            self.to_stop.push_back(id);
        }
    }

    fn announce(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && !std::mem::replace(&mut run.is_announced, true)
        {
            self.news.push_back(id);
        }
    }
}

fn no_stream(error: ConnectError) -> RunError {
    RunError::NoResources(match error {
        ConnectError::TooMany => "too many connections (--max-outgoing)".to_owned(),
        ConnectError::NoMemory => "out of memory".to_owned(),
    })
}
