//! Name resolution: host names become addresses, without a worker that waits.
//!
//! A lookup is a task of a [`TaskThread`], which starts with the first name that needs it. It reads
//! the hosts file and asks the name servers of resolv.conf itself, so that it works in a static
//! program, where the C library cannot load its modules. Both families are queried at the same
//! time, and each is reported when it is known ([`crate::happy_eyeballs`] begins with the first).
//!
//! | Module | Task |
//! |---|---|
//! | `system_config` | resolv.conf and the hosts file, and their changes |
//! | `hosts_file` | the names of the hosts file |
//! | `name_cache` | addresses that are kept for their time to live |
//! | `lookup` | the DNS queries for one name |
//! | `pending_lookups` | names that are being looked up, and their waiting callers |

mod hosts_file;
mod lookup;
mod name_cache;
mod pending_lookups;
mod system_config;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use pinion_jobs::async_thread::{
    TaskError, TaskEvent, TaskGuard, TaskLimits, TaskOutput, TaskReceiver, TaskThread,
};
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::connect_target::HostName;
use crate::happy_eyeballs::AddressFamily;
use crate::limits::{
    CONFIG_CHECK_MS, LOOKUP_TIMEOUT_MS, LOOKUP_WAITERS_MAX, LOOKUPS_AT_ONCE_MAX, LOOKUPS_MAX,
};
use lookup::{DnsClient, LookupAnswer, look_up};
use name_cache::{FamilyAnswer, NameAnswers, NameCache};
use pending_lookups::{LookupWaiter, PendingLookups};
use system_config::SystemConfig;

/// The addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// At least one address, in the order of the response; the order rotates with each use of a
    /// kept response.
    pub addresses: Vec<IpAddr>,
    /// The remaining time to live.
    pub ttl_seconds: u32,
}

/// A function that is called once for each family, with its addresses or the reason why there are
/// none.
pub type ResolveCallback = Box<dyn FnMut(AddressFamily, Result<Resolved, ResolveError>) + Send>;

/// The reason why a name has no addresses of a family.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// The name does not exist (RFC 1035 §4.1.1, NXDOMAIN).
    #[error("the name {0} does not exist")]
    NoSuchName(String),
    /// The name has no addresses of this family.
    #[error("the name {0} has no {1} address")]
    NoAddress(String, AddressFamily),
    /// A name server has reported an error, such as SERVFAIL or REFUSED.
    #[error("the name server cannot resolve {name}: {code}")]
    ServerFailure {
        /// The name that was looked up.
        name: String,
        /// The response code, in words.
        code: String,
    },
    /// No name server has responded in time.
    #[error("no name server has answered for {name} within {waited_ms} ms")]
    NoAnswer {
        /// The name that was looked up.
        name: String,
        /// The time waited for a response, in milliseconds.
        waited_ms: u64,
    },
    /// The name servers cannot be reached, or their responses cannot be read.
    #[error("the name servers cannot be used to resolve {name}: {reason}")]
    Unusable {
        /// The name that was looked up.
        name: String,
        /// The reason of the failure.
        reason: String,
    },
    /// Too many names are looked up already.
    #[error("too many names are being looked up (at most {0}); try again later")]
    TooManyLookups(usize),
    /// The resolver was dropped, or has failed, before the result was known.
    #[error("the lookup of {0} was stopped")]
    Stopped(String),
    /// The thread for the lookup cannot be started.
    #[error("the resolver cannot be started: {0}")]
    Thread(String),
}

/// Settings of a [`Resolver`].
#[derive(Clone, Debug)]
pub struct ResolverSettings {
    /// The file with name servers and search domains (resolv.conf(5)). Without it, this machine is
    /// asked.
    pub resolv_conf: PathBuf,
    /// The file with names and addresses (hosts(5)). It takes precedence over name servers.
    pub hosts: PathBuf,
    /// Name servers to ask instead of those of resolv.conf.
    pub name_servers: Vec<SocketAddr>,
    /// The time limit of a lookup; see [`LOOKUP_TIMEOUT_MS`].
    pub timeout_ms: u64,
    /// The maximum number of names that wait; see [`LOOKUPS_MAX`].
    pub lookups_max: usize,
    /// The interval of checks of the files; see [`CONFIG_CHECK_MS`].
    pub config_check_ms: u64,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self {
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            hosts: PathBuf::from("/etc/hosts"),
            name_servers: Vec::new(),
            timeout_ms: LOOKUP_TIMEOUT_MS,
            lookups_max: LOOKUPS_MAX,
            config_check_ms: CONFIG_CHECK_MS,
        }
    }
}

/// A resolver of names. Clones share the cache. The lookups end when all clones are dropped.
#[derive(Clone)]
pub struct Resolver {
    shared: Arc<ResolverShared>,
}

/// The shared state of callers and lookups.
struct ResolverShared {
    settings: ResolverSettings,
    started: Instant,
    state: Mutex<ResolverState>,
    /// The client of the name servers. Only lookups use it, because it needs the runtime of the
    /// thread.
    config: Mutex<SystemConfig>,
    /// A permit for each lookup that may ask name servers.
    permits: Arc<Semaphore>,
    tasks: TaskThread,
}

struct ResolverState {
    cache: NameCache,
    pending: PendingLookups,
}

impl Resolver {
    /// Creates a resolver with a thread of its own. Nothing is read and no thread is started yet.
    #[must_use]
    pub fn new(settings: ResolverSettings) -> Self {
        Self::with_thread(settings, &TaskThread::default())
    }

    /// Creates a resolver whose lookups are tasks of this thread, which it may share with other
    /// libraries. Nothing is read and no thread is started yet.
    #[must_use]
    pub fn with_thread(settings: ResolverSettings, tasks: &TaskThread) -> Self {
        let state =
            ResolverState { cache: NameCache::default(), pending: PendingLookups::default() };
        let shared = ResolverShared {
            settings,
            started: Instant::now(),
            state: Mutex::new(state),
            config: Mutex::default(),
            permits: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE_MAX)),
            tasks: tasks.with_limits(TaskLimits::default()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Looks up the addresses of a name. The callback is called exactly once for each family:
    /// before this function returns if the result is known, else on the thread of the lookups. It
    /// must not block. No lock of the resolver is held meanwhile, so it may call this function.
    ///
    /// Names that are already being looked up are not queried again. `localhost` and names below it
    /// are always the loopback addresses (RFC 6761 §6.3).
    pub fn resolve(&self, name: &HostName, callback: ResolveCallback) {
        let mut waiter = LookupWaiter::new(name, callback);
        if name.is_localhost() {
            return waiter.deliver_all(&loopback());
        }
        let now_ms = self.shared.now_ms();
        let mut state = self.shared.lock();
        if let Some(answers) = state.cache.get(name, now_ms) {
            drop(state);
            return waiter.deliver_all(&answers);
        }
        let max = self.shared.settings.lookups_max;
        let is_new = !state.pending.contains(name);
        let is_full = is_new && state.pending.names() >= max;
        if is_full || state.pending.waiters() >= LOOKUP_WAITERS_MAX {
            drop(state);
            return waiter.fail(&ResolveError::TooManyLookups(max));
        }
        let lookup = state.pending.add(name, waiter);
        drop(state);
        if is_new {
            match self.start_lookup(name) {
                Ok(guard) => self.shared.lock().pending.set_guard(name, lookup, guard),
                Err(error) => self.shared.fail(name, &error),
            }
        }
    }

    fn start_lookup(&self, name: &HostName) -> Result<TaskGuard, ResolveError> {
        let shared = Arc::downgrade(&self.shared);
        let permits = Arc::clone(&self.shared.permits);
        let timeout_ms = self.shared.settings.timeout_ms;
        let (of_lookup, asked) = (Weak::clone(&shared), name.clone());
        let lookup = move |mut output: TaskOutput<LookupAnswer>| async move {
            let guard = LookupGuard { shared: of_lookup, name: asked };
            if let Some(client) = guard.client() {
                look_up(&client, &permits, &guard.name, timeout_ms, &mut output).await;
            }
            Ok(())
        };
        let looked_up = name.clone();
        let callback = move |event| {
            if let (TaskEvent::Result(result), Some(shared)) = (event, shared.upgrade()) {
                let LookupAnswer { family, answer } = &result.value;
                shared.deliver(&looked_up, *family, answer);
            }
        };
        let receiver = TaskReceiver::Callback(Box::new(callback));
        self.shared.tasks.spawn(lookup, receiver).map_err(|error| match error {
            TaskError::TooMany(max) => ResolveError::TooManyLookups(max),
            TaskError::Start(reason) => ResolveError::Thread(reason),
        })
    }
}

impl ResolverShared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, ResolverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the result for one family to all callers that wait for the name.
    fn deliver(&self, name: &HostName, family: AddressFamily, answer: &FamilyAnswer) {
        let waiting = self.lock().pending.take_waiters(name, family, answer);
        let Some((mut waiters, answers)) = waiting else { return };
        waiters.iter_mut().for_each(|waiter| waiter.deliver(&answers));
        self.lock().pending.put_waiters(name, waiters);
    }

    /// Ends the lookup of a name that could not be started.
    fn fail(&self, name: &HostName, error: &ResolveError) {
        let removed = self.lock().pending.remove(name);
        let waiters = removed.map(|(waiters, _)| waiters).unwrap_or_default();
        waiters.into_iter().for_each(|mut waiter| waiter.fail(error));
    }

    /// Ends the lookup of a name. The results of both families, if they are known, are kept, and go
    /// to the callers that have come after the last delivery.
    fn finish(&self, name: &HostName) {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let Some((mut waiters, answers)) = state.pending.remove(name) else { return };
        if let [Some(ipv4), Some(ipv6)] = &answers {
            let answers = NameAnswers { ipv4: ipv4.clone(), ipv6: ipv6.clone() };
            state.cache.insert(name, answers, now_ms);
        }
        drop(state);
        waiters.iter_mut().for_each(|waiter| waiter.deliver(&answers));
    }
}

/// A guard that ends the lookup of a name when it is dropped, also by a panic.
struct LookupGuard {
    shared: Weak<ResolverShared>,
    name: HostName,
}

impl LookupGuard {
    /// Returns the client for the present files, unless the resolver is dropped.
    fn client(&self) -> Option<Arc<DnsClient>> {
        let shared = self.shared.upgrade()?;
        let mut config = shared.config.lock().unwrap_or_else(PoisonError::into_inner);
        let (client, has_changed) = config.client(&shared.settings, shared.now_ms());
        drop(config);
        if has_changed {
            shared.lock().cache.clear();
        }
        Some(client)
    }
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.finish(&self.name);
        }
    }
}

/// Returns the addresses of `localhost`.
fn loopback() -> NameAnswers {
    let answer = |address: IpAddr| FamilyAnswer {
        result: Ok(vec![address]),
        ttl_seconds: crate::limits::TTL_MAX_SECONDS,
    };
    NameAnswers {
        ipv4: answer(Ipv4Addr::LOCALHOST.into()),
        ipv6: answer(Ipv6Addr::LOCALHOST.into()),
    }
}
