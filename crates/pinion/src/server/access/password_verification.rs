//! Passwords that are being verified on the threads for passwords, and the requests that wait for
//! that.

use super::credential_cache::CredentialDigest;
use super::limits::{
    CLIENT_VERIFICATIONS_MAX, CLIENT_WAITING_MAX, UNIX_VERIFICATIONS_MAX, UNIX_WAITING_MAX,
    UNIX_WAITING_MAX_BYTES, VERIFICATION_MAX_MS, VERIFICATIONS_MAX, WAITING_MAX, WAITING_MAX_BYTES,
};
use super::rate_table::ClientPrefix;
use super::request_authorization::{AccessGate, AccessShared, CheckedAccess, GateRefusal};
use super::rules::{AccessRules, PasswordRule, RuleSet};
use crate::server::request_log::Beginning;
use crate::server::site_roster::SiteId;
use pinion_engine::app::{Event, Message};
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::basic_credentials::{self, BasicCredentials};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::owned_head::OwnedRequestHead;
use pinion_http::request_head::RequestHead;
use pinion_jobs::job_queue::{BlockingJob, CancelOnDrop, JobDone, JobOutcome, JobOwner, JobValue};
use pinion_lua::library::limits::PASSWORD_MAX_BYTES;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The state of the password check of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PasswordCheck {
    /// It was verified lately, for this user.
    Verified(Box<str>),
    /// The request has no password, or one that no user can have.
    Missing,
    /// It has to be verified.
    Unknown,
}

/// A group of attempts to find a password that count together: the attempts of a client, with the
/// number 0. Clients on Unix sockets, which have no address, are distinguished by a number of the
/// user that they name: one that guesses the password of a user locks out that user alone. Names
/// can be invented, so all of these clients together have limits as well.
pub(super) type Guesser = (u64, ClientPrefix);

/// All clients on Unix sockets together. No user that they name has this number.
pub(super) const UNIX_GUESSERS: Guesser = (0, ClientPrefix::Unix);

/// Returns whether attempts are those of a client on a Unix socket.
pub(super) fn is_unix(guesser: Guesser) -> bool {
    guesser.1 == ClientPrefix::Unix
}

/// The verdict of its thread on a password: whether it is right.
#[derive(Debug, PartialEq, Eq)]
struct PasswordVerdict(bool);

impl JobValue for PasswordVerdict {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// A request that waits for the verification of its password.
pub(crate) struct WaitingRequest {
    pub(crate) head: OwnedRequestHead,
    pub(crate) site: SiteId,
    pub(crate) client: ClientIdentity,
    pub(crate) began: Option<Beginning>,
    /// It announces more content than is allowed.
    pub(crate) is_oversized: bool,
    /// The rules that it was checked by.
    pub(crate) rules: Arc<AccessRules>,
    pub(crate) checked: CheckedAccess,
}

/// A request that waits no longer.
pub(crate) struct ResumedRequest {
    pub(crate) address: Address,
    pub(crate) request: WaitingRequest,
    /// The response, unless the password is right.
    pub(crate) outcome: Result<(), GateRefusal>,
}

/// The passwords of one worker that are being verified, and the requests that wait for that.
#[derive(Default)]
pub(crate) struct Verifications {
    /// The verifications by the numbers of their jobs.
    running: HashMap<u64, Verification>,
    waiting: HashMap<Address, WaitingLogin>,
    waiting_bytes: usize,
    /// The number of the next job.
    next: u64,
}

struct WaitingLogin {
    request: WaitingRequest,
    /// The rule that asks for the password, among those of the request: requests of several sites
    /// wait for the same job, and each has rules of its own.
    rule: RuleSet,
    password: Arc<PasswordRule>,
    guesser: Guesser,
    /// The number of the job.
    job: u64,
    bytes: usize,
}

/// A password that is being verified for requests with the same credentials, by files of the same
/// content. It knows nothing of their rules.
struct Verification {
    digest: CredentialDigest,
    guesser: Guesser,
    user: Box<str>,
    requests: Vec<Address>,
    _job: CancelOnDrop,
    _permits: VerificationPermits,
}

/// The permits that a verification needs to begin.
struct VerificationPermits {
    _unix: Option<VerificationPermit>,
    _any: VerificationPermit,
}

/// One of a limited number of verifications, until this is dropped.
struct VerificationPermit(Arc<AtomicUsize>);

impl VerificationPermit {
    fn take(count: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let permit = Self(Arc::clone(count));
        let earlier = count.fetch_add(1, Ordering::Relaxed);
        (earlier < max).then_some(permit)
    }
}

impl Drop for VerificationPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs something with the credentials of a request; `None` without any. More than one field is
/// none, because it is not known which of them counts.
fn with_credentials<T>(
    head: &RequestHead<'_>,
    run: impl FnOnce(&BasicCredentials<'_>) -> T,
) -> Option<T> {
    let mut values = head.fields.all(b"authorization");
    let value = values.next().filter(|_| values.next().is_none())?;
    let mut decoded = Vec::new();
    let credentials = basic_credentials::parse(value, &mut decoded)?;
    let is_possible = credentials.password.len() <= PASSWORD_MAX_BYTES;
    is_possible.then(|| run(&credentials))
}

impl AccessShared {
    /// Looks up whether the password of a request was verified lately.
    pub(super) fn look_up(
        &self,
        rule: &PasswordRule,
        head: &RequestHead<'_>,
        now_ms: u64,
    ) -> PasswordCheck {
        let found = with_credentials(head, |credentials| {
            let BasicCredentials { user, password } = *credentials;
            let digest = self.cache.digest(rule.file.digest(), user, password);
            if self.cache.is_verified(&digest, now_ms) {
                PasswordCheck::Verified(user.into())
            } else {
                PasswordCheck::Unknown
            }
        });
        found.unwrap_or(PasswordCheck::Missing)
    }

    /// Returns whose attempt a request is; `None` without a password.
    fn guesser(&self, request: &WaitingRequest) -> Option<Guesser> {
        let client = ClientPrefix::of(request.client.peer.map(|peer| peer.ip()));
        let user = with_credentials(&request.head.head(), |credentials| {
            self.cache.user_number(credentials.user)
        })?;
        // The number 0 is that of all of them.
        Some((if client == ClientPrefix::Unix { user.max(1) } else { 0 }, client))
    }

    /// Takes the permits of a verification; `None` if too many run already.
    fn take_permits(&self, guesser: Guesser) -> Option<VerificationPermits> {
        let unix = is_unix(guesser)
            .then(|| VerificationPermit::take(&self.unix_verifications, UNIX_VERIFICATIONS_MAX));
        let _unix = match unix {
            Some(permit) => Some(permit?),
            None => None,
        };
        let _any = VerificationPermit::take(&self.verifications, VERIFICATIONS_MAX)?;
        Some(VerificationPermits { _unix, _any })
    }
}

impl AccessGate {
    /// Holds a request until its password is verified, that of the rule `one`.
    ///
    /// # Errors
    /// The client has sent too many wrong passwords, or too much waits. The request is lost.
    pub(crate) fn verify(
        &mut self,
        one: RuleSet,
        request: WaitingRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), GateRefusal> {
        let password = request.rules.of(one).next().and_then(|(_, rule)| rule.password.clone());
        let Some(password) = password else { return Err(GateRefusal::unavailable()) };
        let bytes = request.head.held_bytes();
        let Some(guesser) = self.shared.guesser(&request) else {
            return Err(GateRefusal::unauthorized(&password.challenge));
        };
        self.verifications.check_room(guesser, bytes)?;
        let now_ms = exchange.now().monotonic_ms;
        let job = with_credentials(&request.head.head(), |credentials| {
            self.job_for(&password, credentials, guesser, now_ms)
        });
        let job = job.unwrap_or_else(|| Err(GateRefusal::unauthorized(&password.challenge)))?;
        let waiting = WaitingLogin { request, rule: one, password, guesser, job, bytes };
        self.verifications.hold(exchange.address(), waiting);
        exchange.wait(Some(VERIFICATION_MAX_MS));
        Ok(())
    }

    /// Returns the number of the job that verifies credentials: one that runs already for the same
    /// ones, or a new one.
    fn job_for(
        &mut self,
        rule: &Arc<PasswordRule>,
        credentials: &BasicCredentials<'_>,
        guesser: Guesser,
        now_ms: u64,
    ) -> Result<u64, GateRefusal> {
        let BasicCredentials { user, password } = *credentials;
        let shared = &self.shared;
        let digest = shared.cache.digest(rule.file.digest(), user, password);
        if let Some(number) = self.verifications.job_of(&digest) {
            return Ok(number);
        }
        let running = &self.verifications.running;
        let of_guesser = running.values().filter(|running| running.guesser == guesser);
        if of_guesser.count() >= CLIENT_VERIFICATIONS_MAX {
            return Err(GateRefusal::too_many(1));
        }
        shared.charge_attempt(guesser, now_ms)?;
        let started = shared.take_permits(guesser).and_then(|permits| {
            let guard = CancelOnDrop::default();
            let number = self.verifications.next;
            let decoy = shared.cache.user_number(user);
            let (rule, limits) = (Arc::clone(rule), shared.password_limits);
            let (user, password) = (user.to_owned(), password.to_owned());
            let job = BlockingJob::passwords(user.len() + password.len(), move || {
                let (hash, is_known) = rule.file.hash_for(&user, decoy);
                let is_right = hash.verify(&password, &limits)?;
                Ok(PasswordVerdict(is_right && is_known))
            });
            let owner = JobOwner { number, worker: self.worker, poster: self.poster.clone() };
            shared.jobs.submit(job, &guard, owner).ok()?;
            Some((number, guard, permits))
        });
        let Some((number, guard, permits)) = started else {
            shared.forgive(guesser);
            return Err(GateRefusal::unavailable());
        };
        self.verifications.next += 1;
        let verification = Verification {
            digest,
            guesser,
            user: user.into(),
            requests: Vec::new(),
            _job: guard,
            _permits: permits,
        };
        self.verifications.running.insert(number, verification);
        Ok(number)
    }

    /// Takes a message if it is about a password: returns the requests that continue. Returns other
    /// messages.
    pub(crate) fn posted(
        &mut self,
        message: Message,
        now_ms: u64,
    ) -> Result<Vec<ResumedRequest>, Message> {
        let done = message.downcast::<JobDone<PasswordVerdict>>()?;
        let JobDone { number, result } = *done;
        Ok(self.verifications.finish(number, &result.outcome, &self.shared, now_ms))
    }

    /// Handles an event of an exchange. Returns `None` if its request does not wait, and else the
    /// request, if it waits no longer: because its client has left, or because it takes too long. A
    /// client that ends its side has left, as for requests that are forwarded.
    pub(crate) fn event(
        &mut self,
        event: &Event<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Option<ResumedRequest>> {
        if self.verifications.waiting.is_empty() {
            return None;
        }
        let address = exchange.address();
        if !self.verifications.waiting.contains_key(&address) {
            return None;
        }
        let outcome = match event {
            Event::Deadline => Err(GateRefusal::unavailable()),
            Event::Gone(_) | Event::Refused(_) | Event::InputEnd => Err(GateRefusal::client_left()),
            _ => {
                exchange.wait(Some(VERIFICATION_MAX_MS));
                return Some(None);
            }
        };
        let request = self.verifications.leave(address);
        Some(request.map(|request| ResumedRequest { address, request, outcome }))
    }
}

impl Verifications {
    /// Returns the number of the job that verifies credentials, if one does.
    fn job_of(&self, digest: &CredentialDigest) -> Option<u64> {
        let same = self.running.iter().find(|(_, running)| running.digest == *digest);
        same.map(|(number, _)| *number)
    }

    /// Checks whether a request whose head has so many bytes may wait.
    ///
    /// # Errors
    /// Too much waits, of all clients or of this one.
    fn check_room(&self, guesser: Guesser, bytes: usize) -> Result<(), GateRefusal> {
        let held_bytes = self.waiting_bytes + bytes;
        if self.waiting.len() >= WAITING_MAX || held_bytes > WAITING_MAX_BYTES {
            return Err(GateRefusal::unavailable());
        }
        // Few wait as a rule: a password is verified once in a minute.
        let of_guesser = |waiting: &&WaitingLogin| waiting.guesser == guesser;
        if self.waiting.values().filter(of_guesser).count() >= CLIENT_WAITING_MAX {
            return Err(GateRefusal::too_many(1));
        }
        if is_unix(guesser) {
            let unix = self.waiting.values().filter(|waiting| is_unix(waiting.guesser));
            let (count, unix_bytes) =
                unix.fold((0, bytes), |(count, sum), waiting| (count + 1, sum + waiting.bytes));
            if count >= UNIX_WAITING_MAX || unix_bytes > UNIX_WAITING_MAX_BYTES {
                return Err(GateRefusal::unavailable());
            }
        }
        Ok(())
    }

    /// Holds a request until its job is done.
    fn hold(&mut self, address: Address, waiting: WaitingLogin) {
        if let Some(running) = self.running.get_mut(&waiting.job) {
            running.requests.push(address);
        }
        self.waiting_bytes += waiting.bytes;
        self.waiting.insert(address, waiting);
    }

    /// Takes the outcome of a job. Returns the requests that have waited for it: the password of
    /// each is verified for its own rule, and for no other.
    fn finish(
        &mut self,
        number: u64,
        outcome: &JobOutcome<PasswordVerdict>,
        shared: &AccessShared,
        now_ms: u64,
    ) -> Vec<ResumedRequest> {
        // Without one, all requests that have waited for it have gone.
        let Some(verification) = self.running.remove(&number) else { return Vec::new() };
        let Verification { digest, guesser, user, requests, .. } = verification;
        match outcome {
            Ok(PasswordVerdict(true)) => {
                shared.cache.insert(digest, now_ms);
                shared.forgive(guesser);
            }
            Ok(PasswordVerdict(false)) => {}
            // It is no fault of the client that it could not be verified.
            Err(_) => shared.forgive(guesser),
        }
        let resumed = requests.into_iter().filter_map(|address| {
            let WaitingLogin { mut request, rule, password, .. } = self.forget(address)?;
            let outcome = match outcome {
                Ok(PasswordVerdict(true)) => {
                    request.checked.verified = request.checked.verified.with(rule);
                    request.checked.user = Some(user.clone());
                    Ok(())
                }
                Ok(PasswordVerdict(false)) => Err(GateRefusal::unauthorized(&password.challenge)),
                Err(_) => Err(GateRefusal::unavailable()),
            };
            Some(ResumedRequest { address, request, outcome })
        });
        resumed.collect()
    }

    /// Takes a request that waits no longer.
    fn forget(&mut self, address: Address) -> Option<WaitingLogin> {
        let waiting = self.waiting.remove(&address)?;
        self.waiting_bytes -= waiting.bytes;
        Some(waiting)
    }

    /// Takes a request that goes before its password is verified. Without any request left, that
    /// is not done any more.
    fn leave(&mut self, address: Address) -> Option<WaitingRequest> {
        let job = self.waiting.get(&address)?.job;
        if let Some(running) = self.running.get_mut(&job) {
            running.requests.retain(|waiting| *waiting != address);
            if running.requests.is_empty() {
                self.running.remove(&job);
            }
        }
        self.forget(address).map(|waiting| waiting.request)
    }
}

#[cfg(test)]
mod tests;
