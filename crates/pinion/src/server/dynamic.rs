//! Requests that are answered over time: by the scripts of sites, between the steps of a request
//! and the runtime, and by the streams that reload pages of a developer.

use super::app::TEXT_FIELDS;
use super::dev::Developer;
use super::dev::developer_page::{self, DeveloperPage, SourceError};
use super::dev::reload_streams::ReloadStreams;
use super::generation::Generation;
use super::journal::{Journal, Later};
use pinion_archive::Archive;
use pinion_engine::address::AddressMap;
use pinion_engine::app::{Event, Message, RawEvent};
use pinion_engine::clock::Now;
use pinion_engine::connections::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::raw::RawStream;
use pinion_http::client_identity::ClientIdentity;
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate::{names_html, prefers_text};
use pinion_http::page;
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use pinion_http::request::RequestHead;
use pinion_lua::limits::RETRY_AFTER_S;
use pinion_lua::problem::Problem;
use pinion_lua::router::Match;
use pinion_lua::scripts::{Failure, Offer, Outcome, Outlet, Script, Scripts};
use pinion_site::{
    Work, error_for, error_page, error_page_at, field_rules_path, options_for, script_fields,
};
use std::sync::Arc;

/// The script of a site, as one worker runs it.
#[derive(Clone)]
pub(crate) struct Scripted {
    /// None where it could not be started here.
    script: Option<Script>,
    /// Lines of the fields that its responses have unless it sets them, without the rules for a
    /// path.
    defaults: Arc<[u8]>,
    /// Its site, as it was when the script began: it has the pages for errors.
    generation: Arc<Generation>,
}

/// What one worker does for all scripts.
pub(crate) struct Dynamic {
    scripts: Scripts,
    /// Those of pages that reload.
    pub(crate) streams: ReloadStreams,
    /// Requests that wait for something.
    waiting: AddressMap<Waiting>,
    /// Buffers for responses in place of a script's, once there was one.
    work: Option<Box<Work>>,
}

/// A request that goes on later.
struct Waiting {
    scripted: Scripted,
    fields: RequestFields,
    /// What is to be written down then.
    later: Option<Later>,
    is_head: bool,
    prefers_text: bool,
    developer: Option<Developer>,
}

/// What the rules for fields of a site say about a request.
struct RequestFields {
    /// The path that they are about; `None` without such rules.
    path: Option<Box<[u8]>>,
    /// Lines of the fields that the response has unless the script sets them.
    defaults: Arc<[u8]>,
}

impl Scripted {
    fn of(script: Option<Script>, generation: &Arc<Generation>) -> Self {
        let defaults = Arc::clone(generation.generated_fields());
        Self { script, defaults, generation: Arc::clone(generation) }
    }

    /// Of a script that could not be started, where there is none before it.
    pub(crate) fn broken(generation: &Arc<Generation>) -> Self {
        Self::of(None, generation)
    }

    /// Whether it could not be started.
    pub(crate) fn is_broken(&self) -> bool {
        self.script.is_none()
    }
}

impl Dynamic {
    /// Without any script yet.
    pub(crate) fn new(scripts: Scripts, streams: ReloadStreams) -> Self {
        Self { scripts, streams, waiting: AddressMap::default(), work: None }
    }

    /// Starts the script of a generation, if it has one.
    ///
    /// # Errors
    /// It does not start here. It has been proven, so that has to do with what this worker keeps,
    /// or with this machine.
    pub(crate) fn take_up(
        &mut self,
        generation: &Arc<Generation>,
        now: Now,
    ) -> Result<Option<Scripted>, Problem> {
        let Some(program) = generation.program() else { return Ok(None) };
        let script = self.scripts.start(program, generation.site(), now)?;
        Ok(Some(Scripted::of(Some(script), generation)))
    }

    /// The generation of a script is served no more.
    pub(crate) fn put_away(&mut self, scripted: &Scripted) {
        if let Some(script) = &scripted.script {
            self.scripts.retire(script);
        }
    }

    /// Does what is due beside requests.
    #[inline]
    pub(crate) fn pass(&mut self, connections: &mut Connections<'_>) {
        self.scripts.pass(connections);
    }

    /// Something has happened on a connection that was opened for a script.
    pub(crate) fn raw(&mut self, event: &RawEvent<'_>, stream: &mut RawStream<'_>) {
        self.scripts.raw(event, stream);
        self.scripts.flush(&mut stream.connections());
    }

    /// Does on connections what scripts have asked for.
    #[inline]
    pub(crate) fn flush(&mut self, connections: &mut Connections<'_>) {
        self.scripts.flush(connections);
    }

    /// When something is.
    #[inline]
    pub(crate) fn alarm_ms(&self) -> Option<u64> {
        self.scripts.alarm_ms()
    }

    /// The server has begun to stop: what is repeated begins no more.
    pub(crate) fn stop(&mut self) {
        self.scripts.stop();
    }

    /// Whether work beside requests has not come to its end.
    pub(crate) fn is_busy(&self) -> bool {
        self.scripts.is_busy()
    }

    /// Somebody has posted to this worker.
    pub(crate) fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        self.scripts.posted(message, connections);
    }

    /// What the script of a site has for a request.
    #[inline]
    pub(crate) fn offer(&mut self, scripted: &Scripted, head: &RequestHead<'_>) -> Offer {
        match &scripted.script {
            Some(script) => self.scripts.offer(script, head),
            None => Offer::Nothing,
        }
    }

    /// A handler begins to answer.
    pub(crate) fn begin(
        &mut self,
        scripted: &Scripted,
        found: Option<Match>,
        head: &RequestHead<'_>,
        (client, developer): (&ClientIdentity, Option<Developer>),
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(script) = &scripted.script else { return };
        if head.is_untyped_query() {
            return self.untyped_query(scripted, head, client, journal, exchange);
        }
        let later = journal.note(head, client, scripted.generation.log(), exchange);
        let page_end = developer.map(Developer::page_end).unwrap_or_default();
        let fields = self.fields_for(scripted, head);
        let mut outlet = Outlet { exchange, defaults: &fields.defaults, page_end: &page_end };
        let outcome = self.scripts.begin(script, found, head, client, &mut outlet);
        let is_head = head.method == Method::Head;
        let prefers_text = wants_text(head, developer);
        match outcome {
            Outcome::Waits => {
                let scripted = scripted.clone();
                let waiting = Waiting { scripted, fields, later, is_head, prefers_text, developer };
                self.waiting.insert(exchange.address(), waiting);
            }
            Outcome::Answered { status, body_bytes } => {
                let body_bytes = if is_head { 0 } else { body_bytes };
                journal.answered_later(later, status, body_bytes, exchange);
            }
            Outcome::Failed(failure) => {
                let asked = Asked { path: fields.path.as_deref(), prefers_text, developer };
                let body_bytes =
                    failed(&failure, &scripted.generation, asked, &mut self.work, exchange);
                journal.answered_later(later, failure.status, body_bytes, exchange);
            }
            Outcome::NotOurs | Outcome::Gone => {}
        }
    }

    /// Refuses a QUERY that does not say what its content is.
    #[cold]
    fn untyped_query(
        &mut self,
        scripted: &Scripted,
        head: &RequestHead<'_>,
        client: &ClientIdentity,
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) {
        let Scripted { generation, .. } = scripted;
        let response =
            error_for(400, &generation.archive(), head, self.work.get_or_insert_default());
        let began = journal.begin(client, exchange).map(|began| began.of_site(generation.log()));
        exchange.prepared(&response, None);
        journal.answered(began, head, &response, exchange);
    }

    /// Looks up the rules for the path of a request.
    #[inline]
    fn fields_for(&mut self, scripted: &Scripted, head: &RequestHead<'_>) -> RequestFields {
        let archive = &scripted.generation.archive();
        let path = field_rules_path(archive, head);
        let defaults = match &path {
            Some(path) => script_fields(archive, path, self.work.get_or_insert_default()).into(),
            None => Arc::clone(&scripted.defaults),
        };
        RequestFields { path, defaults }
    }

    /// Something happened to a request that waits.
    #[cold]
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) {
        if self.streams.event(event, journal, exchange) {
            return;
        }
        let address = exchange.address();
        let Some(waiting) = self.waiting.get(&address) else { return };
        let defaults = Arc::clone(&waiting.fields.defaults);
        let page_end = waiting.developer.map(Developer::page_end).unwrap_or_default();
        let mut outlet = Outlet { exchange, defaults: &defaults, page_end: &page_end };
        let outcome = self.scripts.event(event, &mut outlet);
        if matches!(outcome, Outcome::Waits) {
            return;
        }
        let Some(waiting) = self.waiting.remove(&address) else { return };
        match outcome {
            Outcome::Answered { status, body_bytes } => {
                let body_bytes = if waiting.is_head { 0 } else { body_bytes };
                journal.answered_later(waiting.later, status, body_bytes, exchange);
            }
            Outcome::Failed(failure) => {
                let Waiting { scripted, fields, prefers_text, developer, .. } = waiting;
                let asked = Asked { path: fields.path.as_deref(), prefers_text, developer };
                let body_bytes =
                    failed(&failure, &scripted.generation, asked, &mut self.work, exchange);
                journal.answered_later(waiting.later, failure.status, body_bytes, exchange);
            }
            Outcome::Gone => {
                if let Event::Refused(refusal) = event {
                    self.refused(waiting, refusal.status(), journal, exchange);
                }
            }
            Outcome::NotOurs | Outcome::Waits => {}
        }
    }

    /// Answers a request whose content was refused: its handler is over.
    #[cold]
    fn refused(
        &mut self,
        waiting: Waiting,
        status: u16,
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) {
        let Waiting { scripted, fields, later, is_head, prefers_text, .. } = waiting;
        let archive = &scripted.generation.archive();
        let path = fields.path.as_deref();
        let page = page_at(path, status, prefers_text, archive, &mut self.work);
        let body_bytes = page.content_length.filter(|_| !is_head).unwrap_or_default();
        exchange.prepared(&page, None);
        journal.answered_later(later, status, body_bytes, exchange);
    }

    /// The archive has nothing but the page for what is missing. True: the script has answered in
    /// its place, or what routes it has.
    #[cold]
    pub(crate) fn missed(
        &mut self,
        scripted: &Scripted,
        offer: Offer,
        head: &RequestHead<'_>,
        (client, developer): (&ClientIdentity, Option<Developer>),
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let allow;
        let archive = &scripted.generation.archive();
        let (work, scripts) = (&mut self.work, &scripted.script);
        let answer = match (offer, scripts) {
            (Offer::Methods(mut methods), _) => {
                // Either a handler of its own, or the server.
                if !methods.iter().any(|method| method == "OPTIONS") {
                    methods.push("OPTIONS".to_owned());
                }
                allow = methods.join(", ");
                let work = work.get_or_insert_default();
                let answer = match head.method {
                    Method::Options => options_for(archive, head, work),
                    _ => error_for(405, archive, head, work),
                };
                Prepared { allow: Some(allow.as_bytes()), ..answer }
            }
            (_, Some(script)) if script.has_not_found() => {
                self.begin(scripted, None, head, (client, developer), journal, exchange);
                return true;
            }
            (_, Some(_)) => return false,
            // A script that could not be started has no routes: nobody knows whether this is one.
            (_, None) => error_for(500, archive, head, work.get_or_insert_default()),
        };
        let log = scripted.generation.log();
        let began = journal.begin(client, exchange).map(|began| began.of_site(log));
        let mut send = |answer: &Prepared<'_>| {
            exchange.prepared(answer, None);
            journal.answered(began, head, answer, exchange);
        };
        match developer {
            Some(developer) => developer.adapt(&answer, send),
            None => send(&answer),
        }
        true
    }
}

/// Whether an error is shown as text. A program of the developer, which names no HTML, gets text:
/// curl says `*/*`.
fn wants_text(head: &RequestHead<'_>, developer: Option<Developer>) -> bool {
    let accept = || head.values(KnownField::Accept);
    prefers_text(accept()) || (developer.is_some() && !names_html(accept()))
}

/// What the page about a failure depends on.
#[derive(Clone, Copy)]
struct Asked<'r> {
    /// See [`RequestFields::path`].
    path: Option<&'r [u8]>,
    prefers_text: bool,
    developer: Option<Developer>,
}

/// Answers that a script has failed; how many bytes the page has. What went wrong is for the log:
/// the page has a name to find it there, and the report itself only for a developer.
#[cold]
fn failed(
    failure: &Failure,
    generation: &Generation,
    asked: Asked<'_>,
    work: &mut Option<Box<Work>>,
    exchange: &mut Exchange<'_>,
) -> u64 {
    let Asked { path, prefers_text, developer } = asked;
    let page = &page_at(path, failure.status, prefers_text, &generation.archive(), work);
    if let Some(developer) = developer.filter(|_| !prefers_text) {
        let shown = shown_to_developer(failure, generation, developer);
        let shared = SharedFields::h1(developer_page::FIELDS.as_bytes());
        let body = PreparedBody::Bytes(&shown);
        return send_failure(failure, &Prepared { shared, body, ..*page }, exchange);
    }
    let report = developer.map(|_| failure.report.as_str());
    let is_text = page.content_type.is_some_and(|kind| kind.starts_with(b"text/plain"));
    if let (Some(report), false) = (report, is_text) {
        // The site has a page of its own, which cannot take the report.
        let built_in = page::page(failure.status, true);
        let body = with_text(built_in.body, &failure.id, Some(report));
        let shared = SharedFields::h1(TEXT_FIELDS);
        let body = PreparedBody::Bytes(&body);
        return send_failure(failure, &Prepared { shared, body, ..*page }, exchange);
    }
    let body = match page.body {
        PreparedBody::Bytes(body) if is_text => with_text(body, &failure.id, report),
        PreparedBody::Bytes(body) => with_html(body, &failure.id),
        _ => Vec::new(),
    };
    send_failure(failure, &Prepared { body: PreparedBody::Bytes(&body), ..*page }, exchange)
}

/// The page of a status, with the rules for the path of the request; `None` without such rules.
pub(super) fn page_at<'x>(
    path: Option<&[u8]>,
    status: u16,
    prefers_text: bool,
    archive: &Archive<'x>,
    work: &'x mut Option<Box<Work>>,
) -> Prepared<'x> {
    match path {
        Some(path) => {
            error_page_at(path, status, prefers_text, archive, work.get_or_insert_default())
        }
        None => error_page(status, prefers_text, archive),
    }
}

/// Sends the page about a failure. Returns how many bytes of it go out.
fn send_failure(failure: &Failure, page: &Prepared<'_>, exchange: &mut Exchange<'_>) -> u64 {
    let mut lines = [page.shared.h1, b"Error-Id: ", failure.id.as_bytes(), b"\r\n"].concat();
    if failure.can_retry {
        lines.extend_from_slice(format!("Retry-After: {RETRY_AFTER_S}\r\n").as_bytes());
    }
    let bytes = match page.body {
        PreparedBody::Bytes(body) => body.len() as u64,
        PreparedBody::None | PreparedBody::Archive(_) => 0,
    };
    let shared = SharedFields::h1(&lines);
    let has_type = lines.starts_with(b"Content-Type:");
    let content_type = page.content_type.filter(|_| !has_type);
    let answer = Prepared { shared, content_type, content_length: Some(bytes), ..*page };
    exchange.prepared(&answer, None);
    if exchange.is_head_only() { 0 } else { bytes }
}

/// Returns the page of a developer: the error, the lines of the source, and the stack.
fn shown_to_developer(failure: &Failure, generation: &Generation, developer: Developer) -> Vec<u8> {
    let report = &failure.report;
    // `GET /path: message`
    let (request, message) = report.split_once(": ").unwrap_or(("", report));
    let error = SourceError::new(message, |name| generation.source_text(name));
    let kind = match failure.status {
        503 => "The script takes too long",
        500 => "The script has failed",
        _ => "The request was refused",
    };
    let subject = format!("{request} · Error {}", failure.id);
    let note = "This page reloads as soon as something of the site changes.";
    let page = DeveloperPage { kind, subject: &subject, errors: &[error], details: report, note };
    [page.html(), developer.page_end()].concat()
}

/// A page of text with the name of the failure at its end, and what it was.
fn with_text(page: &[u8], id: &str, report: Option<&str>) -> Vec<u8> {
    let mut text = [page, format!("Error {id}\n").as_bytes()].concat();
    if let Some(report) = report {
        text.extend_from_slice(format!("\n{report}\n").as_bytes());
    }
    text
}

/// A page of HTML with the same name.
fn with_html(page: &[u8], id: &str) -> Vec<u8> {
    const END: &[u8] = b"</body>";
    let is_end = |window: &[u8]| window == END;
    let at = page.windows(END.len()).rposition(is_end).unwrap_or(page.len());
    let line = format!("<p><small>Error {id}</small></p>\n");
    [&page[..at], line.as_bytes(), &page[at..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_name_of_the_failure() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let page = b"<html><body><h1>500</h1></body></html>";
        let at_the_end = "<p><small>Error abc</small></p>\n";
        let expected = format!("<html><body><h1>500</h1>{at_the_end}</body></html>");
        assert_eq!(text(with_html(page, "abc")), expected);
        // A page of a site that does not say where its body ends.
        assert!(text(with_html(b"<p>broken", "abc")).starts_with("<p>broken<p>"));
        assert_eq!(text(with_text(b"500\n", "abc", None)), "500\nError abc\n");
        assert_eq!(text(with_text(b"500\n", "abc", Some("<b>"))), "500\nError abc\n\n<b>\n");
    }
}
