//! The scripts of one worker that run. A script may run longer than its request: after its response
//! is complete, after a file was sent in place of its output, or until it is stopped because its
//! client has left.

use std::collections::VecDeque;
use std::sync::Arc;

use pinion_engine::Poster;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange_address::Address;
use pinion_programs::program_run::{OutputRead, RunId, RunRequest};
use pinion_programs::program_runner::ProgramRunner;
use pinion_programs::run_error::RunError;
use pinion_programs::spawner_access::SpawnerAccess;
use rustc_hash::FxHashMap;

use super::cgi_scripts::CgiScripts;
use super::script_request::ScriptEnd;
use crate::limits::{CGI_TAG, DISCARDED_CONTENT_MAX_BYTES, DROPPED_PIECE_BYTES};

/// The scripts of one worker that run.
pub(super) struct RunningScripts {
    pub(super) runner: ProgramRunner,
    poster: Poster,
    runs: FxHashMap<RunId, ScriptRun>,
    /// The times at which scripts have to end whose output is discarded because a file was sent in
    /// its place, in monotonic milliseconds. Some of these scripts may have ended.
    discarded: VecDeque<(u64, RunId)>,
}

/// A script that runs.
struct ScriptRun {
    scripts: Arc<CgiScripts>,
    /// The exchange that it responds to; `None` once the exchange is over.
    exchange: Option<Address>,
    /// The most output that is still discarded after the end of the exchange, in bytes.
    discard_max_bytes: u64,
}

/// The message to an exchange that its script has a permit to run now.
pub(super) struct ScriptMayStart;

impl RunningScripts {
    /// Makes the state of one worker; its streams have [`CGI_TAG`].
    pub(super) fn new(access: SpawnerAccess, poster: Poster) -> Self {
        Self {
            runner: ProgramRunner::with_tag(access, CGI_TAG),
            poster,
            runs: FxHashMap::default(),
            discarded: VecDeque::new(),
        }
    }

    /// Starts a script for an exchange. The caller has a permit of the queue.
    ///
    /// # Errors
    /// The script cannot be started. Its permit is released then.
    pub(super) fn start(
        &mut self,
        request: RunRequest,
        scripts: &Arc<CgiScripts>,
        exchange: Address,
        now_ms: u64,
    ) -> Result<RunId, RunError> {
        let id = self.runner.start(request, now_ms).inspect_err(|_| self.release(scripts))?;
        let scripts = Arc::clone(scripts);
        let run = ScriptRun { scripts, exchange: Some(exchange), discard_max_bytes: u64::MAX };
        self.runs.insert(id, run);
        Ok(id)
    }

    /// Stops the scripts that run for too long, and does the due work of the runner.
    pub(super) fn pass(&mut self, connections: &mut Connections<'_>) {
        self.stop_discarded(connections.now().monotonic_ms);
        self.runner.pass(connections);
    }

    /// Returns the time when [`Self::pass`] has something to do, in monotonic milliseconds.
    pub(super) fn alarm_ms(&self) -> Option<u64> {
        let discarded = self.discarded.front().map(|(due_ms, _)| *due_ms);
        [self.runner.alarm_ms(), discarded].into_iter().flatten().min()
    }

    /// Returns the next exchange whose script has output or has ended. Scripts without an exchange
    /// are handled here.
    pub(super) fn next_exchange(&mut self) -> Option<Address> {
        while let Some(id) = self.runner.next_news() {
            let Some(run) = self.runs.get(&id) else { continue };
            if run.exchange.is_some() {
                return run.exchange;
            }
            self.drain_output(id);
        }
        None
    }

    /// Ends the request of a running script. `end` says whether the script continues.
    pub(super) fn end_request(&mut self, id: RunId, end: ScriptEnd) {
        if self.runner.has_ended(id) {
            return self.end_run(id);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.exchange = None;
        match end {
            ScriptEnd::Continues => self.runner.write(id, None),
            ScriptEnd::Discarded { due_ms } => {
                run.discard_max_bytes = DISCARDED_CONTENT_MAX_BYTES;
                self.discarded.push_back((due_ms, id));
                self.runner.write(id, None);
                self.drain_output(id);
            }
            ScriptEnd::Stopped => self.runner.cancel(id),
        }
    }

    /// Discards the output of a script that no longer has an exchange. Stops the script if it
    /// writes too much, and releases its permit when it has ended.
    fn drain_output(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        while let OutputRead::Bytes(bytes) = self.runner.read(id, DROPPED_PIECE_BYTES, |_| ()) {
            run.discard_max_bytes = run.discard_max_bytes.saturating_sub(bytes as u64);
        }
        if self.runner.has_ended(id) {
            self.end_run(id);
        } else if run.discard_max_bytes == 0 {
            self.runner.cancel(id);
        }
    }

    /// Stops scripts with discarded output that run for too long.
    fn stop_discarded(&mut self, now_ms: u64) {
        while let Some((due_ms, id)) = self.discarded.front() {
            if *due_ms > now_ms && self.runs.contains_key(id) {
                return;
            }
            self.runner.cancel(*id);
            self.discarded.pop_front();
        }
    }

    /// Releases the permit of a script that has ended.
    fn end_run(&mut self, id: RunId) {
        self.runner.close(id);
        if let Some(run) = self.runs.remove(&id) {
            self.release(&run.scripts);
        }
    }

    /// Passes the permit of a script to the next request.
    pub(super) fn release(&self, scripts: &CgiScripts) {
        if let Some(next) = scripts.queue.release() {
            // If the inbox of the worker is full, the message is lost: the request ends at its
            // deadline, and then passes its permit on.
            let _ = self.poster.post(next, Box::new(ScriptMayStart));
        }
    }
}

/// Releases the permits of scripts that still run, also when the worker panics.
impl Drop for RunningScripts {
    fn drop(&mut self) {
        for run in std::mem::take(&mut self.runs).into_values() {
            self.release(&run.scripts);
        }
    }
}
