//! Access control in one worker: it decides about each request, and holds requests whose passwords
//! are being verified.

use super::concurrent_requests::{ConcurrentRequests, OpenRequests};
use super::cors::is_preflight;
use super::credential_cache::CredentialCache;
use super::limits::{
    FAILING_CLIENTS_MAX, FAILURE_SECONDS, FAILURES_AT_ONCE, RATE_CLIENTS_MAX, RETRY_SECONDS,
    UNIX_FAILURES_AT_ONCE, UNIX_FAILURES_PER_SECOND,
};
use super::password_verification::{Guesser, PasswordCheck, UNIX_GUESSERS, Verifications, is_unix};
use super::rate_table::{ClientPrefix, RateTable};
use super::rules::{AccessRule, AccessRules, RuleSet};
use crate::server::gateway::CLIENT_LEFT;
use anyhow::Context as _;
use pinion_engine::Poster;
use pinion_engine::exchange::Exchange;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::gcra::RateLimit;
use pinion_http::request_head::RequestHead;
use pinion_jobs::job_queue::JobQueues;
use pinion_lua::library::passwords::PasswordLimits;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Nanoseconds of a second and of a millisecond.
const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// The state that the gates of all workers share.
pub(crate) struct AccessShared {
    pub(super) cache: CredentialCache,
    rates: RateTable,
    failures: RateTable,
    failure_limit: RateLimit,
    /// The limit of all clients on Unix sockets together.
    unix_failure_limit: RateLimit,
    concurrent: Arc<ConcurrentRequests>,
    /// WebSockets and other tunnels, and how many a client may have.
    tunnels: Arc<ConcurrentRequests>,
    tunnels_max: u32,
    pub(super) jobs: Arc<JobQueues>,
    pub(super) password_limits: PasswordLimits,
    /// Passwords that are being verified or wait for a thread.
    pub(super) verifications: Arc<AtomicUsize>,
    /// The part of these verifications for clients on Unix sockets.
    pub(super) unix_verifications: Arc<AtomicUsize>,
}

/// The access control of one worker.
pub(crate) struct AccessGate {
    pub(super) shared: Arc<AccessShared>,
    pub(super) worker: u16,
    pub(super) poster: Poster,
    pub(super) verifications: Verifications,
    pub(super) open: OpenRequests,
    /// Makes the numbers of requests.
    id_keys: [RandomState; 2],
    requests: u64,
}

/// The results of the access checks of a request.
#[derive(Debug, Default)]
pub(crate) struct CheckedAccess {
    /// The rules that admit it.
    pub(crate) admitted: RuleSet,
    /// The rules whose limits count it.
    charged: RuleSet,
    /// The rules whose passwords it has.
    pub(crate) verified: RuleSet,
    /// The user whose password was verified last.
    pub(crate) user: Option<Box<str>>,
    /// The response has the fields that it gets from rules.
    has_fields: bool,
}

impl CheckedAccess {
    /// Returns the results that stay valid after a reload, by the rules of now. The request is
    /// checked anew, but no limit counts it twice.
    pub(crate) fn reloaded(self, earlier: &AccessRules, now: &AccessRules) -> Self {
        let charged = now.same_as(earlier, self.charged);
        Self { charged, has_fields: self.has_fields, ..Self::default() }
    }
}

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AccessVerdict {
    /// Every rule admits it.
    Admitted,
    /// It gets a response of this status.
    Refused(GateRefusal),
    /// It is a preflight request and gets these lines of fields.
    Preflight(String),
    /// A password has to be verified first, that of this rule.
    Unverified(RuleSet),
}

/// A response to a request that is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateRefusal {
    pub(crate) status: u16,
    /// Whole lines.
    pub(crate) fields: String,
}

impl GateRefusal {
    /// Returns 403: no client may have it.
    fn forbidden() -> Self {
        Self { status: 403, fields: String::new() }
    }

    /// Returns 401: a password is missing or wrong.
    pub(crate) fn unauthorized(challenge: &str) -> Self {
        Self { status: 401, fields: format!("{challenge}Cache-Control: no-store\r\n") }
    }

    /// Returns 429: the client has sent too many.
    pub(super) fn too_many(retry_seconds: u64) -> Self {
        Self::later(429, retry_seconds)
    }

    /// Returns 503: too much waits, or a password cannot be verified.
    pub(super) fn unavailable() -> Self {
        Self::later(503, RETRY_SECONDS)
    }

    /// Returns the status for the access log when the client has left.
    pub(super) fn client_left() -> Self {
        Self { status: CLIENT_LEFT, fields: String::new() }
    }

    /// Returns whether the client has left and gets no response.
    pub(crate) fn is_client_left(&self) -> bool {
        self.status == CLIENT_LEFT
    }

    fn later(status: u16, retry_seconds: u64) -> Self {
        let fields = format!("Retry-After: {retry_seconds}\r\nCache-Control: no-store\r\n");
        Self { status, fields }
    }
}

impl AccessShared {
    /// Makes the state that workers share. Jobs run on the threads for passwords, and a client may
    /// have so many tunnels.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new(
        jobs: Arc<JobQueues>,
        password_limits: PasswordLimits,
        tunnels_max: u32,
    ) -> anyhow::Result<Arc<Self>> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key).context("cannot get random bytes")?;
        let failure_limit = RateLimit::new(1, FAILURE_SECONDS * SECOND_NS, FAILURES_AT_ONCE);
        let unix_failure_limit =
            RateLimit::new(UNIX_FAILURES_PER_SECOND, SECOND_NS, UNIX_FAILURES_AT_ONCE);
        Ok(Arc::new(Self {
            cache: CredentialCache::new(key),
            rates: RateTable::new(RATE_CLIENTS_MAX),
            failures: RateTable::new(FAILING_CLIENTS_MAX),
            failure_limit: failure_limit.context("a limit of failures")?,
            unix_failure_limit: unix_failure_limit.context("a limit of failures")?,
            concurrent: Arc::default(),
            tunnels: Arc::default(),
            tunnels_max,
            jobs,
            password_limits,
            verifications: Arc::default(),
            unix_verifications: Arc::default(),
        }))
    }

    /// Counts an attempt to find a password. [`Self::forgive`] takes it back.
    ///
    /// # Errors
    /// Too many wrong ones were sent.
    pub(super) fn charge_attempt(&self, guesser: Guesser, now_ms: u64) -> Result<(), GateRefusal> {
        let now_ns = nanoseconds(now_ms);
        let too_many = |wait_ns: u64| GateRefusal::too_many(wait_ns.div_ceil(SECOND_NS));
        // These clients come first: one over their limit takes no entry of a client in the table.
        if is_unix(guesser) {
            let all = self.failures.admit(&self.unix_failure_limit, UNIX_GUESSERS, now_ns);
            all.map_err(too_many)?;
        }
        let admitted = self.failures.admit(&self.failure_limit, guesser, now_ns);
        if admitted.is_err() {
            self.forgive_unix(guesser);
        }
        admitted.map_err(too_many)
    }

    /// Takes back an attempt, since the password was right.
    pub(super) fn forgive(&self, guesser: Guesser) {
        self.failures.refund(&self.failure_limit, guesser);
        self.forgive_unix(guesser);
    }

    fn forgive_unix(&self, guesser: Guesser) {
        if is_unix(guesser) {
            self.failures.refund(&self.unix_failure_limit, UNIX_GUESSERS);
        }
    }
}

fn nanoseconds(milliseconds: u64) -> u64 {
    milliseconds.saturating_mul(MILLISECOND_NS)
}

impl AccessGate {
    /// Makes the gate of a worker.
    pub(crate) fn new(shared: Arc<AccessShared>, worker: u16, poster: Poster) -> Self {
        Self {
            shared,
            worker,
            poster,
            verifications: Verifications::default(),
            open: OpenRequests::default(),
            id_keys: [RandomState::new(), RandomState::new()],
            requests: 0,
        }
    }

    /// Returns a random number for a request, which is unlike all others.
    pub(crate) fn next_id(&mut self) -> Box<str> {
        self.requests += 1;
        let [high, low] = self.id_keys.each_ref().map(|keys| keys.hash_one(self.requests));
        format!("{high:016x}{low:016x}").into()
    }

    /// Decides about a request. `asked` are the rules that cover it, of which those count that have
    /// not admitted it yet.
    pub(crate) fn check(
        &mut self,
        rules: &AccessRules,
        asked: RuleSet,
        checked: &mut CheckedAccess,
        (client, head): (&ClientIdentity, &RequestHead<'_>),
        exchange: &mut Exchange<'_>,
    ) -> AccessVerdict {
        let client = client.peer;
        // Browsers ask about the path that they request: the tables of a path that a rewrite leads
        // to, which come later, say nothing about other origins.
        let is_first = !checked.has_fields;
        let cors_rule = rules.cors_rule(asked).filter(|_| is_first);
        let cors = cors_rule.and_then(|rule| rule.table.cors.as_ref());
        let is_preflight = cors.is_some() && is_preflight(head);
        if !std::mem::replace(&mut checked.has_fields, true) {
            let mut lines = String::new();
            if let Some(cors) = cors.filter(|_| !is_preflight) {
                lines += &cors.response_fields(head);
            }
            if let Some(id) = head.request_id() {
                let _infallible = write!(lines, "X-Request-Id: {id}\r\n");
            }
            if !lines.is_empty() {
                exchange.add_fields(lines.as_bytes());
            }
        }
        let asked = asked.without(checked.admitted);
        if rules.of(asked).any(|(_, rule)| rule.refuses(client)) {
            return AccessVerdict::Refused(GateRefusal::forbidden());
        }
        let uncharged = asked.without(checked.charged);
        checked.charged = checked.charged.with(uncharged);
        if let Err(refusal) = self.charge(rules, uncharged, client, exchange) {
            return AccessVerdict::Refused(refusal);
        }
        if let Some(cors) = cors.filter(|_| is_preflight) {
            return AccessVerdict::Preflight(cors.preflight_fields(head));
        }
        let now_ms = exchange.now().monotonic_ms;
        for (one, rule) in rules.of(asked.without(checked.verified)) {
            let Some(password) = &rule.password else { continue };
            match self.shared.look_up(password, head, now_ms) {
                PasswordCheck::Verified(user) => {
                    checked.verified = checked.verified.with(one);
                    checked.user = Some(user);
                }
                PasswordCheck::Missing => {
                    let refusal = GateRefusal::unauthorized(&password.challenge);
                    return AccessVerdict::Refused(refusal);
                }
                PasswordCheck::Unknown => return AccessVerdict::Unverified(one),
            }
        }
        if !checked.verified.is_empty() {
            exchange.set_private();
        }
        checked.admitted = checked.admitted.with(asked);
        AccessVerdict::Admitted
    }

    /// Counts a request in the rates of its client.
    fn charge(
        &mut self,
        rules: &AccessRules,
        set: RuleSet,
        client: Option<SocketAddr>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), GateRefusal> {
        // Clients on Unix sockets are not limited, as with --max-connections-per-client.
        let Some(client) = client else { return Ok(()) };
        let client = ClientPrefix::of(Some(client.ip()));
        let now_ns = nanoseconds(exchange.now().monotonic_ms);
        let mut counted = Vec::new();
        for (_, AccessRule { table, number, .. }) in rules.of(set) {
            if let Some(rate) = &table.rate {
                let admitted = self.shared.rates.admit(&rate.limit, (*number, client), now_ns);
                admitted.map_err(|wait_ns| GateRefusal::too_many(wait_ns.div_ceil(SECOND_NS)))?;
            }
            if let Some(max) = table.concurrent_max {
                let request = self.shared.concurrent.count((*number, client), max);
                counted.push(request.ok_or_else(|| GateRefusal::too_many(1))?);
            }
        }
        if !counted.is_empty() {
            self.open.hold(counted, exchange);
        }
        Ok(())
    }

    /// Counts a request that may become a tunnel among the tunnels of its client, until its
    /// exchange has ended: the exchange of a tunnel ends with it.
    ///
    /// # Errors
    /// The client has as many as it may, and this many they are.
    pub(crate) fn count_tunnel(
        &mut self,
        client: &ClientIdentity,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), u32> {
        // As above.
        let Some(peer) = client.peer else { return Ok(()) };
        let (client, max) = (ClientPrefix::of(Some(peer.ip())), self.shared.tunnels_max);
        let counted = self.shared.tunnels.count((0, client), max).ok_or(max)?;
        self.open.hold(vec![counted], exchange);
        Ok(())
    }

    /// Ends the exchange that is known under this number.
    pub(crate) fn ended(&mut self, number: NonZeroU32) {
        self.open.ended(number);
    }
}
