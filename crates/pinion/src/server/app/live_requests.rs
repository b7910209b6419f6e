//! Requests for files that are read as they are now ([`crate::server::live_files`]).

use super::{Means, Site, SiteRequest};
use crate::server::access::path_scope::PathReadings;
use crate::server::generation::Generation;
use crate::server::live_files::limits::{LIVE_COPY_MAX_BYTES, LIVE_RETRY_SECONDS};
use crate::server::live_files::{FileStamp, LiveFiles, LiveOutcome, OpenLiveFile};
use pinion_engine::encode;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_http::coding::Coding;
use pinion_http::date::{self, UnixSeconds};
use pinion_http::field::{Field, KnownField};
use pinion_http::method::Method;
use pinion_http::prepared::{Piece, Prepared, PreparedBody};
use pinion_http::request::RequestHead;
use pinion_http::target::decode_path;
use pinion_site::live::{live_response, live_slash_redirect};
use pinion_site::{Pieces, Work, error_for, has_rule_before_files};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Bytes of the text that separates several ranges.
const BOUNDARY_BYTES: usize = 32;

/// How often a small file is opened that changes while it is read: most are written in one step.
const READ_ATTEMPTS_MAX: usize = 3;

/// What the content of a response is taken from.
enum LiveContent {
    /// The whole content of a small file.
    Held(Vec<u8>),
    /// An open file.
    Open(Arc<File>),
}

impl Means<'_> {
    /// Responds with a live file, and else with what the archive of the site has. Rules of
    /// the site may come before its live files ([`has_rule_before_files`]).
    pub(super) fn live_request(
        self,
        site: &Site,
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
        let Self { work, journal, .. } = self;
        let archive = generation.archive();
        let answer = match outcome {
            LiveOutcome::File(file) => {
                let sent = LiveSending { generation, live, head, now: now.unix_seconds };
                return match sent.send(file, work, exchange) {
                    Ok(answer) => journal.answered(request.began, head, &answer, exchange),
                    Err(status) => {
                        let answer = error_for(status, &archive, head, work);
                        exchange.prepared(&answer, Some(site.mapping));
                        journal.answered(request.began, head, &answer, exchange);
                    }
                };
            }
            LiveOutcome::SlashRedirect => live_slash_redirect(&archive, head, work),
            LiveOutcome::Failed(failure) => {
                generation.report().tell(now, failure.status, head.target.raw, &failure);
                error_for(failure.status, &archive, head, work)
            }
            LiveOutcome::Withheld | LiveOutcome::Nothing => error_for(404, &archive, head, work),
        };
        exchange.prepared(&answer, Some(site.mapping));
        journal.answered(request.began, head, &answer, exchange);
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
        work: &mut Work,
        exchange: &mut Exchange<'_>,
    ) -> Result<Prepared<'static>, u16> {
        let content = self.content(&mut file, exchange)?;
        let (etag, boundary) = (file.stamp.etag(), self.boundary());
        let described = file.described(self.live, &etag, &boundary, self.now);
        let (archive, mut pieces) = (self.generation.archive(), Pieces::new());
        let answer = live_response(&archive, self.head, self.now, &described, work, &mut pieces);
        let coding = if described.varies { self.coding(&answer) } else { Coding::Identity };
        let logged =
            Prepared { content_length: answer.content_length, ..Prepared::empty(answer.status) };
        match (coding, content) {
            (Coding::Identity, None) => exchange.prepared(&answer, None),
            (Coding::Identity, Some(LiveContent::Open(file))) => {
                exchange.prepared_file(&answer, &file);
            }
            (Coding::Identity, Some(LiveContent::Held(held))) => {
                let body = held_body(answer.body, &held);
                let body = PreparedBody::Bytes(&body);
                exchange.prepared(&Prepared { body, ..answer }, None);
            }
            (coding, content) => {
                send_coded(&answer, coding, content.as_ref(), file.stamp.bytes, exchange);
            }
        }
        Ok(logged)
    }

    /// Returns what the content is taken from. A small file is opened again if it has changed while
    /// it was read.
    ///
    /// # Errors
    /// The status of the response if too many files are open, or the file is never the same.
    fn content(
        &self,
        file: &mut OpenLiveFile,
        exchange: &mut Exchange<'_>,
    ) -> Result<Option<LiveContent>, u16> {
        if self.head.method != Method::Get || file.stamp.bytes == 0 {
            return Ok(None);
        }
        for _ in 0..READ_ATTEMPTS_MAX {
            if file.stamp.bytes > LIVE_COPY_MAX_BYTES {
                if !self.live.open.admit(&file.file) {
                    let retry = format!("Retry-After: {LIVE_RETRY_SECONDS}\r\n");
                    exchange.add_fields(retry.as_bytes());
                    return Err(503);
                }
                return Ok(Some(LiveContent::Open(Arc::clone(&file.file))));
            }
            let FileStamp { bytes, .. } = file.stamp;
            let mut held = vec![0; bytes as usize];
            let is_read = file.file.read_exact_at(&mut held, 0).is_ok();
            if is_read && file.is_unchanged() {
                return Ok(Some(LiveContent::Held(held)));
            }
            let LiveOutcome::File(again) = self.live.find(&file.path) else { return Err(404) };
            let location = file.location.take();
            *file = OpenLiveFile { location, ..again };
        }
        Err(500)
    }

    /// Returns what separates several ranges, if the request asks for some. Whoever has made the
    /// content cannot have put it there.
    fn boundary(&self) -> String {
        let mut random = [0; BOUNDARY_BYTES / 2];
        let is_asked =
            self.head.value(KnownField::Range).is_some_and(|value| value.contains(&b','));
        if !is_asked || getrandom::fill(&mut random).is_err() {
            return String::new();
        }
        random.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the coding in which a response is sent. One that is for one user stays as it is: its
    /// length could tell what is in it.
    fn coding(&self, answer: &Prepared<'_>) -> Coding {
        let is_suited = matches!(answer.status, 200 | 304) && self.head.user().is_none();
        if is_suited { encode::choose(self.head) } else { Coding::Identity }
    }
}

/// Returns a body whose ranges are of this content.
fn held_body(body: PreparedBody<'_>, held: &[u8]) -> Vec<u8> {
    let pieces = match body {
        PreparedBody::None => return Vec::new(),
        PreparedBody::Bytes(bytes) => return bytes.to_vec(),
        PreparedBody::Archive(pieces) => pieces,
    };
    let bytes = pieces.iter().map(|piece| match *piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Archive(_) => &[],
        Piece::External(range) => {
            let start = range.offset as usize;
            held.get(start..start + range.bytes as usize).unwrap_or_default()
        }
    });
    bytes.collect::<Vec<_>>().concat()
}

/// Sends a response that is compressed as it goes out.
fn send_coded(
    answer: &Prepared<'_>,
    coding: Coding,
    content: Option<&LiveContent>,
    bytes: u64,
    exchange: &mut Exchange<'_>,
) {
    let etag = answer.etag.map(|tag| [b"\"", tag, b"\""].concat());
    let modified = answer.last_modified.map(date::format);
    let own = [
        (&b"ETag"[..], etag.as_deref()),
        (b"Last-Modified", modified.as_ref().map(|text| &text[..])),
        (b"Content-Location", answer.content_location),
    ];
    let own = own.iter().filter_map(|(name, value)| Some(Field { name, value: (*value)? }));
    let lines = answer.shared.h1.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some(Field { name, value: value.get(1..)?.trim_ascii() })
    });
    exchange.compress(coding);
    exchange.head(answer.status, lines.chain(own), answer.content_length);
    if answer.status == 200 {
        match content {
            Some(LiveContent::Held(held)) => {
                exchange.write(Slice::Copied(held));
            }
            Some(LiveContent::Open(file)) => {
                exchange.write(Slice::File { file: Arc::clone(file), offset: 0, bytes });
            }
            None => {}
        }
    }
    exchange.end(std::iter::empty());
}
