//! The responses to requests whose script has failed.

use crate::server::dev::Developer;
use crate::server::dev::developer_error_page::{self, DeveloperPage, SourceError};
use crate::server::request_log::{DeferredRecord, RequestLog};
use crate::server::site_generation::Generation;
use pinion_engine::exchange::Exchange;
use pinion_http::error_page::{self, ErrorFormat};
use pinion_http::field::KnownField;
use pinion_http::media_type::MediaType;
use pinion_http::negotiate::{names_html, preferred_error_format};
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_lua::limits::RETRY_AFTER_S;
use pinion_lua::worker_scripts::ScriptFailure;
use pinion_site::{ErrorPageSource, ErrorResponse, RequestBuffers, error_page_at};

/// Returns the form in which an error is shown. A program of the developer, which names neither
/// HTML nor JSON, gets text: curl says `*/*`.
pub(super) fn failure_format(head: &RequestHead<'_>, developer: Option<Developer>) -> ErrorFormat {
    let accept = || head.values(KnownField::Accept);
    match preferred_error_format(accept()) {
        ErrorFormat::Html if developer.is_some() && !names_html(accept()) => ErrorFormat::Text,
        format => format,
    }
}

/// The inputs of the page about a failure.
#[derive(Clone, Copy)]
pub(super) struct FailurePageInputs<'r> {
    /// The path that the rules for fields are about; `None` without such rules.
    pub(super) path: Option<&'r [u8]>,
    pub(super) error_format: ErrorFormat,
    pub(super) developer: Option<Developer>,
}

/// A request whose script has failed, with its record and its exchange.
pub(super) struct FailedRequest<'r, 'e> {
    pub(super) record: Option<DeferredRecord>,
    pub(super) is_head: bool,
    pub(super) request_log: &'r mut RequestLog,
    pub(super) exchange: &'r mut Exchange<'e>,
}

/// Responds that a script has failed, and records the response. The failure itself is for the log:
/// the page has an ID to find it there, and the report itself only for a developer.
#[cold]
pub(super) fn respond_to_failure(
    failure: &ScriptFailure,
    generation: &Generation,
    asked: FailurePageInputs<'_>,
    work: &mut Option<Box<RequestBuffers>>,
    request: FailedRequest<'_, '_>,
) {
    let FailurePageInputs { path, error_format, developer } = asked;
    let archive = &generation.archive();
    let work = work.get_or_insert_default();
    let page = error_page_at(path, failure.status, error_format, archive, work);
    let Some(developer) = developer else {
        let body = with_id(&page, error_format, &failure.id);
        let body = PreparedBody::Bytes(&body);
        return request.respond(failure, &Prepared { body, ..page.prepared });
    };
    if error_format == ErrorFormat::Html {
        let shown = shown_to_developer(failure, generation, developer);
        let shared = SharedFields::h1(developer_error_page::FIELDS.as_bytes());
        let body = PreparedBody::Bytes(&shown);
        return request.respond(failure, &Prepared { shared, body, ..page.prepared });
    }
    // A page of the site has no room for the report.
    let page = match page.source {
        ErrorPageSource::BuiltIn => page.prepared,
        ErrorPageSource::Site { .. } => {
            error_page::response(failure.status, error_format, error_page::BUILT_IN_FIELDS)
        }
    };
    let report = Some(&*failure.report);
    let body = with_report(&page, error_format, &failure.id, report);
    request.respond(failure, &Prepared { body: PreparedBody::Bytes(&body), ..page });
}

/// Returns the content of the page about a failure with its ID. A page of the site gets the ID only
/// if it is HTML or text. Every response has the ID in the field `Error-Id`.
fn with_id(page: &ErrorResponse<'_>, error_format: ErrorFormat, id: &str) -> Vec<u8> {
    let media_type = match page.source {
        ErrorPageSource::BuiltIn => return with_report(&page.prepared, error_format, id, None),
        ErrorPageSource::Site { media_type } => MediaType::parse(media_type),
    };
    let own = content(&page.prepared);
    match media_type {
        Some(media_type) if media_type.is("text", "html") => with_html(own, id),
        Some(media_type) if media_type.is("text", "plain") => with_text(own, id, None),
        _ => own.to_vec(),
    }
}

/// Returns the content of a built-in page in this format with the ID of the failure and, for a
/// developer, with its report.
fn with_report(
    page: &Prepared<'_>,
    error_format: ErrorFormat,
    id: &str,
    report: Option<&str>,
) -> Vec<u8> {
    match error_format {
        ErrorFormat::Html => with_html(content(page), id),
        ErrorFormat::Text => with_text(content(page), id, report),
        ErrorFormat::ProblemDetails => with_members(content(page), id, report),
    }
}

/// Returns the content of a page that is in memory, as all error pages are.
fn content<'p>(page: &Prepared<'p>) -> &'p [u8] {
    match page.body {
        PreparedBody::Bytes(body) => body,
        PreparedBody::None | PreparedBody::Archive(_) => b"",
    }
}

impl FailedRequest<'_, '_> {
    /// Responds with the page about a failure, and records that.
    fn respond(self, failure: &ScriptFailure, page: &Prepared<'_>) {
        let mut lines = [page.shared.h1, b"Error-Id: ", failure.id.as_bytes(), b"\r\n"].concat();
        if failure.can_retry {
            lines.extend_from_slice(format!("Retry-After: {RETRY_AFTER_S}\r\n").as_bytes());
        }
        let content_length = Some(content(page).len() as u64);
        let shared = SharedFields::h1(&lines);
        let has_type = lines.starts_with(b"Content-Type:");
        let content_type = page.content_type.filter(|_| !has_type);
        let response = Prepared { shared, content_type, content_length, ..*page };
        let Self { record, is_head, request_log, exchange } = self;
        request_log.respond_deferred(&response, record, is_head, exchange);
    }
}

/// Returns the page of a developer: the error, the lines of the source, and the stack.
fn shown_to_developer(
    failure: &ScriptFailure,
    generation: &Generation,
    developer: Developer,
) -> Vec<u8> {
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

/// Returns a page of text with the id of the failure at its end, and the report.
fn with_text(page: &[u8], id: &str, report: Option<&str>) -> Vec<u8> {
    let mut text = [page, format!("Error {id}\n").as_bytes()].concat();
    if let Some(report) = report {
        text.extend_from_slice(format!("\n{report}\n").as_bytes());
    }
    text
}

/// Returns problem details with the id of the failure and, for a developer, the report, as members
/// of their own (RFC 9457 §3.2).
fn with_members(problem: &[u8], id: &str, report: Option<&str>) -> Vec<u8> {
    let mut json = problem.strip_suffix(b"}\n").unwrap_or(problem).to_vec();
    let mut member = |name: &str, value: &str| {
        let value = serde_json::Value::from(value);
        json.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
    };
    member("error_id", id);
    if let Some(report) = report {
        member("report", report);
    }
    json.extend_from_slice(b"}\n");
    json
}

/// Returns a page of HTML with the same id.
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
        let problem = error_page::page(500, ErrorFormat::ProblemDetails).body;
        let json = text(with_members(problem, "abc", Some("\"a\"\n")));
        assert!(json.ends_with(",\"error_id\":\"abc\",\"report\":\"\\\"a\\\"\\n\"}\n"), "{json}");
        assert_eq!(text(with_text(b"500\n", "abc", Some("<b>"))), "500\nError abc\n\n<b>\n");
    }

    /// The form depends on the media type of the sent content, not on the one that the client
    /// prefers.
    #[test]
    fn a_page_of_the_site_gets_the_id_if_it_is_html_or_text() {
        let with_id = |media_type: &'static str, format| {
            let body = PreparedBody::Bytes(b"own");
            let source = ErrorPageSource::Site { media_type: media_type.as_bytes() };
            let page =
                ErrorResponse { prepared: Prepared { body, ..Prepared::empty(500) }, source };
            String::from_utf8(with_id(&page, format, "abc")).expect("text")
        };
        for format in [ErrorFormat::Html, ErrorFormat::Text, ErrorFormat::ProblemDetails] {
            assert_eq!(with_id("text/html", format), "own<p><small>Error abc</small></p>\n");
            assert_eq!(with_id("text/plain; charset=utf-8", format), "ownError abc\n");
            for other in ["application/json", "application/xml", "image/svg+xml", ""] {
                assert_eq!(with_id(other, format), "own", "{other}");
            }
        }
    }
}
