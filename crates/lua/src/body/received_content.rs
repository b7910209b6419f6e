//! The content of a request as it arrives: it is requested of the engine in small amounts, so that
//! a client never sends faster than its handler reads.

use pinion_engine::app::Event;
use pinion_engine::exchange::Exchange;

use super::body_memory::{BodyMemory, BodyMemoryShare};
use super::byte_queue::ByteQueue;
use super::multipart_form::MultipartForm;
use crate::limits::{
    BODY_MAX_BYTES, CONTENT_EXCESS_MAX_BYTES, CONTENT_PIECE_MAX_BYTES, CONTENT_SLOW_BYTES_PER_MS,
    CONTENT_STALL_MS, CONTENT_TEXT_MAX_BYTES, CONTENT_WAIT_MAX_MS, UPLOAD_MAX_BYTES,
};
use crate::task::{RequestTask, Waits};
use crate::vm::ScriptFault;
use pinion_http::multipart_form::{self, FormReader};
use std::rc::Rc;

/// The received content of a request, and the demand of its handler.
#[derive(Debug, Default)]
pub(crate) struct ReceivedContent {
    /// Bytes that have arrived and were not read.
    kept: ByteQueue,
    /// Bytes that were requested of the engine and have not arrived.
    wanted: u64,
    /// Whether the engine was asked for content.
    has_begun: bool,
    /// Whether the content has ended.
    is_over: bool,
    /// The most bytes of the content, if that is not the default.
    limit: Option<BodyLimit>,
    /// Whether more bytes than the limit have arrived.
    is_over_limit: bool,
    demand: Demand,
    /// The form that the content is.
    upload: Option<Box<MultipartForm>>,
    refusal: Option<ContentRefusal>,
    /// The bytes that have arrived in all, and the time of the first, in monotonic milliseconds.
    received: u64,
    begun_ms: u64,
    /// The time since when its handler waits for more, in monotonic milliseconds.
    waits_since_ms: u64,
    /// The time by which the deadline was extended, because the client was slow.
    waited_ms: u64,
    /// Its share in the content that the worker keeps. The field comes last, so that it is dropped
    /// after the content.
    share: BodyMemoryShare,
}

/// The most bytes that a request body may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLimit {
    pub(crate) bytes: u64,
    pub(crate) set_by: LimitSetter,
}

/// The setter of the limit of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitSetter {
    /// No setter: it is the default of any body.
    Default,
    /// `req:form`: it is the default of a form with files.
    Form,
    /// The option `body` of the route.
    Route,
    /// A call of `req:limit`.
    Script,
}

impl BodyLimit {
    const DEFAULT: Self = Self { bytes: BODY_MAX_BYTES, set_by: LimitSetter::Default };
    const FORM: Self = Self { bytes: UPLOAD_MAX_BYTES, set_by: LimitSetter::Form };
}

/// The content that a handler waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// A piece of up to so many bytes.
    Piece(usize),
    /// All content, as one string.
    #[default]
    Whole,
    /// All content, as a form.
    Form,
}

/// The reason why content cannot be used, which is the fault of its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentRefusal {
    /// The status of the response; 500 where it is the fault of the server.
    pub(crate) status: u16,
    pub(crate) why: String,
}

impl From<multipart_form::FormFault> for ContentRefusal {
    fn from(fault: multipart_form::FormFault) -> Self {
        Self { status: fault.status(), why: fault.as_str().to_owned() }
    }
}

/// The result of a function that reads content.
pub(crate) enum ContentRead<T> {
    /// The content.
    Ready(T),
    /// The handler has to wait for more.
    Pending,
    /// The content is not available, for this reason.
    Unavailable(String),
}

/// Returns the error, for the script and the log, of a request that has lost its content.
fn no_room(max_bytes: usize) -> String {
    format!(
        "the bodies of all requests of this worker fill {} MiB, and there is no room for this one, \
         which no flag raises; read it sooner or in pieces with req:pieces",
        max_bytes >> 20
    )
}

const IS_FORM: &str = "the body was read with req:form; it cannot be read in another way";

/// Returns the reason why a body within its limit is not read as one string.
#[cold]
fn too_long_for_a_string() -> String {
    format!(
        "the body is larger than {CONTENT_TEXT_MAX_BYTES} bytes, the most that req:body returns, \
         which no flag raises: read it with req:pieces"
    )
}

impl ReceivedContent {
    /// Creates content that has arrived in full.
    #[cfg(test)]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut kept = ByteQueue::default();
        kept.add(bytes);
        Self { kept, is_over: true, ..Self::default() }
    }

    /// Adds all content, for which its handler waits.
    #[cfg(test)]
    pub(crate) fn arrive(&mut self, bytes: &[u8]) {
        bytes.chunks(CONTENT_PIECE_MAX_BYTES).for_each(|piece| self.add(piece));
        self.end();
    }

    /// Sets the limit of the content.
    pub(crate) fn set_limit(
        &mut self,
        bytes: u64,
        set_by: LimitSetter,
    ) -> Result<(), &'static str> {
        if self.has_begun {
            return Err("the body is being read already; call req:limit before anything reads it");
        }
        self.limit = Some(BodyLimit { bytes, set_by });
        Ok(())
    }

    /// Returns the most bytes that the content may have.
    pub(crate) fn limit(&self) -> BodyLimit {
        self.limit.unwrap_or(BodyLimit::DEFAULT)
    }

    /// Returns the limit that the content exceeds, if it does.
    pub(crate) fn exceeded(&self) -> Option<BodyLimit> {
        self.is_over_limit.then(|| self.limit())
    }

    /// Returns the next bytes, at most so many; none at the end.
    pub(crate) fn piece<T>(
        &mut self,
        most: usize,
        make: impl FnOnce(&[u8]) -> T,
    ) -> ContentRead<Option<T>> {
        if self.upload.is_some() {
            return ContentRead::Unavailable(IS_FORM.to_owned());
        }
        let piece = self.kept.first(most);
        if !piece.is_empty() {
            let (made, bytes) = (make(piece), piece.len());
            self.kept.take(bytes);
            self.count();
            return ContentRead::Ready(Some(made));
        }
        if let Some(refusal) = &self.refusal {
            return ContentRead::Unavailable(refusal.why.clone());
        }
        if self.is_over {
            return ContentRead::Ready(None);
        }
        self.demand = Demand::Piece(most);
        ContentRead::Pending
    }

    /// Returns all content that is left.
    pub(crate) fn whole<T>(&mut self, make: impl FnOnce(&[u8]) -> T) -> ContentRead<T> {
        if self.upload.is_some() {
            return ContentRead::Unavailable(IS_FORM.to_owned());
        }
        if let Some(refusal) = &self.refusal {
            return ContentRead::Unavailable(refusal.why.clone());
        }
        if self.is_over {
            let made = make(&std::mem::take(&mut self.kept).joined());
            self.count();
            return ContentRead::Ready(made);
        }
        self.demand = Demand::Whole;
        ContentRead::Pending
    }

    /// Returns all content as a form, if its type is a form with parts.
    pub(crate) fn form(
        &mut self,
        content_type: Option<&[u8]>,
    ) -> ContentRead<Option<&MultipartForm>> {
        if self.upload.is_none() && self.refusal.is_none() {
            let boundary = match content_type.and_then(multipart_form::boundary) {
                None => return ContentRead::Ready(None),
                Some(_) if self.has_begun => {
                    let why = "the body was read in another way already; call req:form first";
                    return ContentRead::Unavailable(why.to_owned());
                }
                Some(boundary) => boundary,
            };
            match boundary {
                Ok(boundary) => {
                    self.upload = Some(Box::new(MultipartForm::new(FormReader::new(&boundary))));
                }
                Err(fault) => self.refusal = Some(fault.into()),
            }
            self.limit = self.limit.or(Some(BodyLimit::FORM));
            self.demand = Demand::Form;
            if self.is_over {
                self.end_form();
            }
        }
        if let Some(refusal) = &self.refusal {
            return ContentRead::Unavailable(refusal.why.clone());
        }
        match &self.upload {
            Some(upload) if upload.is_complete() => ContentRead::Ready(Some(upload)),
            _ => ContentRead::Pending,
        }
    }

    /// Returns the form of the content.
    pub(crate) fn upload(&self) -> Option<&MultipartForm> {
        self.upload.as_deref()
    }

    /// Records that the request has no content.
    pub(crate) fn is_none(&mut self) {
        self.is_over = true;
    }

    /// Returns whether a handler that waits can go on.
    fn is_ready(&self) -> bool {
        let has_piece = matches!(self.demand, Demand::Piece(_)) && self.kept.bytes() > 0;
        self.is_over || self.refusal.is_some() || self.is_over_limit || has_piece
    }

    /// Sets the limit of the engine, before the first byte is wanted. Content whose length is
    /// announced is compared with it at once, other content is counted as it arrives
    /// ([`Self::add`]), because a response of the engine would name neither the limit nor the
    /// route. The engine refuses a single chunk that is much larger than the limit.
    fn open(&mut self, exchange: &mut Exchange<'_>) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let limit = self.limit().bytes;
        exchange.body_limit(limit);
        self.is_over_limit = !exchange.content_fits();
        if !self.is_over_limit {
            exchange.body_limit(limit.saturating_add(CONTENT_EXCESS_MAX_BYTES));
        }
    }

    /// Requests more content of the engine, as soon as half of the last request has arrived, so
    /// that the client need not pause.
    fn ask(&mut self, exchange: &mut Exchange<'_>) {
        let most = match self.demand {
            Demand::Piece(bytes) => bytes.clamp(1, CONTENT_PIECE_MAX_BYTES),
            Demand::Whole | Demand::Form => CONTENT_PIECE_MAX_BYTES,
        } as u64;
        if self.wanted <= most / 2 {
            exchange.want(most - self.wanted);
            self.wanted = most;
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.wanted = self.wanted.saturating_sub(bytes.len() as u64);
        self.received += bytes.len() as u64;
        if self.received > self.limit().bytes {
            self.is_over_limit = true;
            (self.kept, self.upload) = (ByteQueue::default(), None);
            return self.count();
        }
        if self.refusal.is_some() {
            return;
        }
        if let Some(upload) = &mut self.upload {
            self.refusal = upload.push(bytes).err();
            if self.refusal.is_some() {
                // Stored bytes return to their quota at once, whatever the handler does next.
                self.upload = None;
            }
            return self.count();
        }
        if (self.kept.bytes() + bytes.len()) as u64 > CONTENT_TEXT_MAX_BYTES {
            self.refusal = Some(ContentRefusal { status: 413, why: too_long_for_a_string() });
            self.kept = ByteQueue::default();
            return self.count();
        }
        self.kept.add(bytes);
        self.count();
    }

    /// Counts the bytes that are kept.
    fn count(&mut self) {
        let upload_bytes = self.upload.as_ref().map_or(0, |upload| upload.held_bytes());
        self.share.set(self.kept.held_bytes() + upload_bytes);
    }

    /// Returns the memory that the content takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.share.bytes()
    }

    /// Returns whether more content can arrive.
    pub(crate) fn is_coming(&self) -> bool {
        !self.is_over && self.refusal.is_none() && !self.is_over_limit
    }

    /// Returns whether the content cannot be used.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns whether the content takes some of the quota of all uploads.
    pub(crate) fn is_stored(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_stored())
    }

    /// Returns the time of the first wait for content, in monotonic milliseconds.
    pub(crate) fn begun_ms(&self) -> u64 {
        self.begun_ms
    }

    /// Returns whether the client is too slow with the content.
    pub(crate) fn is_stalled(&self, now_ms: u64) -> bool {
        let usual_ms = CONTENT_STALL_MS + self.received / CONTENT_SLOW_BYTES_PER_MS;
        now_ms.saturating_sub(self.waits_since_ms) >= CONTENT_STALL_MS
            || now_ms.saturating_sub(self.begun_ms) >= usual_ms
    }

    /// Drops the content that is kept, so that there is room for others.
    pub(crate) fn give_up(&mut self) {
        self.refusal = Some(ContentRefusal { status: 503, why: no_room(self.share.max_bytes()) });
        (self.kept, self.upload) = (ByteQueue::default(), None);
        self.count();
    }

    fn end(&mut self) {
        self.is_over = true;
        self.end_form();
    }

    fn end_form(&mut self) {
        if let (Some(upload), None) = (&mut self.upload, &self.refusal) {
            self.refusal = upload.finish().err();
        }
        self.count();
    }
}

/// Begins a wait for content; returns none when the content is there. The kept content counts in
/// the quota of the worker.
pub(crate) fn begin(
    task: &mut RequestTask,
    exchange: &mut Exchange<'_>,
    memory: &Rc<BodyMemory>,
) -> Option<Waits> {
    let content = &mut task.content;
    if content.is_ready() {
        return None;
    }
    content.share.belong_to(memory);
    if let Some(upload) = &mut content.upload {
        upload.belong_to(memory.uploads());
    }
    let now_ms = exchange.now().monotonic_ms;
    if !content.has_begun {
        content.begun_ms = now_ms;
    }
    content.waits_since_ms = now_ms;
    content.open(exchange);
    if !content.is_over_limit {
        content.ask(exchange);
    }
    Some(Waits::Content)
}

/// Adds content that has arrived, or ends it. The time of the request stands still while content
/// arrives, because it is its client that is slow.
pub(crate) fn came(task: &mut RequestTask, event: &Event<'_>, now_ms: u64) {
    let content = &mut task.content;
    match event {
        Event::Body(bytes) => content.add(bytes),
        _ => content.end(),
    }
    if task.state.waits != Waits::Content {
        return;
    }
    let waited_ms = now_ms.saturating_sub(content.waits_since_ms);
    let granted_ms = waited_ms.min(CONTENT_WAIT_MAX_MS.saturating_sub(content.waited_ms));
    content.waits_since_ms = now_ms;
    content.waited_ms += granted_ms;
    task.state.deadline_ms += granted_ms;
}

/// Returns whether a handler that waits for content can go on, and requests more if not.
pub(crate) fn goes_on(task: &mut RequestTask, exchange: &mut Exchange<'_>) -> bool {
    if task.state.waits != Waits::Content {
        return false;
    }
    let is_ready = task.content.is_ready();
    if !is_ready {
        task.content.ask(exchange);
    }
    is_ready
}

/// Returns the status of an error that is the client's: its content was refused, and the handler
/// has not caught the error.
pub(crate) fn refused(task: &RequestTask, fault: &ScriptFault) -> Option<u16> {
    let (ScriptFault::Error(text), Some(refusal)) = (fault, &task.content.refusal) else {
        return None;
    };
    let first = text.lines().next().unwrap_or_default();
    first.ends_with(&refusal.why).then_some(refusal.status)
}
