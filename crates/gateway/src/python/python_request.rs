//! One request that a Python application responds to.

mod frame_check;
mod request_content;

use std::sync::Arc;

use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_http::cgi::variables::VariableScratch;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::method::Method;
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::environ::Environ;
use pinion_http::python::error::BatchError;
use pinion_http::python::frame_writer::{write_gone, write_room};
use pinion_http::python::request_batch::{BatchedContent, RequestBatch};
use pinion_http::python::response_head::PythonResponseHead;
use pinion_http::python::response_length_check::ResponseContentCheck;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::status::never_has_content;
use pinion_http::websocket::handshake::WebSocketRequest;

use super::limits::{
    ATTEMPTS_MAX, PREFETCHED_CONTENT_BYTES, ROOM_STEP_BYTES, WHOLE_CONTENT_MAX_BYTES,
};
use super::python_app::PythonApp;
use super::python_environ::environ;
use super::python_failure::PythonFailure;
use super::python_scope::{http_scope, websocket_scope};
use super::websockets::PendingWebSocket;
use crate::proxy::{Ended, UploadQuotas};
use crate::proxy_error::ProxyError;
use crate::response_forwarding::{ResponseChanges, forwarded, forwarded_interim};
use crate::stored_content::StoredContent;

/// One request that a Python application responds to.
#[derive(Debug)]
pub(super) struct PythonRequest {
    pub(super) app: Arc<PythonApp>,
    pub(super) stage: RequestStage,
    /// The variables or the scope, as long as a process may not have started the request.
    environ: Environ,
    /// Whole content that goes to the process with the variables, as long as they are kept.
    whole_content: Option<Vec<u8>>,
    /// The number of processes that did not start the request.
    attempts: u32,
    /// The content has no length yet.
    pub(super) lacks_length: bool,
    /// All content has come from the client, or there is none.
    pub(super) has_all_content: bool,
    /// Bytes of content that the client was asked for and that have not come.
    asked_bytes: u64,
    /// Bytes of content that the process wants and that have not come.
    wanted_bytes: u64,
    /// Content that has come together with content that the process wanted.
    waiting_content: Vec<u8>,
    /// The process knows that all content has come.
    has_given_end: bool,
    /// The deadline of the current wait, in monotonic milliseconds.
    pub(super) due_ms: u64,
    /// The status of the head that was sent.
    pub(super) status: Option<u16>,
    /// Bytes of content that were sent.
    pub(super) body_bytes: u64,
    method: Method,
    /// Content that is stored before a process gets the request.
    stored: Option<StoredContent>,
    /// Lines of fields that the response has unless the application sets them.
    defaults: Arc<[u8]>,
    content_check: Option<ResponseContentCheck>,
    /// Bytes of content of the response since the process was allowed more.
    sent_bytes: u32,
    /// Enough waits for the client.
    is_full: bool,
    /// The number of interim responses that were sent.
    interim_responses: usize,
    /// The WebSocket that the client asks for.
    pub(super) websocket: Option<Box<PendingWebSocket>>,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Its content is stored.
    Storing,
    /// It waits until a process has time.
    Waiting,
    /// A process has it, or gets it with the next batch.
    Sent {
        /// The connection.
        link: u64,
        /// Its number there.
        number: u32,
    },
}

impl PythonRequest {
    /// # Errors
    /// The path is not one of the application, or the request has too many fields.
    pub(super) fn new(
        app: &Arc<PythonApp>,
        defaults: &Arc<[u8]>,
        client: &ClientIdentity,
        (head, websocket): (&RequestHead<'_>, Option<WebSocketRequest<'_>>),
        uploads: &UploadQuotas,
        scratch: &mut VariableScratch,
    ) -> Result<Self, ProxyError> {
        let is_wsgi = !app.is_asgi();
        let is_prefetched = !is_wsgi && !head.expect_continue && websocket.is_none();
        let is_stored = match head.framing {
            Framing::None | Framing::Length(0) => false,
            // An application that waits for content holds nothing up.
            _ if !is_wsgi => false,
            // The application may refuse the content before the client sends it.
            Framing::Length(_) if head.expect_continue => false,
            Framing::Length(bytes) => bytes <= app.stored_max_bytes.max(WHOLE_CONTENT_MAX_BYTES),
            Framing::Chunked | Framing::Frames => true,
        };
        Ok(Self {
            environ: match &websocket {
                Some(websocket) => websocket_scope(app, client, head, websocket)?,
                None if is_wsgi => environ(app, client, head, scratch)?,
                None => http_scope(app, client, head)?,
            },
            whole_content: None,
            attempts: 0,
            asked_bytes: match head.framing {
                Framing::Length(bytes) if is_prefetched => bytes.min(PREFETCHED_CONTENT_BYTES),
                Framing::Chunked | Framing::Frames if is_prefetched => PREFETCHED_CONTENT_BYTES,
                _ => 0,
            },
            app: Arc::clone(app),
            stage: if is_stored { RequestStage::Storing } else { RequestStage::Waiting },
            lacks_length: matches!(head.framing, Framing::Chunked | Framing::Frames),
            has_all_content: websocket.is_some()
                || matches!(head.framing, Framing::None | Framing::Length(0)),
            wanted_bytes: 0,
            waiting_content: Vec::new(),
            has_given_end: false,
            due_ms: 0,
            status: None,
            body_bytes: 0,
            method: head.method,
            stored: is_stored.then(|| StoredContent::new(uploads)),
            defaults: Arc::clone(defaults),
            content_check: None,
            sent_bytes: 0,
            is_full: false,
            interim_responses: 0,
            websocket: websocket.map(|websocket| {
                Box::new(PendingWebSocket {
                    acceptance: websocket.acceptance(true),
                    is_connect: head.protocol.is_some(),
                    has_ended: head.protocol.is_some() && head.framing == Framing::None,
                })
            }),
        })
    }

    /// Adds the request to a batch, under this number.
    ///
    /// # Errors
    /// The batch has no space for it, or none ever has.
    pub(super) fn add_to(
        &mut self,
        batch: &mut RequestBatch,
        number: u32,
    ) -> Result<(), BatchError> {
        self.has_given_end = false;
        let is_whole = self.stored.is_none()
            && self.has_all_content
            && self.waiting_content.len() as u64 <= WHOLE_CONTENT_MAX_BYTES;
        if is_whole && self.whole_content.is_none() {
            self.whole_content = Some(std::mem::take(&mut self.waiting_content));
        }
        let content = match &self.whole_content {
            Some(bytes) => BatchedContent::Whole(bytes),
            None => BatchedContent::Streamed,
        };
        batch.add(number, content, &self.environ)
    }

    /// Counts an attempt: a process did not start the request, so another one gets it.
    ///
    /// # Errors
    /// That has happened too often.
    pub(super) fn count_attempt(&mut self) -> Result<(), ProxyError> {
        self.attempts += 1;
        if self.attempts < ATTEMPTS_MAX {
            Ok(())
        } else {
            Err(self.error(PythonFailure::ProcessEnded))
        }
    }

    /// Returns whether the client has to do something before the request continues.
    pub(super) fn waits_for_client(&self) -> bool {
        self.is_full || self.asked_bytes > 0
    }

    /// Returns a failure of the application as the error of the request.
    pub(super) fn error(&self, failure: PythonFailure) -> ProxyError {
        ProxyError::Python { app: self.app.name.clone(), failure: Box::new(failure) }
    }

    /// Ends the request because of a failure: no more of the response comes.
    pub(super) fn failed(&self, failure: PythonFailure, exchange: &mut Exchange<'_>) -> Ended {
        self.failed_by(self.error(failure), exchange)
    }

    pub(super) fn failed_by(&self, error: ProxyError, exchange: &mut Exchange<'_>) -> Ended {
        match self.status {
            None => Ended::Failed(error),
            Some(status) => {
                exchange.cut_short();
                Ended::Aborted { status, body_bytes: self.body_bytes, error }
            }
        }
    }

    /// Handles a frame of the process. Frames for the process are added to `out`. Returns how the
    /// request has ended, if it has.
    pub(super) fn frame(
        &mut self,
        frame: &ChildFrame<'_>,
        number: u32,
        exchange: &mut Exchange<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Ended> {
        self.due_ms = exchange.now().monotonic_ms + self.app.timeout_ms;
        self.forget_input();
        if let Err(failure) = self.check(frame) {
            if !frame.is_last() {
                write_gone(out, number);
            }
            return Some(self.failed(failure, exchange));
        }
        let text = |text: &[u8]| {
            PythonFailure::Application(
                String::from_utf8_lossy(text).escape_debug().to_string().into(),
            )
        };
        match *frame {
            ChildFrame::Response { head, content, missing_bytes, .. } => {
                let bytes = content.len() as u64 + u64::from(missing_bytes);
                self.begin_response(&head, Some(bytes), exchange);
                self.content(content, number, missing_bytes == 0, exchange, out)
            }
            ChildFrame::Head { head, .. } => {
                self.begin_response(&head, None, exchange);
                None
            }
            ChildFrame::Content { bytes, is_end, .. } => {
                self.content(bytes, number, is_end, exchange, out)
            }
            ChildFrame::End { .. } => Some(self.end(exchange)),
            ChildFrame::MalformedHead { error, is_end, .. } => {
                if !is_end {
                    write_gone(out, number);
                }
                Some(self.failed(PythonFailure::Response(error), exchange))
            }
            ChildFrame::Abort { text: why, .. } | ChildFrame::Failed { text: why, .. } => {
                Some(self.failed(text(why), exchange))
            }
            ChildFrame::Want { bytes, .. } => {
                self.want_content(bytes.into(), exchange);
                None
            }
            ChildFrame::Hints { hints, .. } => {
                let fields = forwarded_interim(hints.fields.iter(), &self.app.response_fields);
                exchange.interim(EARLY_HINTS, fields);
                None
            }
            // They were refused, are handled by the owner of all WebSockets or files, or are about
            // no request.
            ChildFrame::Accept { .. }
            | ChildFrame::Message { .. }
            | ChildFrame::Close { .. }
            | ChildFrame::Ready(_)
            | ChildFrame::GivenBack(_)
            | ChildFrame::WantChannel
            | ChildFrame::File { .. } => None,
        }
    }

    /// Drops the stored input, since the process has started the request and no other one gets it.
    fn forget_input(&mut self) {
        self.environ = Environ::default();
        self.whole_content = None;
    }

    fn begin_response(
        &mut self,
        head: &PythonResponseHead<'_>,
        whole_bytes: Option<u64>,
        exchange: &mut Exchange<'_>,
    ) {
        let changes = ResponseChanges::of(&self.app.response_fields, self.app.passed_fields);
        let fields = forwarded(head.fields.iter(), changes, &self.defaults);
        let has_content = self.method != Method::Head && !never_has_content(head.status);
        let length = head.content_length.or(whole_bytes.filter(|_| has_content));
        exchange.head(head.status, fields.iter().copied(), length);
        let limits = ResponseLimits::default();
        self.content_check = Some(ResponseContentCheck::new(self.method, head, &limits));
        self.status = Some(head.status);
    }

    /// Sends content on; it may be the last.
    fn content(
        &mut self,
        bytes: &[u8],
        number: u32,
        is_end: bool,
        exchange: &mut Exchange<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Ended> {
        let Some(check) = &mut self.content_check else { return None };
        match check.take(bytes) {
            Ok(bytes) => {
                self.body_bytes += bytes.len() as u64;
                self.is_full = exchange.write(Slice::Copied(bytes)) != ContentRoom::Free;
            }
            Err(error) => {
                if !is_end {
                    write_gone(out, number);
                }
                return Some(self.failed(PythonFailure::Response(error), exchange));
            }
        }
        if is_end {
            return Some(self.end(exchange));
        }
        self.sent_bytes = self.sent_bytes.saturating_add(bytes.len() as u32);
        if let Some(bytes) = self.room() {
            write_room(out, number, bytes);
        }
        None
    }

    /// Returns how many more bytes the process may send, after the client has taken content.
    pub(super) fn room_after_writing(&mut self) -> Option<u32> {
        self.is_full = false;
        self.room()
    }

    fn room(&mut self) -> Option<u32> {
        let is_due = !self.is_full && self.sent_bytes >= ROOM_STEP_BYTES;
        is_due.then(|| std::mem::take(&mut self.sent_bytes))
    }

    /// Counts a part of a file as content. Returns whether the response has content at all.
    pub(super) fn take_file_content(&mut self, bytes: u64) -> Result<bool, PythonFailure> {
        let Some(check) = &mut self.content_check else {
            return Err(PythonFailure::Unexpected("a file before a head"));
        };
        let is_sent = check.take_file(bytes).map_err(PythonFailure::Response)?;
        self.body_bytes += if is_sent { bytes } else { 0 };
        Ok(is_sent)
    }

    pub(super) fn end(&mut self, exchange: &mut Exchange<'_>) -> Ended {
        let is_whole = self.content_check.as_ref().map_or(Ok(()), ResponseContentCheck::end);
        match (is_whole, self.status) {
            (Ok(()), Some(status)) => {
                exchange.end(std::iter::empty());
                Ended::Answered { status, body_bytes: self.body_bytes }
            }
            (Err(error), _) => self.failed(PythonFailure::Response(error), exchange),
            (Ok(()), None) => {
                let text = "it has ended without a response";
                self.failed(PythonFailure::Application(text.into()), exchange)
            }
        }
    }

    /// Records that the client has ended its side of a WebSocket that is not accepted yet.
    pub(super) fn end_websocket_input(&mut self) {
        if let Some(pending) = &mut self.websocket {
            pending.has_ended = true;
        }
    }
}

/// The status of early hints (RFC 8297).
const EARLY_HINTS: u16 = 103;
