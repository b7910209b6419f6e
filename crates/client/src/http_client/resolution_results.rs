//! Results of name resolution on their way from the thread of the resolver to a worker.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use pinion_engine::Poster;

use super::connection_commands::ConnectionCommand;
use super::error::AttemptError;
use super::request::RequestProgress;
use super::{HttpClient, RequestId};
use crate::connect_target::ConnectEndpoint;
use crate::happy_eyeballs::AddressFamily;
use crate::resolver::ResolveCallback;

/// The addresses of one family of a request's host, or why there are none.
#[derive(Debug)]
pub(super) struct ResolvedName {
    /// The request, and the number of the opening that requested the name.
    pub(super) of: (RequestId, u64),
    pub(super) family: AddressFamily,
    pub(super) result: Result<Vec<IpAddr>, AttemptError>,
}

/// A message to a worker that names were resolved; [`HttpClient::pass`](super::HttpClient::pass)
/// takes them.
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

    /// Returns the callback for the addresses of an opening.
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
            // A worker whose inbox is full is awake, and checks the mailbox in its next pass.
            let _full = poster.post_to_app(worker, Box::new(NamesResolved));
        })
    }
}

impl HttpClient {
    /// Begins to resolve the name of a request's host, if it has one.
    pub(super) fn resolve(&mut self, id: RequestId) {
        let Some(pending) = self.requests.get(&id) else { return };
        let ConnectEndpoint::Name { name, .. } = pending.request.url.target().endpoint() else {
            return;
        };
        let RequestProgress::Opening(opening) = &pending.stage else { return };
        let of = (id, opening.number());
        let callback = self.mailbox.callback(of, self.poster.clone(), self.worker);
        self.resolver.resolve(name, callback);
        // Cached results are here already.
        self.take_names();
    }

    /// Passes resolved names to the openings that requested them. An opening may be over, and its
    /// request may be opening a connection to another host after a redirect.
    pub(super) fn take_names(&mut self) {
        for ResolvedName { of: (id, number), family, result } in self.mailbox.take() {
            let Some(pending) = self.requests.get_mut(&id) else { continue };
            if let RequestProgress::Opening(opening) = &mut pending.stage
                && opening.number() == number
            {
                let result = result.as_deref().map_err(Clone::clone);
                opening.resolved(family, result, self.now_ms);
                self.commands.push_back(ConnectionCommand::Open(id));
            }
        }
    }
}
