//! Requests of scripts to other servers: the settings of the operator, and the client of a worker
//! that sends them.
//!
//! A script calls `pinion.fetch` (`fetch.lua`), which begins a request of the worker's
//! [`HttpClient`] and waits to be woken. [`Scripts::flush`](crate::worker_scripts::Scripts::flush)
//! does the work on connections, and wakes the tasks whose requests have news.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use pinion_client::address_policy::AddressPolicy;
use pinion_client::client_tls::ServerTrust;
use pinion_client::connection_pool::PoolSettings;
use pinion_client::http_client::{HttpClient, HttpClientSettings};
use pinion_client::lazy_client_tls::LazyClientTls;
use pinion_client::limits::CONNECTIONS_PER_KEY_MAX;
use pinion_client::request_url::RequestUrl;
use pinion_client::resolver::Resolver;
use pinion_engine::Poster;

use crate::script_memory_limits::ScriptMemory;

/// Which servers the scripts of a site may connect to, and which of them they trust. Copies share
/// the sessions of TLS.
#[derive(Clone, Debug)]
pub struct FetchSettings {
    policy: Arc<AddressPolicy>,
    tls: Arc<LazyClientTls>,
}

impl FetchSettings {
    /// Creates the settings.
    #[must_use]
    pub fn new(policy: AddressPolicy, trust: ServerTrust) -> Self {
        let tls = LazyClientTls::new(trust, &[b"http/1.1"]);
        Self { policy: Arc::new(policy), tls: Arc::new(tls) }
    }

    pub(crate) fn policy(&self) -> &Arc<AddressPolicy> {
        &self.policy
    }

    pub(crate) fn tls(&self) -> &Arc<LazyClientTls> {
        &self.tls
    }
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self::new(AddressPolicy::default(), ServerTrust::SystemRoots)
    }
}

impl PartialEq for FetchSettings {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy && self.tls.trust() == other.tls.trust()
    }
}

impl Eq for FetchSettings {}

/// The client of a worker, which all VMs of the worker share. It is made when a script sends its
/// first request.
pub(crate) struct WorkerClient {
    resolver: Resolver,
    poster: Poster,
    worker: u16,
    memory: ScriptMemory,
    client: OnceCell<RefCell<HttpClient>>,
    is_stopping: Cell<bool>,
    /// The URL that was requested last, as it was written: most scripts have few.
    last_url: RefCell<Option<(Box<[u8]>, RequestUrl)>>,
    /// Bytes of the bodies of all requests that have not ended.
    pub(crate) body_bytes: Cell<usize>,
}

impl WorkerClient {
    pub(crate) fn new(
        resolver: Resolver,
        poster: Poster,
        worker: u16,
        memory: ScriptMemory,
    ) -> Self {
        let (is_stopping, body_bytes) = (Cell::new(false), Cell::new(0));
        let (client, last_url) = (OnceCell::new(), RefCell::default());
        Self { resolver, poster, worker, memory, client, is_stopping, last_url, body_bytes }
    }

    /// Returns the most bytes that the bodies of all requests may have.
    pub(crate) fn body_max_bytes(&self) -> usize {
        self.memory.fetch_bodies_bytes
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// Returns the reason why the text is no URL.
    pub(crate) fn url(&self, text: &[u8]) -> Result<RequestUrl, String> {
        if let Some((last, url)) = &*self.last_url.borrow()
            && **last == *text
        {
            return Ok(url.clone());
        }
        let url = std::str::from_utf8(text);
        let url = url.map_err(|_| "the URL is not UTF-8; percent-encode it".to_owned())?;
        let url = RequestUrl::parse(url).map_err(|error| error.to_string())?;
        self.last_url.replace(Some((text.into(), url.clone())));
        Ok(url)
    }

    /// Returns the client, if a script has sent a request.
    #[inline]
    pub(crate) fn used(&self) -> Option<&RefCell<HttpClient>> {
        self.client.get()
    }

    /// Returns the client.
    pub(crate) fn get(&self) -> &RefCell<HttpClient> {
        self.client.get_or_init(|| {
            let workers = usize::from(self.poster.workers()).max(1);
            let pool = PoolSettings {
                // The bound is for all workers together.
                connections_per_key_max: CONNECTIONS_PER_KEY_MAX.div_ceil(workers),
                ..PoolSettings::default()
            };
            let settings = HttpClientSettings {
                pool,
                brotli_decoders_max: self.memory.brotli_decoders,
                request_memory_bytes: self.memory.fetch_bytes,
                ..HttpClientSettings::default()
            };
            let poster = self.poster.clone();
            let mut client = HttpClient::new(self.resolver.clone(), settings, poster, self.worker);
            if self.is_stopping.get() {
                client.stop();
            }
            RefCell::new(client)
        })
    }

    /// Records that the server stops.
    pub(crate) fn stop(&self) {
        self.is_stopping.set(true);
        if let Some(client) = self.used() {
            client.borrow_mut().stop();
        }
    }
}

/// One request of a script.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// Its URL, for messages.
    pub(crate) url: RequestUrl,
    /// Bytes of its body that are counted.
    pub(crate) body_bytes: usize,
}
