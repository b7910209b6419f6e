//! The state that successive scripts of a site share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::copied_value::CopiedValue;
use crate::external_programs::Programs;
use crate::fetch_client::FetchSettings;
use crate::persisted_values::KeptValues;
use crate::script_memory_limits::ScriptMemory;
use crate::secrets::Secrets;
use crate::site_counters::SiteCounters;
use crate::store_access::ScriptStoreChoice;

/// A site, independent of its current script. Each call of [`Default`] makes another site, and
/// copies are the same one.
#[derive(Clone, Default)]
pub struct ScriptSite {
    /// The values that its scripts keep, by worker.
    workers: Shared<HashMap<u16, Shared<KeptValues>>>,
    /// The secret of the site, random bytes, made when they are first requested.
    secret: Arc<OnceLock<[u8; SECRET_BYTES]>>,
    /// The counters of its scripts, in all workers.
    counters: Arc<SiteCounters>,
    number: SiteNumber,
    /// The servers that its scripts may send requests to.
    fetch_settings: FetchSettings,
    secrets: Secrets,
    /// The programs that its scripts may run.
    programs: Programs,
    /// The memory that its scripts may take, once a worker has started one.
    memory: Arc<OnceLock<ScriptMemory>>,
}

/// A number that no other site of this process has.
#[derive(Clone)]
struct SiteNumber(u64);

impl Default for SiteNumber {
    fn default() -> Self {
        static SITES: AtomicU64 = AtomicU64::new(0);
        Self(SITES.fetch_add(1, Ordering::Relaxed))
    }
}

/// The length of the secret: as strong as the keys that are derived from it.
const SECRET_BYTES: usize = 32;

/// A value that several threads share.
type Shared<T> = Arc<Mutex<T>>;

/// A site in one worker.
#[derive(Clone, Default)]
pub(crate) struct WorkerSite {
    pub(crate) site: ScriptSite,
    /// The values that the site keeps in this worker; only a proof reads them from another thread.
    kept: Shared<KeptValues>,
    /// The memory that its scripts may take.
    memory: ScriptMemory,
    store: ScriptStoreChoice,
}

impl ScriptSite {
    /// Returns the site in a worker, with the values that its scripts have kept there.
    pub(crate) fn in_worker(
        &self,
        worker: u16,
        memory: ScriptMemory,
        store: ScriptStoreChoice,
    ) -> WorkerSite {
        let kept = Arc::clone(lock(&self.workers).entry(worker).or_default());
        let _first = self.memory.set(memory);
        WorkerSite { site: self.clone(), kept, memory, store }
    }

    /// Returns the site in a worker for a proof: with a copy of the kept values of the worker that
    /// has most, and of the counters, and an empty store.
    pub(crate) fn as_in_a_worker(&self) -> WorkerSite {
        let workers = lock(&self.workers);
        let most = workers.values().max_by_key(|kept| lock(kept).bytes());
        let copy = most.map(|kept| lock(kept).clone()).unwrap_or_default();
        let site = Self { counters: Arc::new(self.counters.copy()), ..self.clone() };
        let memory = self.memory.get().copied().unwrap_or_default();
        let store = ScriptStoreChoice::Trial;
        WorkerSite { site, kept: Arc::new(Mutex::new(copy)), memory, store }
    }
}

impl ScriptSite {
    /// Returns a secret that only the scripts of this site know, the same in all workers until the
    /// server ends; none if the system gives no random bytes.
    pub(crate) fn secret(&self) -> Option<[u8; SECRET_BYTES]> {
        if let Some(secret) = self.secret.get() {
            return Some(*secret);
        }
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).ok()?;
        // If workers request it at the same time, the first value counts.
        Some(*self.secret.get_or_init(|| secret))
    }
}

impl ScriptSite {
    /// Returns the same site with these settings for requests to other servers, and these secrets.
    #[must_use]
    pub fn with_access(&self, fetch_settings: FetchSettings, secrets: Secrets) -> Self {
        Self { fetch_settings, secrets, ..self.clone() }
    }

    /// Returns the same site with the programs that its scripts may run.
    #[must_use]
    pub fn with_programs(&self, programs: Programs) -> Self {
        Self { programs, ..self.clone() }
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(crate) fn fetch_settings(&self) -> &FetchSettings {
        &self.fetch_settings
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the number of the site.
    pub(crate) fn number(&self) -> u64 {
        self.number.0
    }

    /// Returns the counters of its scripts, in all workers.
    pub(crate) fn counters(&self) -> &SiteCounters {
        &self.counters
    }
}

impl WorkerSite {
    /// Returns the store of its scripts.
    pub(crate) fn store(&self) -> &ScriptStoreChoice {
        &self.store
    }

    /// Returns the memory that its scripts may take.
    pub(crate) fn memory(&self) -> &ScriptMemory {
        &self.memory
    }

    /// Keeps a value in place of the previous one of that name.
    ///
    /// # Errors
    /// Fails when there is too much already.
    pub(crate) fn keep(&self, name: &str, value: CopiedValue) -> Result<(), String> {
        self.kept().set(name, value, self.memory.kept_bytes)
    }

    /// Returns the values that its scripts keep.
    pub(crate) fn kept(&self) -> MutexGuard<'_, KeptValues> {
        lock(&self.kept)
    }
}

/// Locks a mutex whose values are always whole, even if a thread has panicked.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartialEq for ScriptSite {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.workers, &other.workers)
    }
}

impl fmt::Debug for ScriptSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Site")
    }
}
