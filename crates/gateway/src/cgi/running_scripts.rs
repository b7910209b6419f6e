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
    /// Bytes that it may still write after the end of the exchange.
    left_bytes: u64,
}

/// A message to an exchange whose script may run now.
pub(super) struct ScriptTurn;

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

    /// Starts a script for an exchange. The caller has reserved a slot of the queue.
    ///
    /// # Errors
    /// The script cannot be started. Its slot is released then.
    pub(super) fn start(
        &mut self,
        request: RunRequest,
        scripts: &Arc<CgiScripts>,
        exchange: Address,
        now_ms: u64,
    ) -> Result<RunId, RunError> {
        let id = self.runner.start(request, now_ms).inspect_err(|_| self.release(scripts))?;
        let scripts = Arc::clone(scripts);
        let run = ScriptRun { scripts, exchange: Some(exchange), left_bytes: u64::MAX };
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

    /// Returns the next exchange whose script has news. News of scripts without an exchange are
    /// handled here.
    pub(super) fn next_exchange(&mut self) -> Option<Address> {
        while let Some(id) = self.runner.next_news() {
            let Some(run) = self.runs.get(&id) else { continue };
            if run.exchange.is_some() {
                return run.exchange;
            }
            self.go_on_without_client(id);
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
            ScriptEnd::GoesOn => self.runner.write(id, None),
            ScriptEnd::Discarded { due_ms } => {
                run.left_bytes = DISCARDED_CONTENT_MAX_BYTES;
                self.discarded.push_back((due_ms, id));
                self.runner.write(id, None);
                self.go_on_without_client(id);
            }
            ScriptEnd::Stopped => self.runner.cancel(id),
        }
    }

    /// Keeps a script running whose client has its response, or has left: its further output is
    /// dropped, and its slot is released when it has ended.
    fn go_on_without_client(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        while let OutputRead::Bytes(bytes) = self.runner.read(id, DROPPED_PIECE_BYTES, |_| ()) {
            run.left_bytes = run.left_bytes.saturating_sub(bytes as u64);
        }
        if self.runner.has_ended(id) {
            self.end_run(id);
        } else if run.left_bytes == 0 {
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

    /// Releases the slot of a script that has ended.
    fn end_run(&mut self, id: RunId) {
        self.runner.close(id);
        if let Some(run) = self.runs.remove(&id) {
            self.release(&run.scripts);
        }
    }

    /// Releases the slot of a script for the next request.
    pub(super) fn release(&self, scripts: &CgiScripts) {
        if let Some(next) = scripts.queue.release() {
            // A message that cannot be sent is not needed at the deadline of the request.
            let _ = self.poster.post(next, Box::new(ScriptTurn));
        }
    }
}

/// The slots of a worker that ends in a panic are released for the others.
impl Drop for RunningScripts {
    fn drop(&mut self) {
        for run in std::mem::take(&mut self.runs).into_values() {
            self.release(&run.scripts);
        }
    }
}
