//! Requests that are sent to another server when one fails, and the effects of failures on the
//! health of servers.

use std::sync::Arc;

use pinion_client::http_client::error::HttpClientError;
use pinion_client::http_client::request::{ClientRequest, RequestBody};
use pinion_engine::exchange_address::Address;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::method::Method;
use pinion_http::request_head::RequestHead;

use super::Proxy;
use crate::balancing::{Balance, BalanceKey, client_key, hash};
use crate::proxy_error::ProxyError;
use crate::request_forwarding::readdress;
use crate::server_health::HealthChange;
use crate::upstream_group::{AttemptLimits, ServerUse, TriedServers, UpstreamGroup};

/// The servers that a request was sent to, and the key by which the next one is chosen.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The one that it is sent to now.
    pub(super) server: ServerUse,
    tried: TriedServers,
    /// The number of attempts.
    count: u32,
    /// A server may have seen the request.
    was_sent: bool,
    /// The time when the first one was asked, in monotonic milliseconds.
    began_ms: u64,
    key: BalanceKey,
    /// The host that the client asks for.
    pub(super) asked: Option<Box<[u8]>>,
}

/// The decision about a request that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// It is sent to another server.
    Begun,
    /// It has failed for good.
    None,
    /// It has failed for good, because it has taken too long to reach a server. None has seen it,
    /// and some were not tried.
    TooLate,
}

/// A server whose state has changed, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNews {
    /// The server.
    pub server: Box<str>,
    /// The change.
    pub change: HealthChange,
    /// Why, if that is known.
    pub reason: Option<Box<str>>,
}

impl Attempts {
    /// Chooses the first server.
    pub(super) fn first(
        group: &Arc<UpstreamGroup>,
        head: &RequestHead<'_>,
        client: &ClientIdentity,
        now_ms: u64,
        random: u64,
    ) -> Option<Self> {
        let key = if group.has_several() {
            balance_key(&group.options.balance, head, client)
        } else {
            BalanceKey::Load
        };
        let server = group.choose(key, TriedServers::default(), now_ms, random)?;
        let mut tried = TriedServers::default();
        tried.add(server.index);
        let asked = head.authority.map(Box::from);
        Some(Self { server, tried, count: 1, was_sent: false, began_ms: now_ms, key, asked })
    }

    /// Begins the attempts: the first server is asked now, and not when it was chosen.
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.began_ms = now_ms;
    }

    /// Returns the error of a request that has taken too long to find a server.
    pub(super) fn timeout(&self, last: &ProxyError) -> ProxyError {
        let seconds = self.server.group().options.attempts.timeout_ms / 1000;
        ProxyError::AttemptsTimeout { attempts: self.count, seconds, last: last.to_string().into() }
    }

    /// Returns how many milliseconds are left for another attempt. The error is the decision if
    /// there is none: the limit of attempts is reached, all servers were tried, or the time is
    /// over. The last is returned only for a request that no server can have seen.
    fn time_left_ms(&self, now_ms: u64) -> Result<u64, NextAttempt> {
        let group = self.server.group();
        let AttemptLimits { max, timeout_ms } = group.options.attempts;
        if self.count >= max || self.tried.len() >= group.len() {
            return Err(NextAttempt::None);
        }
        match (self.began_ms + timeout_ms).saturating_sub(now_ms) {
            0 if self.was_sent => Err(NextAttempt::None),
            0 => Err(NextAttempt::TooLate),
            left_ms => Ok(left_ms),
        }
    }

    /// Continues with the next server. Returns false if all were tried.
    fn advance(&mut self, now_ms: u64, random: u64) -> bool {
        let next = self.server.group().choose(self.key, self.tried, now_ms, random);
        let Some(next) = next else { return false };
        self.count += 1;
        self.tried.add(next.index);
        self.server = next;
        true
    }
}

/// Returns the key by which a server is chosen. Requests without the field, and those of clients
/// without an address, go to the server with the fewest requests.
fn balance_key(balance: &Balance, head: &RequestHead<'_>, client: &ClientIdentity) -> BalanceKey {
    match balance {
        Balance::LeastConnections => BalanceKey::Load,
        Balance::ClientHash => client.peer.map_or(BalanceKey::Load, |peer| client_key(peer.ip())),
        Balance::HeaderHash(name) => {
            let value = head.fields.get(name.as_bytes());
            value.map_or(BalanceKey::Load, |value| BalanceKey::Hash(hash(value)))
        }
    }
}

/// The meaning of a failed request for its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// There was no connection: the server has seen nothing of the request.
    Unreached,
    /// The connection has ended without a byte of a response.
    NoResponse,
    /// The server is silent, or its response has no meaning.
    Server,
    /// It says nothing about the server.
    Other,
}

fn kind(error: &HttpClientError) -> FailureKind {
    match error {
        error if error.is_overload() => FailureKind::Other,
        HttpClientError::Connect(_)
        | HttpClientError::ConnectUnix(_)
        | HttpClientError::ConnectTimeout(_) => FailureKind::Unreached,
        error if error.is_no_response() => FailureKind::NoResponse,
        HttpClientError::Response(_)
        | HttpClientError::FastCgi(_)
        | HttpClientError::Cgi(_)
        | HttpClientError::HeadTimeout(_)
        | HttpClientError::SendTimeout(_)
        | HttpClientError::ContentTimeout(_) => FailureKind::Server,
        _ => FailureKind::Other,
    }
}

impl Proxy {
    /// Records the effect of a failed request of an exchange on the health of its server.
    pub(super) fn note_failure(&mut self, address: Address, error: &ProxyError, now_ms: u64) {
        let ProxyError::Upstream { error, .. } = error else { return };
        let Some(forwarding) = self.exchanges.get(&address) else { return };
        if kind(error) == FailureKind::Other {
            return;
        }
        let server = &forwarding.attempts.server;
        if let Some(change) = server.failed(now_ms) {
            let reason = Some(error.to_string().into());
            self.news.push_back(ServerNews { server: server.to_string().into(), change, reason });
        }
    }

    /// Sends the request of an exchange to another server of its group, if there is one that it was
    /// not sent to, and that changes nothing: the failed server has not seen it, or it is safe and
    /// has no content. Of the latter, the budget for repetitions allows some. The group limits how
    /// many servers are tried, and for how long.
    pub(super) fn try_another(
        &mut self,
        address: Address,
        error: &ProxyError,
        now_ms: u64,
    ) -> NextAttempt {
        let ProxyError::Upstream { error, .. } = error else { return NextAttempt::None };
        let Self { exchanges, client, requests, random, .. } = self;
        let Some(forwarding) = exchanges.get_mut(&address) else { return NextAttempt::None };
        let has_sent = match kind(error) {
            FailureKind::Unreached => false,
            FailureKind::NoResponse => true,
            FailureKind::Server | FailureKind::Other => return NextAttempt::None,
        };
        let attempts = &mut forwarding.attempts;
        attempts.was_sent |= has_sent;
        let left_ms = match attempts.time_left_ms(now_ms) {
            Ok(left_ms) => left_ms,
            Err(none) => return none,
        };
        let Some(mut request) = client.take_failed(forwarding.id) else { return NextAttempt::None };
        requests.remove(&forwarding.id);
        if has_sent && !(is_repeatable(&request) && client.take_retry()) {
            return NextAttempt::None;
        }
        if !attempts.advance(now_ms, random.next()) {
            return NextAttempt::None;
        }
        let Some(upstream) = attempts.server.upstream() else { return NextAttempt::None };
        readdress(&mut request, upstream, attempts.asked.as_deref(), left_ms);
        if let Some(upload) = &mut forwarding.upload {
            upload.rewind();
        }
        match client.start_again(request, now_ms) {
            Ok(id) => {
                forwarding.id = id;
                requests.insert(id, address);
                NextAttempt::Begun
            }
            Err(_) => NextAttempt::None,
        }
    }
}

/// Returns whether a request that was sent asks for nothing but a response, and can be sent as a
/// whole.
fn is_repeatable(request: &ClientRequest) -> bool {
    let is_empty = matches!(&request.content, RequestBody::Whole(content) if content.is_empty());
    let method = Method::from_token(request.method.as_bytes());
    is_empty && pinion_client::retry::is_safe(method)
}

/// Random numbers that need not be secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number (SplitMix64).
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::balancing::mixed(self.0)
    }
}

/// Returns the error of a server.
pub(super) fn failure_of(server: &ServerUse, error: Arc<HttpClientError>) -> ProxyError {
    ProxyError::Upstream { upstream: server.to_string().into(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Upstream;
    use crate::upstream_group::UpstreamOptions;

    /// The time for all attempts.
    const TIMEOUT_MS: u64 = 1_000;

    /// A request that was sent to the first of some servers at 0 ms.
    fn attempts(servers: usize, max: u32) -> Attempts {
        let url = |index| format!("http://127.0.0.1:{}", 3000 + index);
        let upstreams = (0..servers).map(|index| Upstream::parse(&url(index)).expect("a URL"));
        let attempts = AttemptLimits { max, timeout_ms: TIMEOUT_MS };
        let options = UpstreamOptions { attempts, ..UpstreamOptions::default() };
        let group = Arc::new(UpstreamGroup::new(upstreams.collect(), options).expect("a group"));
        let (key, mut tried) = (BalanceKey::Load, TriedServers::default());
        let server = group.choose(key, tried, 0, 0).expect("a server");
        tried.add(server.index);
        Attempts { server, tried, count: 1, was_sent: false, began_ms: 0, key, asked: None }
    }

    #[test]
    fn another_attempt_has_the_remaining_time() {
        let mut attempts = attempts(3, 3);
        assert_eq!(attempts.time_left_ms(0), Ok(1_000));
        assert_eq!(attempts.time_left_ms(999), Ok(1));
        // A sent request that can be repeated has no more time.
        attempts.was_sent = true;
        assert_eq!(attempts.time_left_ms(999), Ok(1));
        attempts.began_ms = 999;
        assert!(attempts.advance(999, 0));
        assert_eq!(attempts.time_left_ms(1_000), Ok(999));
    }

    /// The status of a request that has timed out says that no server could be reached.
    #[test]
    fn only_an_unsent_request_is_too_late() {
        let mut attempts = attempts(3, 3);
        assert_eq!(attempts.time_left_ms(TIMEOUT_MS), Err(NextAttempt::TooLate));
        attempts.was_sent = true;
        assert_eq!(attempts.time_left_ms(TIMEOUT_MS), Err(NextAttempt::None));
    }

    #[test]
    fn a_request_that_has_no_further_attempt_is_not_too_late() {
        for (servers, max) in [(1, 4), (3, 1), (2, 4), (3, 2)] {
            let mut attempts = attempts(servers, max);
            for _ in 1..max.min(servers as u32) {
                assert!(attempts.time_left_ms(0).is_ok(), "{servers} {max}");
                assert!(attempts.advance(0, 0), "{servers} {max}");
            }
            for now_ms in [0, TIMEOUT_MS] {
                let left_ms = attempts.time_left_ms(now_ms);
                assert_eq!(left_ms, Err(NextAttempt::None), "{servers} {max} {now_ms}");
            }
        }
    }
}
