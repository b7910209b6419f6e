//! The registry of all clients of a store, for `CLIENT LIST` and `CLIENT KILL`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The registry of all clients of a store.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    last_id: AtomicU64,
    /// The bytes of memory that all incomplete and waiting commands occupy.
    memory_bytes: AtomicUsize,
    /// The number of clients that were closed because of that memory.
    evicted: AtomicU64,
}

/// The data of a client that other clients can see.
#[derive(Debug)]
pub(crate) struct ClientInfo {
    pub(crate) id: u64,
    /// The address of the client as text, or the path of the socket for a Unix socket.
    pub(crate) address: Box<str>,
    connected_ms: u64,
    last_command_ms: AtomicU64,
    last_command: Mutex<&'static str>,
    pub(crate) database: AtomicUsize,
    /// The bytes of memory that the incomplete and queued commands of the client occupy, if they
    /// are many.
    memory_bytes: AtomicUsize,
    /// The bytes of memory of the job of the client. The job can end after the client has
    /// disconnected.
    job_bytes: AtomicUsize,
    is_killed: AtomicBool,
    is_resp3: AtomicBool,
    names: Mutex<ClientNames>,
    wake: OnceLock<Wake>,
}

/// A function that closes the connection of a client.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// The names that a client has set for itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientNames {
    /// The name of the connection, set by `CLIENT SETNAME`.
    pub(crate) name: String,
    /// The name of the client library, set by `CLIENT SETINFO LIB-NAME`.
    pub(crate) library: String,
    /// The version of the client library, set by `CLIENT SETINFO LIB-VER`.
    pub(crate) library_version: String,
}

impl Clients {
    /// Adds a client that has connected from an address.
    pub(crate) fn add(&self, address: &str, now_ms: u64) -> Arc<ClientInfo> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let info = Arc::new(ClientInfo::new(id, address, now_ms));
        self.lock().insert(id, Arc::clone(&info));
        info
    }

    pub(crate) fn remove(&self, id: u64) {
        let removed = self.lock().remove(&id);
        if let Some(info) = removed {
            // The client may be evicted at the same time. Then the second of both has nothing to
            // subtract.
            self.set_memory(&info, 0);
        }
    }

    /// Sets the bytes of memory that the incomplete and queued commands of a client occupy.
    pub(crate) fn set_memory(&self, info: &ClientInfo, bytes: usize) {
        self.count(&info.memory_bytes, bytes);
    }

    /// Sets the bytes of memory that the job of a client occupies. The value is 0 when the job has
    /// ended, whether or not the client is still connected.
    pub(crate) fn set_job_memory(&self, info: &ClientInfo, bytes: usize) {
        self.count(&info.job_bytes, bytes);
    }

    /// Sets one part of the bytes of all clients, and adjusts the total.
    fn count(&self, part: &AtomicUsize, bytes: usize) {
        let before = part.swap(bytes, Ordering::Relaxed);
        self.memory_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Returns the bytes of memory that all incomplete and waiting commands occupy.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Kills the client whose commands occupy the most memory, if those of all clients occupy more
    /// than `max_bytes`. Redis does the same (`maxmemory-clients`). If the jobs of disconnected
    /// clients occupy too much, only the client that has just sent more, `growing`, is closed.
    pub(crate) fn evict(&self, growing: &Arc<ClientInfo>, max_bytes: usize) {
        if max_bytes == 0 || self.memory_bytes() <= max_bytes {
            return;
        }
        let clients: Vec<_> = self.all().into_iter().filter(|info| !info.is_killed()).collect();
        let present_bytes: usize = clients.iter().map(|info| info.memory_bytes()).sum();
        let largest = clients.iter().max_by_key(|info| info.memory_bytes());
        let killed = largest.filter(|_| present_bytes > max_bytes).unwrap_or(growing);
        self.evicted.fetch_add(1, Ordering::Relaxed);
        // This memory will be free in a moment; that of the job will be free when the job has
        // ended.
        self.set_memory(killed, 0);
        killed.kill();
    }

    /// Returns the number of clients that were killed because of the memory of all clients.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Returns all clients, the oldest one first.
    pub(crate) fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.lock().values().cloned().collect()
    }

    /// Returns the number of clients.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns the number of clients that have ever connected.
    pub(crate) fn total(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientInfo>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientInfo {
    fn memory_bytes(&self) -> usize {
        let parts = [&self.memory_bytes, &self.job_bytes];
        parts.into_iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }

    fn new(id: u64, address: &str, now_ms: u64) -> Self {
        Self {
            id,
            address: address.into(),
            connected_ms: now_ms,
            last_command_ms: AtomicU64::new(now_ms),
            last_command: Mutex::new("NULL"),
            database: AtomicUsize::new(0),
            memory_bytes: AtomicUsize::new(0),
            job_bytes: AtomicUsize::new(0),
            is_killed: AtomicBool::new(false),
            is_resp3: AtomicBool::new(false),
            names: Mutex::default(),
            wake: OnceLock::new(),
        }
    }

    /// Returns a client that other clients do not see.
    pub(crate) fn unlisted(address: &str, now_ms: u64) -> Arc<Self> {
        Arc::new(Self::new(0, address, now_ms))
    }

    pub(crate) fn names(&self) -> ClientNames {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_names(&self, set: impl FnOnce(&mut ClientNames)) {
        set(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records the last command of the client and its time.
    pub(crate) fn used(&self, command: &'static str, now_ms: u64) {
        self.last_command_ms.store(now_ms, Ordering::Relaxed);
        *self.last_command.lock().unwrap_or_else(PoisonError::into_inner) = command;
    }

    pub(crate) fn set_resp3(&self, is_resp3: bool) {
        self.is_resp3.store(is_resp3, Ordering::Relaxed);
    }

    /// Sets the function that is called when the client is killed. Only the first function that is
    /// set counts.
    pub(crate) fn on_kill(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.wake.get_or_init(|| Wake(wake));
    }

    /// Kills the client. Its connection is closed, at the latest when the client sends data.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
        if let Some(Wake(wake)) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// Returns the line of the client for `CLIENT LIST`.
    pub(crate) fn line(&self, now_ms: u64) -> String {
        let ClientNames { name, library, library_version } = self.names();
        let age = now_ms.saturating_sub(self.connected_ms) / 1000;
        let idle = now_ms.saturating_sub(self.last_command_ms.load(Ordering::Relaxed)) / 1000;
        let command = *self.last_command.lock().unwrap_or_else(PoisonError::into_inner);
        format!(
            "id={} addr={} laddr= fd=0 name={name} age={age} idle={idle} flags=N db={} sub=0 \
             psub=0 ssub=0 multi=-1 watch=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 \
             obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={command} user=default redir=-1 resp={} \
             lib-name={library} lib-ver={library_version}\n",
            self.id,
            self.address,
            self.database.load(Ordering::Relaxed),
            if self.is_resp3.load(Ordering::Relaxed) { 3 } else { 2 },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Memory(usize),
        JobMemory(usize),
        Evict,
        Leave,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..1000_usize).prop_map(Step::Memory),
            (0..1000_usize).prop_map(Step::JobMemory),
            Just(Step::Evict),
            Just(Step::Leave),
        ]
    }

    proptest! {
        /// Memory that was not counted is never subtracted, however often the memory of a client is
        /// released, and in any order with its eviction and its end.
        #[test]
        fn the_total_memory_is_the_sum_over_all_clients(
            steps in prop::collection::vec((0..3_usize, step()), 0..40),
        ) {
            let all = Clients::default();
            let infos = ["a", "b", "c"].map(|address| all.add(address, 0));
            for (index, step) in steps {
                let info = &infos[index];
                match step {
                    Step::Memory(bytes) => all.set_memory(info, bytes),
                    Step::JobMemory(bytes) => all.set_job_memory(info, bytes),
                    Step::Evict => all.evict(info, 500),
                    Step::Leave => all.remove(info.id),
                }
                let sum: usize = infos.iter().map(|info| info.memory_bytes()).sum();
                prop_assert_eq!(all.memory_bytes(), sum);
            }
            for info in &infos {
                all.remove(info.id);
                all.set_memory(info, 0);
                all.set_job_memory(info, 0);
            }
            prop_assert_eq!(all.memory_bytes(), 0);
        }
    }

    #[test]
    fn the_client_with_the_most_memory_is_evicted() {
        let all = Clients::default();
        let [few, most, job] = ["few", "most", "job"].map(|address| all.add(address, 0));
        all.set_memory(&few, 100);
        all.set_memory(&most, 300);
        all.set_job_memory(&job, 200);
        all.evict(&few, 600);
        assert_eq!(all.evicted(), 0);
        all.evict(&few, 599);
        assert!(most.is_killed() && !few.is_killed() && !job.is_killed());
        all.evict(&few, 299);
        assert!(job.is_killed() && !few.is_killed());
        // The job of the client still runs.
        assert_eq!(all.memory_bytes(), 300);
        all.remove(job.id);
        assert_eq!(all.memory_bytes(), 300);
        let other = all.add("other", 0);
        all.evict(&other, 299);
        assert!(other.is_killed() && !few.is_killed());
        all.set_job_memory(&job, 0);
        assert_eq!(all.memory_bytes(), 100);
    }
}
