//! Requests for files that are read as they are now ([`crate::server::live_files`]).

use super::site_requests::{SiteRequest, SiteResponders};
use super::worker_sites::SiteGeneration;
use crate::server::access::path_scope::PathReadings;
use crate::server::live_files::{
    FileContent, LiveFiles, LiveOutcome, OpenLiveFile, range_boundary,
};
use crate::server::site_generation::Generation;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::response_compression;
use pinion_http::content_coding::Coding;
use pinion_http::date::{self, UnixSeconds};
use pinion_http::field::Field;
use pinion_http::method::Method;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::decode_path;
use pinion_site::live_file::{live_response, live_slash_redirect};
use pinion_site::{Pieces, RequestBuffers, error_for, has_rule_before_files};
use std::sync::Arc;

impl SiteResponders<'_> {
    /// Responds with a live file, and otherwise from the archive of the site. Rules of the site may
    /// come before its live files ([`has_rule_before_files`]).
    pub(super) fn live_request(
        self,
        site: &SiteGeneration,
        request: SiteRequest<'_>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let (generation, mut decoded) = (&*site.generation, Vec::new());
        let is_served = !request.is_unsecured && !generation.is_damaged();
        let live = generation.live().filter(|_| is_served);
        let (Some(live), Ok(path)) = (live, decode_path(head.target.path, &mut decoded)) else {
            return self.archive_request(site, request, head, exchange);
        };
        let is_ruled = has_rule_before_files(&generation.archive(), head, self.work);
        let outcome = if is_ruled { LiveOutcome::Nothing } else { live.find(path) };
        if matches!(outcome, LiveOutcome::Nothing) {
            return self.archive_request(site, request, head, exchange);
        }
        if let (Some(rules), Some(checked)) = (generation.access(), &request.checked) {
            let met = rules.covering(&PathReadings::of_decoded(&outcome.key(path)));
            if !met.without(checked.admitted).is_empty() {
                return self.check(site, met, request, head, exchange);
            }
        }
        let now = exchange.now();
        let Self { work, request_log, .. } = self;
        let archive = generation.archive();
        let response = match outcome {
            LiveOutcome::File(file) => {
                let sent = LiveSending { generation, live, head, now: now.unix_seconds };
                return match sent.send(file, work, exchange) {
                    Ok(response) => request_log.record(request.began, head, &response, exchange),
                    Err(status) => {
                        let response = error_for(status, &archive, head, work);
                        request_log.respond(
                            &response,
                            Some(site.mapping),
                            request.began,
                            head,
                            exchange,
                        );
                    }
                };
            }
            LiveOutcome::SlashRedirect => live_slash_redirect(&archive, head, work),
            LiveOutcome::Failed(failure) => {
                generation.report().report_error(now, failure.status, head.target.raw, &failure);
                error_for(failure.status, &archive, head, work)
            }
            LiveOutcome::Withheld | LiveOutcome::Nothing => error_for(404, &archive, head, work),
        };
        request_log.respond(&response, Some(site.mapping), request.began, head, exchange);
    }
}

/// A response with a live file that is being made.
struct LiveSending<'r> {
    generation: &'r Generation,
    live: &'r LiveFiles,
    head: &'r RequestHead<'r>,
    now: UnixSeconds,
}

impl LiveSending<'_> {
    /// Sends a file, and returns the response for the log.
    ///
    /// # Errors
    /// The status of a response that is still to be given.
    fn send(
        &self,
        mut file: OpenLiveFile,
        work: &mut RequestBuffers,
        exchange: &mut Exchange<'_>,
    ) -> Result<Prepared<'static>, u16> {
        let again = |file: &OpenLiveFile| match self.live.find(&file.path) {
            LiveOutcome::File(again) => Some(again),
            _ => None,
        };
        let content = match self.head.method {
            Method::Get => FileContent::of(&mut file, (&self.live.open, again), exchange)?,
            _ => None,
        };
        let (etag, boundary) = (file.stamp.etag(), range_boundary(self.head));
        let described = file.described(self.live, &etag, &boundary, self.now);
        let (archive, mut pieces) = (self.generation.archive(), Pieces::new());
        let response = live_response(&archive, self.head, self.now, &described, work, &mut pieces);
        let coding = if described.varies { self.coding(&response) } else { Coding::Identity };
        let logged = Prepared {
            content_length: response.content_length,
            ..Prepared::empty(response.status)
        };
        match (coding, content) {
            (Coding::Identity, content) => FileContent::send(content.as_ref(), &response, exchange),
            (coding, content) => {
                send_coded(&response, coding, content.as_ref(), file.stamp.bytes, exchange);
            }
        }
        Ok(logged)
    }

    /// Returns the coding in which a response is sent. A response for one user is not coded: its
    /// length could reveal its content.
    fn coding(&self, response: &Prepared<'_>) -> Coding {
        let is_suited = matches!(response.status, 200 | 304) && self.head.user().is_none();
        if is_suited { response_compression::choose(self.head) } else { Coding::Identity }
    }
}

/// Sends a response that is compressed as it goes out.
fn send_coded(
    response: &Prepared<'_>,
    coding: Coding,
    content: Option<&FileContent>,
    bytes: u64,
    exchange: &mut Exchange<'_>,
) {
    let etag = response.etag.map(|tag| [b"\"", tag, b"\""].concat());
    let modified = response.last_modified.map(date::format);
    let own = [
        (&b"ETag"[..], etag.as_deref()),
        (b"Last-Modified", modified.as_ref().map(|text| &text[..])),
        (b"Content-Location", response.content_location),
    ];
    let own = own.iter().filter_map(|(name, value)| Some(Field { name, value: (*value)? }));
    let lines = response.shared.h1.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some(Field { name, value: value.get(1..)?.trim_ascii() })
    });
    exchange.compress(coding);
    exchange.head(response.status, lines.chain(own), response.content_length);
    if response.status == 200 {
        match content {
            Some(FileContent::Held(held)) => {
                exchange.write(Slice::Copied(held));
            }
            Some(FileContent::Open(file)) => {
                exchange.write(Slice::File { file: Arc::clone(file), offset: 0, bytes });
            }
            None => {}
        }
    }
    exchange.end(std::iter::empty());
}
