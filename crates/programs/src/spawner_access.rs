//! Gives workers their connections to the spawner.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

use pinion_spawner::spawner_handle::{ControlError, Spawner, Survivors, WorkerConnector};
use pinion_spawner::start_table::StartTable;
use pinion_spawner::worker_connection::SpawnerConnection;

/// Shared access to the spawner of the server, if the server has one. A worker connects to it when
/// the first program of the worker is started. A reload may replace its table; rows that are in use
/// keep their numbers.
#[derive(Clone, Default)]
pub struct SpawnerAccess {
    shared: Option<Arc<SharedSpawner>>,
}

/// The state that all clones share.
struct SharedSpawner {
    /// The connector that workers use, which never waits. Workers never take the lock of the
    /// spawner, which a reload holds until the spawner has answered.
    connector: WorkerConnector,
    /// The process ID of the spawner, kept also after its end.
    pid: Pid,
    /// The spawner; `None` once it was stopped, or has ended and its remaining processes were
    /// cleaned up.
    spawner: Mutex<Option<Spawner>>,
    /// The generation of the table that is in use.
    generation: AtomicU32,
}

/// The unexpected end of a spawner.
#[derive(Debug)]
pub struct UnexpectedEnd {
    /// The number of the signal that has ended it, if one has.
    pub signal: Option<i32>,
    /// Processes of programs that could not be killed, if there are any.
    pub survivors: Option<Survivors>,
}

impl SpawnerAccess {
    /// Shares a spawner.
    #[must_use]
    pub fn new(spawner: Spawner) -> Self {
        let shared = SharedSpawner {
            connector: spawner.connector(),
            pid: spawner.pid(),
            generation: AtomicU32::new(spawner.generation()),
            spawner: Mutex::new(Some(spawner)),
        };
        Self { shared: Some(Arc::new(shared)) }
    }

    /// Returns whether the server has a spawner.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns whether the spawner has ended. It never waits.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.connector.has_ended())
    }

    /// Returns the process ID of the spawner; `None` once it has ended. It never waits.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        let shared = self.shared.as_ref()?;
        (!shared.connector.has_ended()).then_some(shared.pid)
    }

    /// Returns the generation of the table that is in use.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.shared.as_ref().map_or(0, |shared| shared.generation.load(Ordering::Acquire))
    }

    /// Opens a connection for a worker. This function never waits.
    ///
    /// # Errors
    /// The spawner has ended or is busy, or the process has no free descriptor.
    pub fn connect(&self) -> Result<SpawnerConnection, ControlError> {
        self.shared.as_ref().ok_or(ControlError::Gone)?.connector.connect()
    }

    /// Replaces the table. The caller must give a row with which a program may still be started the
    /// number that it had before.
    ///
    /// # Errors
    /// The table is invalid, or the spawner does not accept it or has ended. The previous table
    /// stays in use.
    pub fn replace_table(&self, table: &StartTable) -> Result<(), ControlError> {
        let shared = self.shared.as_ref().ok_or(ControlError::Gone)?;
        let mut spawner = shared.lock();
        let generation = spawner.as_mut().ok_or(ControlError::Gone)?.replace_table(table)?;
        shared.generation.store(generation, Ordering::Release);
        Ok(())
    }

    /// Takes the spawner out of this value in order to stop it. Workers cannot connect any more
    /// once it has stopped.
    #[must_use]
    pub fn take_spawner(&self) -> Option<Spawner> {
        self.shared.as_ref()?.lock().take()
    }

    /// Waits until the spawner has ended. If it was not [taken](Self::take_spawner) in order to be
    /// stopped, kills the remaining processes of its programs and returns the end of the spawner.
    #[must_use]
    pub fn clean_up_after_end(&self) -> Option<UnexpectedEnd> {
        let shared = self.shared.as_ref()?;
        shared.connector.wait_for_end();
        // A server that stops waits for this lock, and so waits until no process is left.
        let mut lock = shared.lock();
        let mut spawner = lock.take()?;
        let signal = spawner.ending_signal();
        let survivors = spawner.kill_descendants().err();
        Some(UnexpectedEnd { signal, survivors })
    }
}

impl SharedSpawner {
    fn lock(&self) -> MutexGuard<'_, Option<Spawner>> {
        self.spawner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SpawnerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnerAccess").field("is_there", &self.is_there()).finish()
    }
}
