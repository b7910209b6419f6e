//! Requests for pages of the store ([`crate::server::store::StoredPages`]).

use super::SitesApp;
use super::site_requests::SiteResponders;
use super::worker_sites::SiteGeneration;
use crate::server::gateway::CLIENT_LEFT;
use crate::server::live_files::range_boundary;
use crate::server::request_log::Beginning;
use crate::server::store::{
    FoundPage, NoPage, PageForm, StoreClients, StoreMount, StoredPage, WaitEnd, WaitingPage,
    WorkerPages,
};
use pinion_engine::app::Event;
use pinion_engine::exchange::Exchange;
use pinion_http::method::Method;
use pinion_http::owned_head::OwnedRequestHead;
use pinion_http::prepared_response::Prepared;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::decode_path;
use pinion_site::live_file::{SentFile, live_fields, sent_file_response};
use pinion_site::{Pieces, RequestBuffers, error_for, options_for};
use std::fmt;

/// The seconds after which a client may try again whose request has waited too long for a command
/// that has the key.
const BUSY_RETRY_SECONDS: u32 = 1;

/// The value of a key is no page.
struct WrongValue<'k> {
    key: &'k [u8],
    why: NoPage,
}

impl fmt::Display for WrongValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key);
        write!(f, "the key {:?} {}", key.as_ref(), self.why)
    }
}

impl SiteResponders<'_> {
    /// Responds with the value of the key that a path of a mount has.
    pub(super) fn stored_page(
        mut self,
        site: &SiteGeneration,
        mount: &StoreMount,
        began: Option<Beginning>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let (archive, work) = (site.generation.archive(), &mut *self.work);
        let response = match head.method {
            Method::Get | Method::Head => {
                let (now, mut decoded) = (exchange.now(), Vec::new());
                let path = decode_path(head.target.path, &mut decoded);
                let found = match (path, &mut self.pages) {
                    (Ok(path), Some(WorkerPages { pages, .. })) => {
                        let name = (site.generation.number(), path);
                        pages.find(mount, name, now.unix_ms, |file| {
                            live_fields(&archive, head, file, work)
                        })
                    }
                    _ => FoundPage::Nothing,
                };
                if let (FoundPage::Busy { key }, Some(pages)) = (&found, &mut self.pages) {
                    let waiting = || WaitingPage {
                        head: OwnedRequestHead::new(head),
                        site: site.id,
                        mount: mount.clone(),
                        began,
                    };
                    if pages.waiting.hold(key.clone(), waiting, exchange) {
                        return;
                    }
                }
                return self.found_page(site, found, began, head, exchange);
            }
            Method::Options => options_for(&archive, head, work),
            Method::Other => error_for(501, &archive, head, work),
            _ => error_for(405, &archive, head, work),
        };
        self.request_log.respond(&response, Some(site.mapping), began, head, exchange);
    }

    /// Responds with the page that was found for the path of a request.
    fn found_page(
        self,
        site: &SiteGeneration,
        found: FoundPage,
        began: Option<Beginning>,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) {
        let Self { work, request_log, .. } = self;
        let generation = &*site.generation;
        let archive = generation.archive();
        let response = match found {
            FoundPage::Page(page) => {
                let logged = site.send_page(&page, head, work, exchange);
                return request_log.record(began, head, &logged, exchange);
            }
            FoundPage::Nothing => error_for(404, &archive, head, work),
            FoundPage::Busy { .. } => {
                let retry = format!("Retry-After: {BUSY_RETRY_SECONDS}\r\n");
                exchange.add_fields(retry.as_bytes());
                error_for(503, &archive, head, work)
            }
            FoundPage::Other { key, why } => {
                let wrong = WrongValue { key: &key, why };
                generation.report().report_error(exchange.now(), 500, head.target.raw, &wrong);
                error_for(500, &archive, head, work)
            }
        };
        request_log.respond(&response, Some(site.mapping), began, head, exchange);
    }
}

impl SitesApp {
    /// Takes an event of a request that waits for a page. Returns false for any other request.
    pub(super) fn holds_page(&mut self, event: &Event<'_>, exchange: &mut Exchange<'_>) -> bool {
        let Some(store) = &mut self.store else { return false };
        match store.pages().waiting.event(event, exchange) {
            None => false,
            Some(None) => true,
            Some(Some((page, end))) => {
                self.resume_page(&page, end, exchange);
                true
            }
        }
    }

    /// Responds to a request that waits for a page no longer.
    #[cold]
    fn resume_page(&mut self, page: &WaitingPage, end: WaitEnd, exchange: &mut Exchange<'_>) {
        let WaitingPage { head, site, mount, began } = page;
        let head = head.head();
        let Self { work, dynamic, gateway, access, request_log, store, .. } = self;
        if let WaitEnd::ClientLeft = end {
            exchange.abort();
            return request_log.record(*began, &head, &Prepared::empty(CLIENT_LEFT), exchange);
        }
        let sites = self.serving.iter().flat_map(|serving| &serving.sites);
        let Some(site) = sites.into_iter().find(|known| known.id == *site) else {
            // The site was taken out of the configuration meanwhile.
            return exchange.abort();
        };
        let pages = store.as_mut().map(StoreClients::pages);
        let archive = site.generation.archive();
        let mut decoded = Vec::new();
        let path = decode_path(head.target.path, &mut decoded);
        let found = match (end, path, &pages) {
            (WaitEnd::Found(found), Ok(path), Some(WorkerPages { pages, .. })) => {
                let name = (site.generation.number(), path);
                pages.page_of(found, mount, name, |file| live_fields(&archive, &head, file, work))
            }
            _ => FoundPage::Busy { key: Vec::new() },
        };
        let responders = SiteResponders { work, dynamic, gateway, access, request_log, pages };
        responders.found_page(site, found, *began, &head, exchange);
    }
}

impl SiteGeneration {
    /// Sends a page, or a part of it, or that it is not modified. Returns the response for the log.
    fn send_page(
        &self,
        page: &StoredPage,
        head: &RequestHead<'_>,
        work: &mut RequestBuffers,
        exchange: &mut Exchange<'_>,
    ) -> Prepared<'static> {
        let (PageForm { fields, etag, content }, boundary) =
            (page.form(head), range_boundary(head));
        let file = SentFile {
            status: 200,
            fields: &fields.full,
            type_line_bytes: fields.type_line_bytes,
            not_modified_fields: &fields.not_modified,
            bytes: content.len() as u64,
            modified: None,
            etag: Some(etag.as_bytes()),
            boundary: boundary.as_bytes(),
        };
        let (archive, mut pieces) = (self.generation.archive(), Pieces::new());
        let now = exchange.now().unix_seconds;
        let response = sent_file_response(&archive, head, now, &file, work, &mut pieces);
        exchange.prepared_shared(&response, content);
        Prepared { content_length: response.content_length, ..Prepared::empty(response.status) }
    }
}
