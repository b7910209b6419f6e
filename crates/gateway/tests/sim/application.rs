//! An application that is nothing but the gateway.

use std::collections::HashMap;
use std::sync::Arc;

use pinion_client::resolver::{Resolver, ResolverSettings};
use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_gateway::limits::UPSTREAM_TAG;
use pinion_gateway::proxy::{Ended, Proxy, ProxySettings, ServerNews, UploadQuotas};
use pinion_gateway::proxy_error::ProxyError;
use pinion_gateway::upstream_group::UpstreamGroup;
use pinion_http::field::Field;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::request_head::RequestHead;
use pinion_jobs::byte_quota::ByteQuota;

/// The field that responses of the gateway itself have.
pub(crate) const OWN_FIELD: &str = "Own";
/// Most bytes of uploads in memory.
const UPLOADS_MAX_BYTES: usize = 1 << 20;

/// See the head of the module.
pub(crate) struct Application {
    pub(crate) proxy: Proxy,
    /// By the first segment of the path.
    pub(crate) mounts: HashMap<&'static str, Arc<UpstreamGroup>>,
    /// Requests that are forwarded, with their targets.
    open: HashMap<Address, String>,
    /// The outcome of each request, by target.
    pub(crate) ended: HashMap<String, Ended>,
    pub(crate) news: Vec<ServerNews>,
    pub(crate) uploads: UploadQuotas,
}

impl Application {
    pub(crate) fn new(poster: Poster, mounts: HashMap<&'static str, Arc<UpstreamGroup>>) -> Self {
        let memory = Arc::new(ByteQuota::new(UPLOADS_MAX_BYTES));
        let uploads = UploadQuotas { files: Arc::default(), memory };
        // No name server gets a query: none listens there.
        let name_servers = vec![([127, 0, 0, 1], 1).into()];
        let resolver = Resolver::new(ResolverSettings { name_servers, ..Default::default() });
        let settings = ProxySettings {
            resolver,
            pseudonym: "simulated".into(),
            connections_max: 64,
            uploads: uploads.clone(),
        };
        let proxy = Proxy::new(&settings, poster, 0);
        let (open, ended, news) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { proxy, mounts, open, ended, news, uploads }
    }

    /// Returns the number of requests that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    fn begin(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let target = String::from_utf8_lossy(head.target.path).into_owned();
        let mount = target.split('/').nth(1).and_then(|name| self.mounts.get(name));
        let mount = mount.expect("a mount of this run");
        let client = ClientIdentity { peer: exchange.peer(), is_secured: false };
        match self.proxy.begin(mount, &Arc::from([]), &client, head, exchange) {
            Ok(()) => {
                let before = self.open.insert(exchange.address(), target);
                assert_eq!(before, None, "a request that has not ended");
            }
            Err(error) => {
                respond(&error, exchange);
                let before = self.ended.insert(target, Ended::Failed(error));
                assert_eq!(before, None, "a request has begun twice");
            }
        }
    }

    fn flush(&mut self, connections: &mut Connections<'_>) {
        let Self { proxy, open, ended, news, .. } = self;
        proxy.flush(connections, |end, exchange| note(end, open, ended, exchange));
        news.extend(std::iter::from_fn(|| proxy.next_server_news()));
    }
}

/// Notes how a request has ended, and responds to it if the gateway has not.
fn note(
    end: Ended,
    open: &mut HashMap<Address, String>,
    ended: &mut HashMap<String, Ended>,
    exchange: &mut Exchange<'_>,
) {
    let target = open.remove(&exchange.address()).expect("a request that has not ended");
    if let Ended::Failed(error) = &end {
        respond(error, exchange);
    }
    let before = ended.insert(target, end);
    assert_eq!(before, None, "a request has ended twice");
}

/// Responds with the status of an error.
fn respond(error: &ProxyError, exchange: &mut Exchange<'_>) {
    let value = error.to_string();
    let field = Field { name: OWN_FIELD.as_bytes(), value: value.as_bytes() };
    exchange.head(error.status(), std::iter::once(field), Some(0));
    exchange.end(std::iter::empty());
}

impl App for Application {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        if let Event::Head(head) = &event {
            self.begin(head, exchange);
        } else if self.proxy.has(exchange.address())
            && let Some(end) = self.proxy.event(&event, exchange)
        {
            note(end, &mut self.open, &mut self.ended, exchange);
        }
        self.flush(&mut exchange.connections());
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        let is_of_upstream = stream.tag().is_some_and(|tag| tag & UPSTREAM_TAG != 0);
        if is_of_upstream {
            self.proxy.byte_stream_event(&event, stream);
        } else {
            assert!(self.proxy.raw_of_client(&event, stream), "no tunnel of the gateway");
        }
        self.flush(&mut stream.connections());
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        self.proxy.pass(connections);
        self.flush(connections);
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.proxy.alarm_ms()
    }

    fn posted(&mut self, _: Message, _: &mut Connections<'_>) {}
}
