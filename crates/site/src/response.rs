//! The response of a site to a request, and the order of all steps.

use pinion_archive::{Archive, Damage, Entry, EntryKind, Role};
use pinion_http::date::UnixSeconds;
use pinion_http::error_page::ErrorFormat;
use pinion_http::method::Method;
use pinion_http::prepared_response::{Location, Prepared, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::Form;

use crate::field_rules::{FieldSort, SentPage};
use crate::generated_responses;
use crate::lookup_trace::{LookupOutcome, LookupStep, Trace, Untraced};
use crate::redirect_location;
use crate::request_buffers::{Pieces, RequestBuffers, ResponseBuffers};
use crate::resolve::resolve;
use crate::resource_response;

/// The inputs of a lookup and of the response to it.
#[derive(Clone, Copy)]
pub(crate) struct SiteLookup<'q, 'x> {
    pub(crate) archive: Archive<'x>,
    pub(crate) head: &'q RequestHead<'x>,
    pub(crate) now: UnixSeconds,
}

/// Returns the response of a site to a request.
///
/// The lookup comes before the method: an unknown URL is 404 for every method. A resource supports
/// GET and HEAD, responds to OPTIONS, and responds 405 or 501 to the rest. Damage found on the way
/// is a 500; [`RequestBuffers::damage`] then describes it.
#[inline]
pub fn respond<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    now: UnixSeconds,
    request_buffers: &'x mut RequestBuffers,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    respond_traced(archive, head, now, request_buffers, pieces, Untraced)
}

/// Returns the response of [`respond`], and passes the steps of the lookup to `trace`: none for
/// CONNECT and for the target `*`, whose paths are not looked up.
#[inline(always)]
pub fn respond_traced<'x>(
    archive: &Archive<'x>,
    head: &RequestHead<'x>,
    now: UnixSeconds,
    request_buffers: &'x mut RequestBuffers,
    pieces: &'x mut Pieces<'x>,
    trace: impl Trace,
) -> Prepared<'x> {
    request_buffers.damage = None;
    let lookup = SiteLookup { archive: *archive, head, now };
    // RFC 9110 §9.3.6: a server without tunnels responds 501, for any target.
    if head.method == Method::Connect {
        return generated_responses::pathless_error(501, archive, head);
    }
    if head.target.form == Form::Asterisk {
        return generated_responses::server_options(archive);
    }
    let outcome = resolve(archive, head, request_buffers, trace);
    if let Ok(outcome) = outcome {
        let entry = request_buffers.scratch.entry();
        let key = entry.map(|entry| entry.path());
        let resource = entry.filter(|entry| entry.kind() == EntryKind::Resource);
        let location = resource.and_then(|entry| entry.target());
        trace.step(LookupStep::End { outcome, key, location });
    }
    let RequestBuffers { scratch, text, damage, path, target, fields, .. } = request_buffers;
    let buffers = ResponseBuffers { text, decoded: path, target, fields };
    let is_read = matches!(head.method, Method::Get | Method::Head);
    match (outcome, scratch.entry()) {
        (Ok(LookupOutcome::Resource), Some(entry)) if is_read => {
            match resource_response::select(&lookup, &entry) {
                Ok(selected) => {
                    resource_response::response(&lookup, entry, selected, buffers, pieces)
                }
                Err(found) => damaged(&lookup, found, damage, buffers),
            }
        }
        (Ok(outcome), entry) => other_response(&lookup, outcome, entry, damage, buffers, pieces),
        (Err(found), _) => damaged(&lookup, found, damage, buffers),
    }
}

/// Returns the 500 for damage that was found.
#[cold]
fn damaged<'x>(
    lookup: &SiteLookup<'_, 'x>,
    found: Damage,
    damage: &mut Option<Damage>,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    *damage = Some(found);
    generated_responses::error(lookup, 500, buffers)
}

/// Returns the response to a request that does not read a resource under its own path.
#[inline(never)]
fn other_response<'x>(
    lookup: &SiteLookup<'_, 'x>,
    outcome: LookupOutcome,
    entry: Option<Entry<'x>>,
    damage: &mut Option<Damage>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let method = lookup.head.method;
    let is_read = matches!(method, Method::Get | Method::Head);
    let entry = match (outcome, entry) {
        (LookupOutcome::Error(status), _) => {
            return generated_responses::error(lookup, status, buffers);
        }
        (LookupOutcome::Page(_), Some(entry)) => entry,
        _ if method == Method::Options => return generated_responses::options(lookup, buffers),
        (LookupOutcome::SlashRedirect, _) => return slash_redirect(lookup, buffers),
        (LookupOutcome::RuleRedirect(status), _) => {
            return rule_redirect(lookup, status, buffers);
        }
        // RFC 9110 §9.1: the status is 501 for an unknown method, 405 for a known one.
        (LookupOutcome::Resource | LookupOutcome::StandIn, Some(_)) if !is_read => {
            let status = if method == Method::Other { 501 } else { 405 };
            return generated_responses::error(lookup, status, buffers);
        }
        (_, Some(entry)) => entry,
        (_, None) => return generated_responses::error(lookup, 500, buffers),
    };
    if outcome == LookupOutcome::Redirect {
        return redirect(lookup, entry, damage, buffers, pieces);
    }
    match resource_response::select(lookup, &entry) {
        Err(found) => damaged(lookup, found, damage, buffers),
        Ok(selected) => match outcome {
            LookupOutcome::Page(status)
                if generated_responses::gives_way_to_problem_details(
                    lookup,
                    status,
                    &selected.shared,
                ) =>
            {
                let error_format = ErrorFormat::ProblemDetails;
                generated_responses::error_in_format(lookup, status, error_format, buffers).prepared
            }
            LookupOutcome::Page(status) => {
                resource_response::page(lookup, entry, selected, status, buffers, pieces)
            }
            LookupOutcome::StandIn => {
                resource_response::stand_in(lookup, entry, selected, buffers, pieces)
            }
            _ => resource_response::response(lookup, entry, selected, buffers, pieces),
        },
    }
}

/// Returns a 308 to the slash form that exists, with the query (RFC 9110 §15.4.9).
pub(crate) fn slash_redirect<'x>(
    lookup: &SiteLookup<'_, 'x>,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    let (text, shared) = buffers.of_redirect(lookup);
    let location = redirect_location::slash(text, lookup.head.target.query);
    empty_redirect(308, location, shared)
}

/// Returns a redirect to the location that a rule has left in `text`.
fn rule_redirect<'x>(
    lookup: &SiteLookup<'_, 'x>,
    status: u16,
    buffers: ResponseBuffers<'x>,
) -> Prepared<'x> {
    let (text, shared) = buffers.of_redirect(lookup);
    empty_redirect(status, Location { path: text, query: None }, shared)
}

/// Returns a redirect without an entry and without a body.
fn empty_redirect<'x>(
    status: u16,
    location: Location<'x>,
    shared: SharedFields<'x>,
) -> Prepared<'x> {
    let (location, content_length) = (Some(location), Some(0));
    Prepared { shared, location, content_length, ..Prepared::empty(status) }
}

impl<'x> ResponseBuffers<'x> {
    /// Returns the text that has the location of a redirect without an entry, and the fields that
    /// the site has for such responses.
    fn of_redirect(self, lookup: &SiteLookup<'_, 'x>) -> (&'x mut Vec<u8>, SharedFields<'x>) {
        let archive = &lookup.archive;
        let block = archive.shared_for(Role::SlashRedirect);
        let block = block.unwrap_or_else(|| generated_responses::generated_block(archive));
        let ResponseBuffers { text, decoded, fields, .. } = self;
        let (head, sent) = (lookup.head, SentPage::NONE);
        let block = fields.apply(archive, head, block, FieldSort::Kept, sent, decoded);
        (text, block.fields_without_type())
    }
}

/// Returns the response of a redirect entry: its own fields and, if it has one, its own body.
fn redirect<'x>(
    lookup: &SiteLookup<'_, 'x>,
    entry: Entry<'x>,
    damage: &mut Option<Damage>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let status = entry.status();
    let response = match entry.representation(0) {
        Some(_) => resource_response::select(lookup, &entry)
            .map(|selected| resource_response::content(status, &selected, pieces)),
        None => {
            let shared = match entry.shared() {
                Some(id) => lookup.archive.shared(id).map(|block| block.fields_without_type()),
                None => Ok(generated_responses::generated_fields(&lookup.archive)),
            };
            shared.map(|shared| {
                let content_length = Some(0);
                Prepared { shared, content_length, ..Prepared::empty(status) }
            })
        }
    };
    match response {
        Ok(response) => {
            let query = lookup.head.target.query.filter(|_| entry.keeps_query());
            let target = entry.target().unwrap_or_default();
            let location = Some(redirect_location::with_query(target, query, buffers.text));
            Prepared { location, ..response }
        }
        Err(found) => damaged(lookup, found, damage, buffers),
    }
}
