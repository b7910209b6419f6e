//! Listeners that send every client to the encrypted ones.

use super::acme::{CHALLENGES, is_token};
use pinion_http::error_page;
use pinion_http::limits::TARGET_MAX_BYTES;
use pinion_http::method::Method;
use pinion_http::prepared_response::{Location, Prepared, SharedFields};
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::{escape, is_uri_byte};
use std::sync::Arc;

/// The redirects of one worker.
pub(crate) struct Redirect {
    leads: Leads,
    /// The path of a request, decoded; its room is kept.
    path: Vec<u8>,
    /// The text of the last response; its room is kept.
    text: Vec<u8>,
}

/// Which listeners redirect, and where to.
#[derive(Clone)]
pub(crate) struct Leads {
    /// Whether each listener redirects, by its number.
    pub(crate) listeners: Arc<[bool]>,
    /// `https://example.org`, which a client has no part in.
    pub(crate) origin: Arc<str>,
}

impl Redirect {
    /// Makes the redirect for one more worker.
    pub(crate) fn new(leads: Leads) -> Self {
        Self { leads, path: Vec::with_capacity(TARGET_MAX_BYTES), text: Vec::new() }
    }

    /// Returns whether requests on this listener are led away.
    pub(crate) fn is_for(&self, listener: usize) -> bool {
        self.leads.listeners.get(listener) == Some(&true)
    }

    /// Returns the path of the challenge of an authority that is asked for, as sites know it;
    /// `None` for anything else. A redirect would do; a site that has the file responds at once.
    pub(crate) fn proof<'r>(&'r mut self, head: &'r RequestHead<'_>) -> Option<&'r [u8]> {
        if !matches!(head.method, Method::Get | Method::Head) {
            return None;
        }
        let path = head.target.decoded_path(&mut self.path).ok()?;
        let token = path.strip_prefix(CHALLENGES)?;
        is_token(token).then_some(path)
    }

    /// Returns a response with status 308, so that the method does not change (RFC 9110 §15.4.9),
    /// with path and query as they came: bytes that no URI has are escaped.
    pub(crate) fn response(&mut self, head: &RequestHead<'_>) -> Prepared<'_> {
        self.text.clear();
        self.text.extend_from_slice(self.leads.origin.as_bytes());
        // `*` and the host of a CONNECT are no paths.
        let path = if head.target.path.starts_with(b"/") { head.target.path } else { b"/" };
        escape(&mut self.text, path.iter().copied(), is_uri_byte);
        if let Some(query) = head.target.query {
            self.text.push(b'?');
            escape(&mut self.text, query.iter().copied(), is_uri_byte);
        }
        Prepared {
            shared: SharedFields::h1(error_page::BUILT_IN_FIELDS),
            location: Some(Location { path: &self.text, query: None }),
            content_length: Some(0),
            ..Prepared::empty(308)
        }
    }
}
