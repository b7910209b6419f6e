//! Name resolution: host names become addresses, without a worker that waits.
//!
//! [`Resolver`] has a thread of its own, which starts with the first name that needs it. It reads
//! the hosts file and asks the name servers of resolv.conf itself, so that it works in a static
//! program, where the C library cannot load its modules. Both families are asked for at the same
//! time, and each is reported when it is known ([`crate::happy_eyeballs`] begins with the first).
//!
//! | Module | Task |
//! |---|---|
//! | `system_config` | resolv.conf and the hosts file, and their changes |
//! | `hosts_file` | the names of the hosts file |
//! | `name_cache` | addresses that are kept for their time to live |
//! | `lookup` | the questions for one name |
//! | `pending` | names that are being looked up, and who waits for them |

mod hosts_file;
mod lookup;
mod name_cache;
mod pending;
mod system_config;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::happy_eyeballs::AddressFamily;
use crate::limits::{
    CONFIG_CHECK_MS, LOOKUP_TIMEOUT_MS, LOOKUP_WAITERS_MAX, LOOKUPS_AT_ONCE_MAX, LOOKUPS_MAX,
};
use crate::target::HostName;
use lookup::look_up;
use name_cache::{FamilyAnswer, NameAnswers, NameCache};
use pending::{LookupWaiter, PendingLookups};
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

/// Is called once for each family, with its addresses or the reason why there are none.
pub type ResolveCallback = Box<dyn FnMut(AddressFamily, Result<Resolved, ResolveError>) + Send>;

/// Why a name has no addresses of a family.
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
    /// No name server has answered in time.
    #[error("no name server has answered for {name} within {waited_ms} ms")]
    NoAnswer {
        /// The name that was looked up.
        name: String,
        /// How long the answer was waited for.
        waited_ms: u64,
    },
    /// The name servers cannot be reached, or their responses cannot be read.
    #[error("the name servers cannot be used to resolve {name}: {reason}")]
    Unusable {
        /// The name that was looked up.
        name: String,
        /// What has failed.
        reason: String,
    },
    /// Too many names are looked up already.
    #[error("too many names are being looked up (at most {0}); try again later")]
    TooManyLookups(usize),
    /// The resolver was dropped, or has failed, before the answer was known.
    #[error("the lookup of {0} was stopped")]
    Stopped(String),
    /// The thread of the resolver cannot be started.
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
    /// See [`LOOKUP_TIMEOUT_MS`].
    pub timeout_ms: u64,
    /// See [`LOOKUPS_MAX`].
    pub lookups_max: usize,
    /// See [`CONFIG_CHECK_MS`].
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

/// Resolves names. See the head of the module. Clones share the thread and the cache; the thread
/// ends when all of them are dropped.
#[derive(Clone)]
pub struct Resolver {
    shared: Arc<ResolverShared>,
}

/// What callers and the thread share.
struct ResolverShared {
    settings: ResolverSettings,
    started: Instant,
    state: Mutex<ResolverState>,
}

struct ResolverState {
    cache: NameCache,
    pending: PendingLookups,
    /// To the thread, once it has started.
    names: Option<UnboundedSender<HostName>>,
}

impl Resolver {
    /// Makes a resolver. Nothing is read and no thread is started yet.
    #[must_use]
    pub fn new(settings: ResolverSettings) -> Self {
        let state = ResolverState {
            cache: NameCache::default(),
            pending: PendingLookups::default(),
            names: None,
        };
        let shared = ResolverShared { settings, started: Instant::now(), state: Mutex::new(state) };
        Self { shared: Arc::new(shared) }
    }

    /// Looks up the addresses of a name. The callback is called exactly once for each family:
    /// before this function returns if the result is known, else on the thread of the resolver. It
    /// must not block. No lock is held meanwhile, so it may call this function.
    ///
    /// Names that are being looked up already are not asked for again. `localhost` and names below
    /// it are always the loopback addresses (RFC 6761 §6.3).
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
        if is_new && let Err(error) = self.send(&mut state, name) {
            drop(state);
            return waiter.fail(&error);
        }
        state.pending.add(name, waiter);
    }

    /// Gives a name to the thread, which is started if it does not run.
    fn send(&self, state: &mut ResolverState, name: &HostName) -> Result<(), ResolveError> {
        let is_sent = |names: &UnboundedSender<HostName>| names.send(name.clone()).is_ok();
        if state.names.as_ref().is_some_and(is_sent) {
            return Ok(());
        }
        let (sender, receiver) = unbounded_channel();
        let shared = Arc::downgrade(&self.shared);
        let builder = thread::Builder::new().name("resolver".to_owned());
        let spawned = builder.spawn(move || run(&shared, receiver));
        spawned.map_err(|error| ResolveError::Thread(error.to_string()))?;
        // The thread holds the other end, so the name arrives.
        let _ = sender.send(name.clone());
        state.names = Some(sender);
        Ok(())
    }
}

impl ResolverShared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, ResolverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the answer for one family to all who wait for the name.
    fn deliver(&self, name: &HostName, family: AddressFamily, answer: &FamilyAnswer) {
        let waiting = self.lock().pending.take_waiters(name, family, answer);
        let Some((mut waiters, answers)) = waiting else { return };
        waiters.iter_mut().for_each(|waiter| waiter.deliver(&answers));
        self.lock().pending.put_waiters(name, waiters);
    }

    /// Ends the lookup of a name. The answers of both families, if they are known, are kept, and go
    /// to those who have come after the last delivery.
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

/// Ends the lookup of a name when it is dropped, also by a panic.
struct LookupGuard {
    shared: Weak<ResolverShared>,
    name: HostName,
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.finish(&self.name);
        }
    }
}

/// The thread: begins a task for each name, until the last [`Resolver`] is dropped.
fn run(shared: &Weak<ResolverShared>, mut names: UnboundedReceiver<HostName>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail_all(shared, &mut names, &error.to_string()),
    };
    runtime.block_on(async {
        let permits = Arc::new(Semaphore::new(LOOKUPS_AT_ONCE_MAX));
        let mut config = SystemConfig::default();
        while let Some(name) = names.recv().await {
            let Some(now) = shared.upgrade() else { break };
            let (client, has_changed) = config.client(&now.settings, now.now_ms());
            if has_changed {
                now.lock().cache.clear();
            }
            let timeout_ms = now.settings.timeout_ms;
            let guard = LookupGuard { shared: Weak::clone(shared), name };
            let permits = Arc::clone(&permits);
            tokio::spawn(async move {
                let deliver = |family, answer: &FamilyAnswer| {
                    if let Some(shared) = guard.shared.upgrade() {
                        shared.deliver(&guard.name, family, answer);
                    }
                };
                look_up(&client, &permits, &guard.name, timeout_ms, deliver).await;
            });
        }
    });
}

/// Answers the names that the thread has been given, when it cannot do its work.
fn fail_all(shared: &Weak<ResolverShared>, names: &mut UnboundedReceiver<HostName>, reason: &str) {
    names.close();
    while let Some(name) = names.blocking_recv() {
        let guard = LookupGuard { shared: Weak::clone(shared), name };
        let error = ResolveError::Thread(reason.to_owned());
        let answer = FamilyAnswer { result: Err(error), ttl_seconds: 0 };
        if let Some(shared) = shared.upgrade() {
            shared.deliver(&guard.name, AddressFamily::Ipv4, &answer);
            shared.deliver(&guard.name, AddressFamily::Ipv6, &answer);
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
