//! The servers of a mount, one of which responds to a request, and how requests and responses are
//! changed on the way. All workers share it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinion_client::limits::CONNECT_TIMEOUT_MS;
use thiserror::Error;

use crate::balancing::{Balance, BalanceKey, Candidate, choose, hash};
use crate::fastcgi_scgi_variables::ProgramOptions;
use crate::field_changes::FieldChanges;
use crate::limits::{ATTEMPTS_MAX, ATTEMPTS_TIMEOUT_MS, UPSTREAMS_MAX};
use crate::path_prefix::PathRewrite;
use crate::server_health::{
    Availability, HealthChange, HealthThresholds, PassiveChecks, ServerHealth, SharedHealth,
};
use crate::upstream::Upstream;

/// The servers of a mount, with their options.
#[derive(Debug)]
pub struct UpstreamGroup {
    servers: Vec<GroupServer>,
    pub(crate) options: UpstreamOptions,
}

/// The options for the requests and responses of a mount.
#[derive(Clone, Debug, Default)]
pub struct UpstreamOptions {
    /// Which of several servers a request goes to.
    pub balance: Balance,
    /// The limits at which failed requests take one of several servers out.
    pub passive: PassiveChecks,
    /// The health checks; `None` without any.
    pub active: Option<ActiveChecks>,
    /// The limits of attempts on other servers after one has failed.
    pub attempts: AttemptLimits,
    /// The path that replaces the path of the mount.
    pub path: Option<PathRewrite>,
    /// Fields that are set or removed in requests.
    pub request_fields: FieldChanges,
    /// Fields that are set or removed in responses.
    pub response_fields: FieldChanges,
    /// Fields of responses that hold for the whole host and are passed on all the same.
    pub passed_fields: PassedFields,
    /// Whether a response may name a [file](crate::x_sendfile) that is sent in place of its
    /// content.
    pub sends_files: bool,
    /// Most bytes of a request's content that is stored before a server is asked; `None` if content
    /// is passed on as it comes.
    pub stored_upload_max_bytes: Option<u64>,
    /// Most bytes of a request's content of unknown length that is stored, for applications that
    /// have to know the length.
    pub unknown_length_max_bytes: u64,
    /// The options of applications behind FastCGI and SCGI; `None` for servers that speak HTTP.
    pub program: Option<ProgramOptions>,
}

/// Fields of responses that hold for the whole host (RFC 7838, RFC 6797), and whether those of the
/// upstream server are passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedFields {
    /// `Alt-Svc`.
    pub alt_svc: bool,
    /// `Strict-Transport-Security`.
    pub hsts: bool,
}

/// The limits of attempts: how often and for how long a request is sent to one of several servers
/// after another has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Most servers that it is sent to.
    pub max: u32,
    /// How long it may take to reach one, in milliseconds. Connections that take longer to open are
    /// cancelled, and no other server is tried. How long a request waits for a connection of the
    /// pool is the timeout of its server.
    pub timeout_ms: u64,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        Self { max: ATTEMPTS_MAX, timeout_ms: ATTEMPTS_TIMEOUT_MS }
    }
}

/// Requests of Pinion itself that find out whether servers work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveChecks {
    /// Path and query. A response with a status from 200 to 399 passes.
    pub target: Box<str>,
    /// The interval between checks of a server, in milliseconds.
    pub interval_ms: u64,
    /// The time that a check may take, in milliseconds.
    pub timeout_ms: u64,
    /// The numbers of checks in a row that change the state of a server.
    pub thresholds: HealthThresholds,
}

/// One of the servers.
#[derive(Debug)]
pub(crate) struct GroupServer {
    pub(crate) upstream: Upstream,
    identity: u64,
    /// Requests that have not ended.
    requests: AtomicUsize,
    health: SharedHealth,
}

/// The known status of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerStatus<'g> {
    /// The server.
    pub upstream: &'g Upstream,
    /// Whether it can be used.
    pub health: ServerHealth,
    /// Requests of clients that have not ended.
    pub requests: usize,
}

/// The reason why there is no such group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UpstreamGroupError {
    /// There is no server in it.
    #[error("there is no server")]
    Empty,
    /// There are too many.
    #[error("more than {UPSTREAMS_MAX} servers")]
    TooMany,
    /// A server is named twice; its index.
    #[error("a server is named twice")]
    Twice(usize),
}

impl UpstreamGroup {
    /// Makes a group.
    ///
    /// # Errors
    /// There are no servers, too many, or one of them twice.
    pub fn new(
        upstreams: Vec<Upstream>,
        options: UpstreamOptions,
    ) -> Result<Self, UpstreamGroupError> {
        if upstreams.is_empty() {
            return Err(UpstreamGroupError::Empty);
        }
        if upstreams.len() > UPSTREAMS_MAX {
            return Err(UpstreamGroupError::TooMany);
        }
        let names: Vec<String> = upstreams.iter().map(Upstream::to_string).collect();
        let twice = |(index, name): &(usize, &String)| names[..*index].contains(name);
        if let Some((index, _)) = names.iter().enumerate().find(twice) {
            return Err(UpstreamGroupError::Twice(index));
        }
        let servers = upstreams.into_iter().zip(names).map(|(upstream, name)| GroupServer {
            upstream,
            identity: hash(name.as_bytes()),
            requests: AtomicUsize::new(0),
            health: SharedHealth::default(),
        });
        Ok(Self { servers: servers.collect(), options })
    }

    /// Returns a group of one server that changes nothing.
    #[must_use]
    pub fn of_one(upstream: Upstream) -> Self {
        let server = GroupServer {
            identity: 0,
            upstream,
            requests: AtomicUsize::new(0),
            health: SharedHealth::default(),
        };
        Self { servers: vec![server], options: UpstreamOptions::default() }
    }

    /// Returns its options.
    #[must_use]
    pub fn options(&self) -> &UpstreamOptions {
        &self.options
    }

    /// Returns the servers and their status, in the order in which they are written.
    pub fn servers(&self) -> impl Iterator<Item = ServerStatus<'_>> {
        self.servers.iter().map(|server| ServerStatus {
            upstream: &server.upstream,
            health: server.health.snapshot(),
            requests: server.requests.load(Ordering::Relaxed),
        })
    }

    pub(crate) fn server(&self, index: usize) -> Option<&GroupServer> {
        self.servers.get(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.len()
    }

    /// Returns whether there is another server when one fails.
    pub(crate) fn has_several(&self) -> bool {
        self.servers.len() > 1
    }

    /// Returns how long a connection to the first server of a request may take to open, in
    /// milliseconds. One of several leaves time for the others.
    pub(crate) fn connect_timeout_ms(&self) -> u64 {
        if self.has_several() { self.options.attempts.timeout_ms } else { CONNECT_TIMEOUT_MS }
    }

    /// Chooses a server for a request that has not been sent to those in `tried`. If none of the
    /// others is there, one that is out is tried all the same. Returns `None` when all were tried.
    pub(crate) fn choose(
        self: &Arc<Self>,
        key: BalanceKey,
        tried: TriedServers,
        now_ms: u64,
        random: u64,
    ) -> Option<ServerUse> {
        if !self.has_several() {
            return (!tried.has(0)).then(|| self.using(0, false));
        }
        let mut excluded = tried;
        loop {
            let is_candidate = |index: usize, server: &GroupServer| {
                !excluded.has(index) && server.health.availability(now_ms) != Availability::Out
            };
            let Some(index) = self.best(key, is_candidate, random) else { break };
            let health = &self.servers.get(index)?.health;
            if health.availability(now_ms) == Availability::Available {
                return Some(self.using(index, false));
            }
            // It was out: one request at a time finds out whether it is back.
            if health.begin_trial(self.options.passive, now_ms) {
                return Some(self.using(index, true));
            }
            excluded.add(index);
        }
        let index = self.best(key, |index, _| !tried.has(index), random)?;
        Some(self.using(index, true))
    }

    fn best(
        &self,
        key: BalanceKey,
        is_candidate: impl Fn(usize, &GroupServer) -> bool + Copy,
        random: u64,
    ) -> Option<usize> {
        let all = self.servers.iter().enumerate();
        let candidates = all.filter(move |(index, server)| is_candidate(*index, server));
        let candidates = candidates.map(|(index, server)| Candidate {
            index,
            identity: server.identity,
            requests: server.requests.load(Ordering::Relaxed),
        });
        choose(key, candidates, random)
    }

    fn using(self: &Arc<Self>, index: usize, is_trial: bool) -> ServerUse {
        if let Some(server) = self.server(index) {
            server.requests.fetch_add(1, Ordering::Relaxed);
        }
        ServerUse { group: Arc::clone(self), index, is_trial }
    }

    /// Records the result of a health check of a server.
    pub(crate) fn checked(&self, index: usize, is_healthy: bool) -> Option<HealthChange> {
        let thresholds = self.options.active.as_ref()?.thresholds;
        self.server(index)?.health.checked(is_healthy, thresholds)
    }
}

/// The servers, separated by commas.
impl fmt::Display for UpstreamGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", server.upstream)?;
        }
        Ok(())
    }
}

/// The servers that a request was sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TriedServers(u64);

const _: () = assert!(UPSTREAMS_MAX <= u64::BITS as usize, "a server is a bit");

impl TriedServers {
    pub(crate) fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    /// Returns how many they are.
    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    fn has(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }
}

/// A server that a request uses, as long as the value lives.
#[derive(Debug)]
pub(crate) struct ServerUse {
    group: Arc<UpstreamGroup>,
    pub(crate) index: usize,
    /// The server was out when it was chosen.
    is_trial: bool,
}

impl ServerUse {
    /// Returns the group of the server.
    pub(crate) fn group(&self) -> &Arc<UpstreamGroup> {
        &self.group
    }

    /// Returns another use of the server: that of the tunnel which a request becomes.
    pub(crate) fn for_tunnel(&self) -> Self {
        self.group.using(self.index, false)
    }

    /// Returns the server.
    pub(crate) fn upstream(&self) -> Option<&Upstream> {
        Some(&self.group.server(self.index)?.upstream)
    }

    /// Records that the server has sent the head of a response.
    pub(crate) fn succeeded(&mut self) -> Option<HealthChange> {
        if !std::mem::take(&mut self.is_trial) {
            return None;
        }
        self.group.server(self.index)?.health.recovered()
    }

    /// Records that the request has failed because of the server.
    pub(crate) fn failed(&self, now_ms: u64) -> Option<HealthChange> {
        if !self.group.has_several() {
            return None;
        }
        let checks = self.group.options.passive;
        self.group.server(self.index)?.health.failed(checks, now_ms)
    }
}

/// The URL of the server.
impl fmt::Display for ServerUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upstream().map_or(Ok(()), |upstream| upstream.fmt(f))
    }
}

impl Drop for ServerUse {
    fn drop(&mut self) {
        if let Some(server) = self.group.server(self.index) {
            server.requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: BalanceKey = BalanceKey::Load;

    fn group(count: usize) -> Arc<UpstreamGroup> {
        let url = |index| format!("http://127.0.0.1:{}", 3000 + index);
        let upstreams = (0..count).map(|index| Upstream::parse(&url(index)).expect("a URL"));
        let group = UpstreamGroup::new(upstreams.collect(), UpstreamOptions::default());
        Arc::new(group.expect("a group"))
    }

    fn tried(indexes: &[usize]) -> TriedServers {
        let mut tried = TriedServers::default();
        indexes.iter().for_each(|index| tried.add(*index));
        tried
    }

    #[test]
    fn requests_that_have_not_ended_count() {
        let group = group(3);
        let mut used: Vec<ServerUse> = Vec::new();
        for _ in 0..3 {
            used.push(group.choose(LOAD, tried(&[]), 0, 0).expect("a server"));
        }
        let mut indexes: Vec<usize> = used.iter().map(|one| one.index).collect();
        indexes.sort_unstable();
        assert_eq!(indexes, [0, 1, 2]);
        // A connection that was switched to another protocol counts as one, too.
        let tunnel = used[0].for_tunnel();
        let busy = used.remove(0);
        assert_eq!(tunnel.index, busy.index);
        drop(busy);
        let free = used.remove(0).index;
        assert_eq!(group.choose(LOAD, tried(&[]), 0, 0).expect("a server").index, free);
    }

    #[test]
    fn servers_that_were_tried_are_not_chosen_again() {
        let group = group(2);
        let second = group.choose(LOAD, tried(&[0]), 0, 0).expect("a server");
        assert_eq!(second.index, 1);
        assert!(group.choose(LOAD, tried(&[0, 1]), 0, 0).is_none());
        let one = self::group(1);
        assert!(one.choose(LOAD, tried(&[]), 0, 0).is_some());
        assert!(one.choose(LOAD, tried(&[0]), 0, 0).is_none());
    }

    #[test]
    fn a_server_that_is_out_is_left_out_until_a_request_succeeds() {
        let group = group(2);
        let choose = |now_ms| group.choose(LOAD, tried(&[]), now_ms, 0).expect("a server");
        let first = group.choose(LOAD, tried(&[1]), 0, 0).expect("a server");
        let changes: Vec<_> = (0..5).filter_map(|_| first.failed(0)).collect();
        assert!(matches!(changes[..], [HealthChange::Out { fails: 3, timeout_ms: 10_000 }]));
        drop(first);
        assert!((0..9).all(|_| choose(9_999).index == 1));
        // One request at a time tries the server.
        let held = group.choose(LOAD, tried(&[0]), 10_000, 0).expect("a server");
        let mut trial = choose(10_000);
        assert_eq!((trial.index, choose(10_000).index), (0, 1));
        assert_eq!(trial.succeeded(), Some(HealthChange::Back));
        assert_eq!(trial.succeeded(), None);
        drop(trial);
        assert_eq!(choose(10_000).index, 0);
        drop(held);
    }

    #[test]
    fn when_all_are_out_all_are_tried() {
        let group = group(2);
        for index in [0, 1] {
            let other = tried(&[1 - index]);
            let one = group.choose(LOAD, other, 0, 0).expect("a server");
            assert_eq!((0..3).filter_map(|_| one.failed(0)).count(), 1);
        }
        let mut one = group.choose(LOAD, tried(&[]), 1, 0).expect("a server");
        assert!(group.choose(LOAD, tried(&[one.index]), 1, 0).is_some());
        assert_eq!(one.succeeded(), Some(HealthChange::Back));
    }

    #[test]
    fn a_group_names_each_server_once() {
        let parse = |texts: &[&str]| {
            let upstreams = texts.iter().map(|text| Upstream::parse(text).expect("a URL"));
            UpstreamGroup::new(upstreams.collect(), UpstreamOptions::default()).err()
        };
        assert_eq!(parse(&[]), Some(UpstreamGroupError::Empty));
        let twice = ["http://a", "http://b", "http://a:80/"];
        assert_eq!(parse(&twice), Some(UpstreamGroupError::Twice(2)));
        assert_eq!(parse(&["http://a", "https://a"]), None);
        let many: Vec<String> = (0..65).map(|port| format!("http://a:{}", port + 1)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(parse(&many), Some(UpstreamGroupError::TooMany));
        assert_eq!(group(2).to_string(), "http://127.0.0.1:3000, http://127.0.0.1:3001");
    }
}
