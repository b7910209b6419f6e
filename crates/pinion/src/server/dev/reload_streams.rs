//! The script that reloads a page, and the streams of server-sent events that trigger it.
//!
//! A page carries the version of the site that it shows. Its script opens a stream with that
//! version, and the worker that holds the stream sends one event as soon as it serves a later one;
//! if it does so already, at once. A page that was out of reach meanwhile, because the server was
//! restarted or the page was hidden, catches up in the same way.
//!
//! A hidden page has no stream: browsers open six connections of HTTP/1 to one host, and pages in
//! the background must not take them all.

use super::super::request_log::{DeferredRecord, RequestLog};
use super::super::site_roster::SiteId;
use super::{Developer, SCRIPT_PATH, STREAM_PATH};
use crate::access_log::LogId;
use pinion_engine::Poster;
use pinion_engine::app::Event;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_http::error_page::{self, ErrorFormat};
use pinion_http::field::Field;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::method::Method;
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::RequestHead;
use std::collections::HashMap;

/// Streams that one worker holds: more than a developer has windows, and each takes a connection,
/// or a stream of one.
const STREAMS_MAX: usize = 128;

/// The interval of comments on an idle stream, in milliseconds: half of the time after which a
/// connection over HTTP/3 counts as idle. Comments also find clients that have left without a word.
const COMMENT_MS: u64 = 30_000;

/// The beginning of a stream: a browser that loses it tries again after 300 ms, for a server that
/// is restarted.
const BEGIN: &[u8] = b"retry:300\n\n";
const COMMENT: &[u8] = b":\n\n";
const RELOAD: &[u8] = b"data:reload\n\n";

const SCRIPT: &[u8] = b"(()=>{\
const u=location.origin+'/.pinion/reload?'+document.currentScript.src.split('?')[1];let s;\
const f=()=>{s&&s.close();s=0;\
if(!document.hidden){s=new EventSource(u);s.onmessage=()=>location.reload()}};\
document.addEventListener('visibilitychange',f);f()})()\n";

/// No page of another site may load it.
const SCRIPT_FIELDS: &[u8] = b"Content-Type: text/javascript; charset=utf-8\r\n\
Cache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n";

const STREAM_FIELDS: [Field<'static>; 4] = [
    Field { name: b"Content-Type", value: b"text/event-stream" },
    Field { name: b"Cache-Control", value: b"no-store" },
    Field { name: b"X-Content-Type-Options", value: b"nosniff" },
    Field { name: b"Cross-Origin-Resource-Policy", value: b"same-origin" },
];

/// The streams of one worker.
pub(crate) struct ReloadStreams {
    poster: Poster,
    open: HashMap<Address, ReloadStream>,
}

struct ReloadStream {
    site: SiteId,
    /// That of the page.
    version: u64,
    record: Option<DeferredRecord>,
    sent_bytes: u64,
}

/// Posted to a stream whose page is out of date.
struct Outdated;

impl ReloadStreams {
    /// Returns a worker's streams, of which there are none yet.
    pub(crate) fn new(poster: Poster) -> Self {
        Self { poster, open: HashMap::new() }
    }

    /// Responds to a request for the script or for a stream of a site, which may have a log of its
    /// own. Returns false for any other request.
    pub(crate) fn responses(
        &mut self,
        site: (SiteId, Option<LogId>),
        developer: Developer,
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let path = head.target.path;
        if head.method != Method::Get {
            return false;
        }
        if path == SCRIPT_PATH.as_bytes() {
            respond_with_script(site.1, (client, head), request_log, exchange);
            return true;
        }
        if path == STREAM_PATH.as_bytes() {
            self.begin(site, developer, (client, head), request_log, exchange);
            return true;
        }
        false
    }

    fn begin(
        &mut self,
        (site, log): (SiteId, Option<LogId>),
        developer: Developer,
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) {
        let record = request_log.begin_deferred(head, client, log, exchange);
        if self.open.len() >= STREAMS_MAX {
            let response =
                error_page::response(503, ErrorFormat::Text, error_page::BUILT_IN_FIELDS);
            return request_log.respond_deferred(&response, record, false, exchange);
        }
        let version = version_of(head.target.query);
        exchange.head(200, STREAM_FIELDS.into_iter(), None);
        exchange.write(Slice::Copied(BEGIN));
        let stream = ReloadStream { site, version, record, sent_bytes: BEGIN.len() as u64 };
        if version < developer.version {
            stream.reload(request_log, exchange);
        } else if exchange.is_stopping() {
            stream.end(request_log, exchange);
        } else {
            exchange.wait(Some(COMMENT_MS));
            self.open.insert(exchange.address(), stream);
        }
    }

    /// Handles an event of an exchange. Returns false if it is none of a stream.
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        request_log: &mut RequestLog,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        if self.open.is_empty() {
            return false;
        }
        let address = exchange.address();
        let Some(stream) = self.open.get_mut(&address) else { return false };
        match event {
            Event::Deadline => {
                exchange.write(Slice::Copied(COMMENT));
                stream.sent_bytes += COMMENT.len() as u64;
                exchange.wait(Some(COMMENT_MS));
                return true;
            }
            Event::Posted(_) | Event::Stopping | Event::Gone(_) => {}
            _ => {
                exchange.wait(Some(COMMENT_MS));
                return true;
            }
        }
        let Some(stream) = self.open.remove(&address) else { return true };
        match event {
            Event::Posted(_) => stream.reload(request_log, exchange),
            Event::Stopping => stream.end(request_log, exchange),
            _ => {}
        }
        true
    }

    /// Ends the streams of pages that are out of date. `version` is that of a site now; `None` for
    /// a site that is gone.
    pub(crate) fn sites_changed(&self, version: impl Fn(SiteId) -> Option<u64>) {
        for (address, stream) in &self.open {
            if version(stream.site).is_none_or(|version| stream.version < version) {
                // A worker that has no room for a message has more to do than this; the stream
                // ends with its connection.
                let _no_room = self.poster.post(*address, Box::new(Outdated));
            }
        }
    }
}

impl ReloadStream {
    fn reload(mut self, request_log: &mut RequestLog, exchange: &mut Exchange<'_>) {
        exchange.write(Slice::Copied(RELOAD));
        self.sent_bytes += RELOAD.len() as u64;
        self.end(request_log, exchange);
    }

    fn end(self, request_log: &mut RequestLog, exchange: &mut Exchange<'_>) {
        exchange.end(std::iter::empty());
        request_log.record_stream(self.record, 200, self.sent_bytes, exchange);
    }
}

fn respond_with_script(
    log: Option<LogId>,
    (client, head): (&ClientIdentity, &RequestHead<'_>),
    request_log: &mut RequestLog,
    exchange: &mut Exchange<'_>,
) {
    let began = request_log.begin(client, exchange).map(|began| began.of_site(log));
    let response = Prepared {
        shared: SharedFields::h1(SCRIPT_FIELDS),
        content_length: Some(SCRIPT.len() as u64),
        body: PreparedBody::Bytes(SCRIPT),
        ..Prepared::empty(200)
    };
    request_log.respond(&response, None, began, head, exchange);
}

/// Returns the version that a query names; 0, which is before every other, for none.
fn version_of(query: Option<&[u8]>) -> u64 {
    let text = query.and_then(|query| std::str::from_utf8(query).ok());
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_query_in_hexadecimal() {
        let version = |text: &str| version_of(Some(text.as_bytes()));
        assert_eq!((version("abc"), version("0")), (0xabc, 0));
        assert_eq!((version(""), version("x=1"), version_of(None)), (0, 0, 0));
        assert_eq!(version("fffffffffffffffff"), 0);
    }

    #[test]
    fn the_script_names_the_stream() {
        let script = std::str::from_utf8(SCRIPT).expect("text");
        assert!(script.contains(&format!("'{STREAM_PATH}?'")), "{script}");
    }
}
