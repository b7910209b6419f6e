//! Sends requests to the spawner to start and stop programs.

use std::os::fd::AsFd;

use pinion_engine::connection_actions::Connections;
use pinion_spawner::spawner_handle::ControlError;
use pinion_spawner::worker_connection::{RequestError, stream_sockets};
use pinion_spawner::worker_request::StartRequest;

use super::{ProgramRunner, SpawnerLink, no_stream};
use crate::limits::{BUSY_RETRY_MAX_MS, BUSY_RETRY_MS, BUSY_TIMEOUT_MS, OUTPUT_DELAY_MS};
use crate::program_run::{RunId, RunStage, RunStream, ScriptStart};
use crate::run_error::RunError;

impl ProgramRunner {
    /// Sends the queued stop and start requests until the socket of the spawner is full. Input and
    /// output of running programs do not wait for these requests.
    pub(super) fn send_requests(&mut self, connections: &mut Connections<'_>) {
        if self.retry_at_ms.is_some() {
            return;
        }
        if self.send_stops() && self.send_starts(connections) {
            self.retry_after_ms = BUSY_RETRY_MS;
            return;
        }
        self.retry_at_ms = Some(self.now_ms + self.retry_after_ms);
        self.retry_after_ms = (self.retry_after_ms * 2).min(BUSY_RETRY_MAX_MS);
        // Requests that have waited for too long fail. The first one has waited for the longest
        // time.
        while let Some(id) = self.to_start.front().copied() {
            match self.runs.get(&id).map(|run| &run.stage) {
                Some(RunStage::Wanted { since_ms }) if self.now_ms < since_ms + BUSY_TIMEOUT_MS => {
                    return;
                }
                _ => self.fail(id, RunError::SpawnerBusy),
            }
            self.to_start.pop_front();
        }
    }

    /// Sends requests to stop programs. Returns false if the spawner has no space for all of them.
    fn send_stops(&mut self) -> bool {
        while let Some(id) = self.to_stop.front() {
            // If there is no connection, the spawner has stopped the programs already. The end of
            // the stream of replies reports that the spawner is gone.
            if let SpawnerLink::Open(connection, _) = &self.link
                && connection.stop(id.0) == Err(RequestError::Busy)
            {
                return false;
            }
            self.to_stop.pop_front();
        }
        true
    }

    /// Sends requests to start programs. Returns false if the spawner has no space for all of them.
    fn send_starts(&mut self, connections: &mut Connections<'_>) -> bool {
        while let Some(id) = self.to_start.front().copied() {
            match self.send_start(id, connections) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => self.fail(id, error),
            }
            self.to_start.pop_front();
        }
        true
    }

    /// Sends a start request to the spawner, and makes streams of the worker's ends of the sockets.
    /// Returns false if the spawner has no space for the request. A run that is over by now is not
    /// started.
    fn send_start(
        &mut self,
        id: RunId,
        connections: &mut Connections<'_>,
    ) -> Result<bool, RunError> {
        if self.runs.get(&id).is_none_or(|run| run.error.is_some()) {
            return Ok(true);
        }
        if !self.connect(connections)? {
            return Ok(false);
        }
        let input_tag = self.tag | self.input_bit() | id.0;
        let SpawnerLink::Open(connection, _) = &self.link else {
            return Err(RunError::SpawnerGone);
        };
        let Some(run) = self.runs.get_mut(&id) else { return Ok(true) };
        let sockets = || stream_sockets().map_err(|error| RunError::NoResources(error.to_string()));
        let (own_output, output) = sockets()?;
        let (own_input, input) = run.request.has_input.then(sockets).transpose()?.unzip();
        let arguments = run.request.arguments.iter().map(Vec::as_slice).collect();
        let (start, generation) = (run.request.start, self.access.generation());
        let script = run.request.script.as_ref().map(ScriptStart::as_request);
        let request = StartRequest { id: id.0, start, generation, arguments, script };
        // Without input, a program reads the end of file from the socket of its output, and a
        // script from `/dev/null`.
        let (stdin, stdout) = match &input {
            Some(input) => (input.as_fd(), Some(output.as_fd())),
            None => (output.as_fd(), None),
        };
        match connection.start(request, stdin, stdout) {
            Ok(()) => {}
            Err(RequestError::Busy) => return Ok(false),
            Err(RequestError::Invalid) => return Err(RunError::Arguments),
            Err(RequestError::Gone) => return Err(self.why_lost()),
        }
        run.stage = RunStage::Asked;
        run.output_stream = RunStream::Held(own_output);
        if !run.is_read {
            self.unread.push_back((self.now_ms + OUTPUT_DELAY_MS, id));
        }
        self.to_do.push_back(id);
        if let Some(socket) = own_input {
            let address = connections.adopt(socket, input_tag).map_err(no_stream)?;
            run.input_stream = RunStream::Open(address);
            // The only event of this stream is its end, when the program stops reading.
            if let Some(mut stream) = connections.stream(address) {
                stream.want(1);
            }
        }
        Ok(true)
    }

    /// Connects to the spawner if there is no connection. Returns false if the spawner has no space
    /// for the request.
    fn connect(&mut self, connections: &mut Connections<'_>) -> Result<bool, RunError> {
        let SpawnerLink::Unused = self.link else { return Ok(true) };
        let connection = match self.access.connect() {
            Ok(connection) => connection,
            Err(ControlError::Busy) => return Ok(false),
            Err(ControlError::Gone) => return Err(RunError::SpawnerGone),
            Err(error) => return Err(RunError::NoResources(error.to_string())),
        };
        let reader = connection.reader();
        let reader = reader.map_err(|error| RunError::NoResources(error.to_string()))?;
        let replies = connections.adopt(reader, self.tag).map_err(no_stream)?;
        self.link = SpawnerLink::Open(connection, replies);
        Ok(true)
    }
}
