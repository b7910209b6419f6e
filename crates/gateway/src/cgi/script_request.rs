//! One request that a CGI script responds to.

use std::io;
use std::sync::Arc;

use pinion_engine::exchange::Exchange;
use pinion_http::h1::client::response_parser::InputEnd;
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_jobs::upload_spool::StoreError;
use pinion_programs::program_run::{Exit, OutputRead, RunId};
use pinion_programs::program_runner::ProgramRunner;
use pinion_programs::run_error::RunError;

use super::CgiEnded;
use super::cgi_failure::CgiFailure;
use super::cgi_scripts::{CgiScripts, ContentStorage};
use super::client_response::ClientResponse;
use super::script_output::{OutputError, ScriptOutput};
use super::script_variables::{ScriptTarget, add_content_length};
use crate::limits::{
    CGI_EXIT_WAIT_MS, DISCARDED_RESPONSE_TIMEOUT_MS, REQUEST_PIECE_BYTES, RESPONSE_PIECE_BYTES,
};
use crate::proxy::UploadQuotas;
use crate::stored_content::StoredContent;
use crate::x_sendfile::FileResponse;

/// One request that a CGI script responds to.
#[derive(Debug)]
pub(super) struct ScriptRequest {
    pub(super) scripts: Arc<CgiScripts>,
    /// The path of the script below its folder.
    pub(super) path: Vec<u8>,
    pub(super) stage: RequestStage,
    /// The variables, until the script is started.
    pub(super) variables: Vec<u8>,
    /// Whether the request has content.
    pub(super) has_content: bool,
    /// Content that is stored before the script is started.
    stored: Option<StoredContent>,
    /// The variables have no length of the content yet.
    lacks_length: bool,
    output: ScriptOutput,
    pub(super) response: ClientResponse,
    /// Lines of fields that the response has unless the script sets them.
    defaults: Arc<[u8]>,
    /// Bytes of content that the client was asked for and that have not come.
    pub(super) wanted_bytes: u64,
    /// All content was given to the script, or there is none.
    pub(super) has_all_content: bool,
    /// The deadline of the current wait, in monotonic milliseconds.
    pub(super) due_ms: u64,
    /// The time when the output has ended, if the script has not, in monotonic milliseconds.
    pub(super) output_end_ms: Option<u64>,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Its content is stored.
    Storing,
    /// It waits until its script may run.
    Waiting,
    /// Its script was started.
    Running(RunId),
}

/// The fate of a script whose request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptEnd {
    /// It may go on, as one does that has closed its output.
    Continues,
    /// It may go on as long as it writes little output, which is discarded, until it has to end.
    Discarded {
        /// Monotonic milliseconds.
        due_ms: u64,
    },
    /// It is stopped.
    Stopped,
}

impl ScriptRequest {
    /// Makes the request for the script of a target, with its variables. With `stored`, the content
    /// is stored before the script starts.
    pub(super) fn new(
        scripts: &Arc<CgiScripts>,
        defaults: &Arc<[u8]>,
        head: &RequestHead<'_>,
        (target, variables): (ScriptTarget, Vec<u8>),
        stored: Option<StoredContent>,
    ) -> Self {
        Self {
            scripts: Arc::clone(scripts),
            output: ScriptOutput::new(head.method, &target.path),
            path: target.path,
            stage: if stored.is_some() { RequestStage::Storing } else { RequestStage::Waiting },
            variables,
            has_content: !matches!(head.framing, Framing::None | Framing::Length(0)),
            stored,
            lacks_length: matches!(head.framing, Framing::Chunked | Framing::Frames),
            response: ClientResponse::default(),
            defaults: Arc::clone(defaults),
            wanted_bytes: 0,
            has_all_content: head.framing == Framing::None,
            due_ms: 0,
            output_end_ms: None,
        }
    }

    /// Stores content.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) fn store(&mut self, bytes: &[u8], uploads: &UploadQuotas) -> Result<(), CgiFailure> {
        let Some(stored) = &mut self.stored else { return Ok(()) };
        stored.append(bytes, uploads).map_err(not_stored)
    }

    /// Completes the stored content, so that the script can start.
    ///
    /// # Errors
    /// The content cannot be stored, or the variables become too long with its length.
    pub(super) fn finish_storing(&mut self) -> Result<(), CgiFailure> {
        let Some(stored) = &mut self.stored else { return Ok(()) };
        let bytes = stored.finish().map_err(not_stored)?;
        self.stage = RequestStage::Waiting;
        self.has_content = bytes > 0;
        self.has_all_content = bytes == 0;
        if self.lacks_length {
            let added = add_content_length(&mut self.variables, bytes);
            added.map_err(CgiFailure::Variables)?;
        }
        Ok(())
    }

    /// Returns whether its content is stored to find out the length.
    pub(super) fn is_measured(&self) -> bool {
        let is_storing = self.stage == RequestStage::Storing;
        let is_always_stored = self.scripts.content_storage == ContentStorage::Always;
        is_storing && self.lacks_length && !is_always_stored
    }

    /// Sends content to the script, or asks the client for more, as far as the script takes it.
    ///
    /// # Errors
    /// Stored content cannot be read.
    pub(super) fn give_content(
        &mut self,
        runner: &mut ProgramRunner,
        id: RunId,
        exchange: &mut Exchange<'_>,
    ) -> io::Result<()> {
        while !self.has_all_content && self.wanted_bytes == 0 && runner.takes_input(id).0 {
            match &mut self.stored {
                None => {
                    exchange.want(REQUEST_PIECE_BYTES);
                    self.wanted_bytes = REQUEST_PIECE_BYTES;
                }
                Some(stored) => {
                    let piece = stored.next_piece()?;
                    runner.write(id, piece.as_deref());
                    if piece.is_none() {
                        self.has_all_content = true;
                        // Its file and its share of the space are free for others.
                        self.stored = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the client the available part of the response. Returns how the request has ended, if
    /// it has.
    pub(super) fn respond(
        &mut self,
        runner: &mut ProgramRunner,
        id: RunId,
        storage: &mut HeadStorage,
        exchange: &mut Exchange<'_>,
    ) -> Option<(CgiEnded, ScriptEnd)> {
        let now_ms = exchange.now().monotonic_ms;
        while !self.response.is_full {
            let mut read = Ok(false);
            let give = |bytes: &[u8]| read = self.send(bytes, InputEnd::Open, storage, exchange);
            let end = match runner.read(id, RESPONSE_PIECE_BYTES, give) {
                OutputRead::Bytes(_) => {
                    self.due_ms = now_ms + self.scripts.timeout_ms;
                    if let Some(file) = self.response.file.take() {
                        return Some(self.end_with_file(file, now_ms));
                    }
                    match read {
                        Ok(false) => continue,
                        read => return Some(self.end(read, runner, id, exchange)),
                    }
                }
                OutputRead::Pending if runner.has_all_output(id) => {
                    let ended_ms = *self.output_end_ms.get_or_insert(now_ms);
                    self.due_ms = ended_ms + CGI_EXIT_WAIT_MS;
                    if now_ms < self.due_ms {
                        return None;
                    }
                    InputEnd::Closed
                }
                OutputRead::Pending => return None,
                OutputRead::End => self.input_end(runner, id),
                OutputRead::Failed(error) => return Some(self.run_has_failed(error, exchange)),
            };
            let read = self.send(b"", end, storage, exchange);
            if let Some(file) = self.response.file.take() {
                return Some(self.end_with_file(file, now_ms));
            }
            return Some(self.end(read, runner, id, exchange));
        }
        None
    }

    /// Ends the request with a file in place of the content of the response. A script that has all
    /// of the request may finish.
    fn end_with_file(&self, file: Box<FileResponse>, now_ms: u64) -> (CgiEnded, ScriptEnd) {
        let end = if self.has_all_content {
            ScriptEnd::Discarded { due_ms: now_ms + DISCARDED_RESPONSE_TIMEOUT_MS }
        } else {
            ScriptEnd::Stopped
        };
        (CgiEnded::File(file), end)
    }

    /// Returns the end of the output of a script that has ended. One that was killed has not
    /// written all of its response.
    fn input_end(&self, runner: &mut ProgramRunner, id: RunId) -> InputEnd {
        match runner.exit(id) {
            Ok(Some(Exit::Signal(_))) if !self.response.has_announced_content() => InputEnd::Broken,
            _ => InputEnd::Closed,
        }
    }

    /// Sends output on. Returns whether the response is at its end.
    fn send(
        &mut self,
        bytes: &[u8],
        end: InputEnd,
        storage: &mut HeadStorage,
        exchange: &mut Exchange<'_>,
    ) -> Result<bool, OutputError> {
        let Self { output, response, scripts, defaults, .. } = self;
        output.feed(bytes, end, storage, |event| response.send(event, scripts, defaults, exchange))
    }

    /// Ends the request at the end of the response, or because the output is wrong.
    fn end(
        &mut self,
        read: Result<bool, OutputError>,
        runner: &mut ProgramRunner,
        id: RunId,
        exchange: &mut Exchange<'_>,
    ) -> (CgiEnded, ScriptEnd) {
        let Err(error) = read else {
            let end = if runner.has_all_output(id) || self.output.is_http() {
                ScriptEnd::Continues
            } else {
                // It writes endless output that is discarded.
                ScriptEnd::Stopped
            };
            return (self.end_of_response(exchange), end);
        };
        let exit = runner.exit(id).ok().flatten();
        let script = self.scripts.shown(&self.path).into();
        let line = self.output.take_malformed_line();
        let failure = CgiFailure::Output { script, error, exit, line };
        (self.failed(failure, exchange), ScriptEnd::Stopped)
    }

    fn end_of_response(&mut self, exchange: &mut Exchange<'_>) -> CgiEnded {
        let body_bytes = self.response.body_bytes;
        match (self.response.redirect.take(), self.response.status) {
            (Some(target), _) => CgiEnded::LocalRedirect { target },
            (None, status) => {
                exchange.end(std::iter::empty());
                // A response that has an end has a head.
                CgiEnded::Answered { status: status.unwrap_or(200), body_bytes }
            }
        }
    }

    /// Ends the request because the script could not be started, or was stopped.
    fn run_has_failed(
        &mut self,
        error: Arc<RunError>,
        exchange: &mut Exchange<'_>,
    ) -> (CgiEnded, ScriptEnd) {
        let failure = CgiFailure::of_run(&self.scripts, &self.path, error);
        (self.failed(failure, exchange), ScriptEnd::Stopped)
    }

    /// Ends the response because of a failure.
    pub(super) fn failed(&self, error: CgiFailure, exchange: &mut Exchange<'_>) -> CgiEnded {
        match self.response.status {
            None => CgiEnded::Failed(error),
            Some(status) => {
                exchange.cut_short();
                CgiEnded::Aborted { status, body_bytes: self.response.body_bytes, error }
            }
        }
    }
}

/// Returns the failure of a request whose content cannot be stored.
fn not_stored(error: StoreError) -> CgiFailure {
    match error {
        StoreError::Full(why) => CgiFailure::StorageFull(why.into()),
        StoreError::Io(error) => CgiFailure::Stored(error.to_string().into()),
    }
}
