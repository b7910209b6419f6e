//! Requests that the scripts of sites answer: between the steps of a request and the runtime.

use super::generation::Generation;
use super::journal::{Journal, Later};
use pinion_archive::Archive;
use pinion_engine::address::Address;
use pinion_engine::app::{Event, Message};
use pinion_engine::clock::Now;
use pinion_engine::exchange::Exchange;
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate::prefers_text;
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use pinion_http::request::RequestHead;
use pinion_lua::limits::RETRY_AFTER_S;
use pinion_lua::problem::Problem;
use pinion_lua::router::Match;
use pinion_lua::scripts::{Failure, Offer, Outcome, Outlet, Script, Scripts};
use pinion_site::{Work, error_for, error_page, generated_fields, options_for};
use std::collections::HashMap;
use std::sync::Arc;

/// The script of a site, as one worker runs it.
#[derive(Clone)]
pub(crate) struct Scripted {
    /// None where it could not be started here.
    script: Option<Script>,
    /// Lines of the fields that its answers have unless it says otherwise.
    defaults: Arc<[u8]>,
    /// Its site, as it was when the script began: it has the pages for errors.
    generation: Arc<Generation>,
}

/// What one worker does for all scripts.
pub(crate) struct Dynamic {
    scripts: Scripts,
    /// Requests that wait for something.
    waiting: HashMap<Address, Waiting>,
    /// Buffers for responses in place of a script's, once there was one.
    work: Option<Box<Work>>,
}

/// A request that goes on later.
struct Waiting {
    scripted: Scripted,
    /// What is to be written down then.
    later: Option<Later>,
    is_head: bool,
    prefers_text: bool,
}

impl Scripted {
    fn of(script: Option<Script>, generation: &Arc<Generation>) -> Self {
        let defaults = defaults(&generation.archive()).into();
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
    pub(crate) fn new(scripts: Scripts) -> Self {
        Self { scripts, waiting: HashMap::new(), work: None }
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
    pub(crate) fn pass(&mut self, now: Now) {
        self.scripts.pass(now);
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
    pub(crate) fn posted(&mut self, message: Message) {
        self.scripts.posted(message);
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
        archive: &Archive<'_>,
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) {
        let Some(script) = &scripted.script else { return };
        let later = journal.note(head, exchange);
        let mut outlet = Outlet { exchange, defaults: &scripted.defaults };
        let outcome = self.scripts.begin(script, found, head, &mut outlet);
        let is_head = head.method == Method::Head;
        let prefers_text = prefers_text(head.values(KnownField::Accept));
        match outcome {
            Outcome::Waits => {
                let scripted = scripted.clone();
                let waiting = Waiting { scripted, later, is_head, prefers_text };
                self.waiting.insert(exchange.address(), waiting);
            }
            Outcome::Answered { status, body_bytes } => {
                let body_bytes = if is_head { 0 } else { body_bytes };
                journal.answered_later(later, status, body_bytes, exchange);
            }
            Outcome::Failed(failure) => {
                let page = error_page(failure.status, prefers_text, archive);
                let shows_errors = scripted.generation.shows_errors();
                let body_bytes = failed(&failure, &page, shows_errors, exchange);
                journal.answered_later(later, failure.status, body_bytes, exchange);
            }
            Outcome::NotOurs | Outcome::Gone => {}
        }
    }

    /// Something happened to a request that waits.
    #[cold]
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) {
        let address = exchange.address();
        let Some(waiting) = self.waiting.get(&address) else { return };
        let defaults = Arc::clone(&waiting.scripted.defaults);
        let outcome = self.scripts.event(event, &mut Outlet { exchange, defaults: &defaults });
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
                let archive = waiting.scripted.generation.archive();
                let page = error_page(failure.status, waiting.prefers_text, &archive);
                let shows_errors = waiting.scripted.generation.shows_errors();
                let body_bytes = failed(&failure, &page, shows_errors, exchange);
                journal.answered_later(waiting.later, failure.status, body_bytes, exchange);
            }
            Outcome::NotOurs | Outcome::Gone | Outcome::Waits => {}
        }
    }

    /// The archive has nothing but the page for what is missing. True: the script has answered in
    /// its place, or what routes it has.
    #[cold]
    pub(crate) fn missed(
        &mut self,
        scripted: &Scripted,
        offer: Offer,
        head: &RequestHead<'_>,
        archive: &Archive<'_>,
        journal: &mut Journal,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let allow;
        let (work, scripts) = (&mut self.work, &scripted.script);
        let answer = match (offer, scripts) {
            (Offer::Methods(mut methods), _) => {
                methods.push("OPTIONS".to_owned());
                allow = methods.join(", ");
                let work = work.get_or_insert_default();
                let answer = match head.method {
                    Method::Options => options_for(archive, head, work),
                    _ => error_for(405, archive, head, work),
                };
                Prepared { allow: Some(allow.as_bytes()), ..answer }
            }
            (_, Some(script)) if script.has_not_found() => {
                self.begin(scripted, None, head, archive, journal, exchange);
                return true;
            }
            (_, Some(_)) => return false,
            // A script that could not be started has no routes: nobody knows whether this is one.
            (_, None) => error_for(500, archive, head, work.get_or_insert_default()),
        };
        let began = journal.begin(exchange);
        exchange.prepared(&answer, None);
        journal.answered(began, head, &answer, exchange);
        true
    }
}

/// Answers that a script has failed; how many bytes the page has. What went wrong is for the log:
/// the page has a name to find it there, and only where that was asked for the report itself.
#[cold]
fn failed(
    failure: &Failure,
    page: &Prepared<'_>,
    shows_errors: bool,
    exchange: &mut Exchange<'_>,
) -> u64 {
    let mut lines = [page.shared.h1, b"Error-Id: ", failure.id.as_bytes(), b"\r\n"].concat();
    if failure.can_retry {
        lines.extend_from_slice(format!("Retry-After: {RETRY_AFTER_S}\r\n").as_bytes());
    }
    let is_text = page.content_type.is_some_and(|kind| kind.starts_with(b"text/plain"));
    let report = shows_errors.then_some(failure.report.as_str());
    let body = match page.body {
        PreparedBody::Bytes(body) if is_text => with_text(body, &failure.id, report),
        PreparedBody::Bytes(body) => with_html(body, &failure.id, report),
        _ => Vec::new(),
    };
    let answer = Prepared {
        shared: SharedFields::h1(&lines),
        content_length: Some(body.len() as u64),
        body: PreparedBody::Bytes(&body),
        ..*page
    };
    exchange.prepared(&answer, None);
    if exchange.is_head_only() { 0 } else { body.len() as u64 }
}

/// A page of text with the name of the failure at its end, and what it was.
fn with_text(page: &[u8], id: &str, report: Option<&str>) -> Vec<u8> {
    let mut text = [page, format!("Error {id}\n").as_bytes()].concat();
    if let Some(report) = report {
        text.extend_from_slice(format!("\n{report}\n").as_bytes());
    }
    text
}

/// A page of HTML with the same.
fn with_html(page: &[u8], id: &str, report: Option<&str>) -> Vec<u8> {
    const END: &[u8] = b"</body>";
    let is_end = |window: &[u8]| window == END;
    let at = page.windows(END.len()).rposition(is_end).unwrap_or(page.len());
    let mut lines = format!("<p><small>Error {id}</small></p>\n");
    if let Some(report) = report {
        lines.push_str("<pre style=\"white-space:pre-wrap\">");
        for c in report.chars() {
            match c {
                '<' => lines.push_str("&lt;"),
                '>' => lines.push_str("&gt;"),
                '&' => lines.push_str("&amp;"),
                c => lines.push(c),
            }
        }
        lines.push_str("</pre>\n");
    }
    [&page[..at], lines.as_bytes(), &page[at..]].concat()
}

/// The fields that every answer of a site has, but for those that say how long it may be kept:
/// that only the script knows.
fn defaults(archive: &Archive<'_>) -> Vec<u8> {
    let lines = generated_fields(archive).h1.split_inclusive(|&byte| byte == b'\n');
    let is_kept = |line: &&[u8]| !line.to_ascii_lowercase().starts_with(b"cache-control:");
    lines.filter(is_kept).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_shown_only_where_it_is_wanted_and_as_text() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let page = b"<html><body><h1>500</h1></body></html>";
        let without = text(with_html(page, "abc", None));
        let at_the_end = "<p><small>Error abc</small></p>\n";
        assert_eq!(without, format!("<html><body><h1>500</h1>{at_the_end}</body></html>"));
        let shown = text(with_html(page, "abc", Some("<script>&</script>")));
        assert!(shown.contains(">&lt;script&gt;&amp;&lt;/script&gt;</pre>"), "{shown}");
        assert!(!shown.contains("<script>"), "{shown}");
        // A page of a site that does not say where its body ends.
        let shown = text(with_html(b"<p>broken", "abc", Some("</pre><script>")));
        assert!(shown.starts_with("<p>broken<p>") && !shown.contains("<script>"), "{shown}");
        assert_eq!(text(with_text(b"500\n", "abc", None)), "500\nError abc\n");
        assert_eq!(text(with_text(b"500\n", "abc", Some("<b>"))), "500\nError abc\n\n<b>\n");
    }
}
