//! Results of name resolution on their way from the thread of the resolver to a worker.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use pinion_engine::Poster;

use super::RequestId;
use super::error::AttemptError;
use crate::happy_eyeballs::AddressFamily;
use crate::resolver::ResolveCallback;

/// The addresses of one family of a request's host, or why there are none.
#[derive(Debug)]
pub(super) struct ResolvedName {
    /// The request, and the number of the opening that has asked.
    pub(super) of: (RequestId, u64),
    pub(super) family: AddressFamily,
    pub(super) result: Result<Vec<IpAddr>, AttemptError>,
}

/// Tells a worker that names were resolved; [`HttpClient::pass`](super::HttpClient::pass) takes
/// them.
#[derive(Debug)]
pub struct NamesResolved;

/// Results that wait for a worker. There are at most two for each of its requests.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    results: Mutex<Vec<ResolvedName>>,
}

impl Mailbox {
    /// Takes all results.
    pub(super) fn take(&self) -> Vec<ResolvedName> {
        std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what is called with the addresses for an opening.
    pub(super) fn callback(
        self: &Arc<Self>,
        of: (RequestId, u64),
        poster: Poster,
        worker: u16,
    ) -> ResolveCallback {
        let mailbox = Arc::clone(self);
        Box::new(move |family, result| {
            let result = result.map(|resolved| resolved.addresses).map_err(AttemptError::from);
            let mut results = mailbox.results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push(ResolvedName { of, family, result });
            drop(results);
            // A worker whose inbox is full is awake, and looks into the mailbox in its next pass.
            let _full = poster.post_to_app(worker, Box::new(NamesResolved));
        })
    }
}
