//! Requests of a developer, and requests of a site that could not be loaded.

use super::TEXT_FIELDS;
use super::worker_sites::SiteGeneration;
use crate::server::deferred_responses::Dynamic;
use crate::server::dev::{Developer, developer_error_page};
use crate::server::request_log::{Beginning, RequestLog};
use pinion_engine::exchange::Exchange;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_site::{RequestBuffers, error_for};

/// Responds to requests of a developer alone: the script and the streams of pages that reload, and
/// for a page the reason why the site could not be loaded. Returns false for any other request.
#[cold]
pub(super) fn responds_to_developer(
    site: &SiteGeneration,
    developer: Developer,
    (client, head): (&ClientIdentity, &RequestHead<'_>),
    dynamic: &mut Dynamic,
    request_log: &mut RequestLog,
    exchange: &mut Exchange<'_>,
) -> bool {
    if dynamic.streams.responses(
        (site.id, site.generation.log()),
        developer,
        (client, head),
        request_log,
        exchange,
    ) {
        return true;
    }
    let Some(failure) = site.generation.failure().filter(|_| developer.wants_page) else {
        return false;
    };
    let began = request_log.begin(client, exchange);
    let began = began.map(|began| began.of_site(site.generation.log()));
    let page = [&*failure.page, &developer.page_end()].concat();
    let response = Prepared {
        shared: SharedFields::h1(developer_error_page::FIELDS.as_bytes()),
        content_length: Some(page.len() as u64),
        body: PreparedBody::Bytes(&page),
        ..Prepared::empty(500)
    };
    request_log.respond(&response, None, began, head, exchange);
    true
}

/// Responds to a request of a site that could not be loaded when the server started: with the
/// errors for its developer, with status 503 for others.
#[cold]
pub(super) fn respond_unloaded(
    site: &SiteGeneration,
    developer: Option<Developer>,
    began: Option<Beginning>,
    head: &RequestHead<'_>,
    work: &mut RequestBuffers,
    request_log: &mut RequestLog,
    exchange: &mut Exchange<'_>,
) {
    let archive = site.generation.archive();
    let failure = developer.and_then(|_| site.generation.failure());
    let response = match &failure {
        Some(failure) => Prepared {
            shared: SharedFields::h1(TEXT_FIELDS),
            content_length: Some(failure.text.len() as u64),
            body: PreparedBody::Bytes(failure.text.as_bytes()),
            ..Prepared::empty(500)
        },
        None => error_for(503, &archive, head, work),
    };
    request_log.respond(&response, None, began, head, exchange);
}
