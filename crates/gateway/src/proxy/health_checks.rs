//! Requests of Pinion itself that find out whether upstream servers work. One worker sends them;
//! the state of servers is shared.

use std::sync::Arc;

use pinion_client::connection_pool::KeyLimits;
use pinion_client::http_client::error::HttpClientError;
use pinion_client::http_client::request::{
    ClientRequest, ForwardedRequest, OwnedFields, RequestBody, ServerProtocol,
};
use pinion_client::http_client::{HttpClient, RequestId};

use super::upstream_failover::ServerNews;
use crate::limits::HEALTH_CONTENT_MAX_BYTES;
use crate::request_forwarding::authority;
use crate::upstream::Upstream;
use crate::upstream_group::{ActiveChecks, UpstreamGroup};

/// The health checks of one worker.
#[derive(Debug, Default)]
pub(super) struct HealthChecks {
    checks: Vec<Check>,
}

/// The checks of one server.
#[derive(Debug)]
struct Check {
    group: Arc<UpstreamGroup>,
    /// The server.
    index: usize,
    /// The time when the next one is sent, in monotonic milliseconds.
    due_ms: u64,
    /// The one that is on its way.
    running: Option<RequestId>,
}

impl HealthChecks {
    /// Checks the servers of these groups from now on, and no others. Groups that were there before
    /// continue.
    pub(super) fn watch(
        &mut self,
        groups: impl Iterator<Item = Arc<UpstreamGroup>>,
        client: &mut HttpClient,
    ) {
        let mut before = std::mem::take(&mut self.checks);
        for group in groups.filter(|group| group.options.active.is_some()) {
            let is_known = |one: &mut Check| Arc::ptr_eq(&one.group, &group);
            let known: Vec<Check> = before.extract_if(.., is_known).collect();
            if known.is_empty() {
                let check = |index| Check { group: group.clone(), index, due_ms: 0, running: None };
                self.checks.extend((0..group.len()).map(check));
            }
            self.checks.extend(known);
        }
        before.iter().filter_map(|check| check.running).for_each(|id| client.close(id));
    }

    /// Returns the time when the next check is sent, in monotonic milliseconds.
    pub(super) fn alarm_ms(&self) -> Option<u64> {
        let waiting = self.checks.iter().filter(|check| check.running.is_none());
        waiting.map(|check| check.due_ms).min()
    }

    /// Sends the checks that are due.
    pub(super) fn pass(&mut self, client: &mut HttpClient, now_ms: u64) {
        let due = |check: &&mut Check| check.running.is_none() && check.due_ms <= now_ms;
        for check in self.checks.iter_mut().filter(due) {
            let Some(active) = &check.group.options.active else { continue };
            check.due_ms = now_ms.saturating_add(active.interval_ms);
            let Some(server) = check.group.server(check.index) else { continue };
            // One that cannot be sent says nothing about the server.
            check.running = client.start(request(&server.upstream, active), now_ms).ok();
        }
    }

    /// Handles news of a request, which may be a check. Returns the change of the server's state.
    pub(super) fn news(&mut self, id: RequestId, client: &mut HttpClient) -> Option<ServerNews> {
        let check = self.checks.iter_mut().find(|check| check.running == Some(id))?;
        let (is_healthy, reason) = match client.response(id) {
            Ok(None) => return None,
            Ok(Some(start)) => {
                let is_healthy = (200..400).contains(&start.status);
                (Some(is_healthy), format!("status {}", start.status))
            }
            Err(error) => (verdict(&error), error.to_string()),
        };
        client.close(id);
        check.running = None;
        let change = is_healthy.and_then(|is_healthy| check.group.checked(check.index, is_healthy));
        let server = check.group.server(check.index)?;
        change.map(|change| ServerNews {
            server: server.upstream.to_string().into(),
            change,
            reason: (is_healthy == Some(false)).then(|| reason.into()),
        })
    }

    /// Ends all checks.
    pub(super) fn stop(&mut self, client: &mut HttpClient) {
        let checks = std::mem::take(&mut self.checks);
        checks.iter().filter_map(|check| check.running).for_each(|id| client.close(id));
    }
}

/// Returns the verdict of a check without a response. Bounds of this server say nothing about the
/// other one.
fn verdict(error: &HttpClientError) -> Option<bool> {
    (!error.is_overload()).then_some(false)
}

/// Returns the request of a check.
fn request(upstream: &Upstream, active: &ActiveChecks) -> ClientRequest {
    let mut fields = OwnedFields::default();
    fields.push(b"User-Agent", concat!("Pinion/", env!("CARGO_PKG_VERSION")).as_bytes());
    ClientRequest {
        // Checks do not wait behind requests for a connection.
        site: upstream.health_number,
        method: "GET".into(),
        url: upstream.url.clone(),
        fields,
        content: RequestBody::Whole(upstream.no_content.clone()),
        policy: upstream.policy.clone(),
        tls: upstream.tls.clone(),
        timeout_ms: active.timeout_ms,
        redirects_max: 0,
        content_max_bytes: HEALTH_CONTENT_MAX_BYTES,
        forwarded: Some(ForwardedRequest {
            authority: authority(upstream, None).into(),
            target: active.target.as_bytes().into(),
            accepts_trailers: false,
            upgrade: None,
            connect_timeout_ms: active.timeout_ms,
            waits_for_socket: false,
        }),
        protocol: ServerProtocol::Http,
        connections: KeyLimits::NONE,
    }
}
