//! Where workers get their connections to the spawner from.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

use pinion_spawner::connection::SpawnerConnection;
use pinion_spawner::spawner::{ControlError, Spawner, Survivors, WorkerConnector};
use pinion_spawner::start_table::StartTable;

/// The spawner of the server, if it has one. Workers connect to it when their first program is to
/// run. A reload may replace its table; rows that are in use keep their numbers.
#[derive(Clone, Default)]
pub struct SpawnerAccess {
    shared: Option<Arc<SharedSpawner>>,
}

/// What all copies share.
struct SharedSpawner {
    /// What workers use: it never waits. They never take the lock of the spawner, which a reload
    /// holds until the spawner has answered.
    connector: WorkerConnector,
    /// Of the spawner, also after its end.
    pid: Pid,
    /// `None` once the spawner was stopped, or has ended and was cleaned up after.
    spawner: Mutex<Option<Spawner>>,
    /// The generation of the table that is in use.
    generation: AtomicU32,
}

/// How a spawner has ended that was not asked to.
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

    /// Connects a worker. It never waits.
    ///
    /// # Errors
    /// There is no spawner any more, it is busy, or there is no descriptor.
    pub fn connect(&self) -> Result<SpawnerConnection, ControlError> {
        self.shared.as_ref().ok_or(ControlError::Gone)?.connector.connect()
    }

    /// Puts another table into use. A row that a program may still be started with has the number
    /// that it had before.
    ///
    /// # Errors
    /// The table is wrong, or the spawner does not accept it or has ended. The previous one stays
    /// in use.
    pub fn replace_table(&self, table: &StartTable) -> Result<(), ControlError> {
        let shared = self.shared.as_ref().ok_or(ControlError::Gone)?;
        let mut spawner = shared.lock();
        let generation = spawner.as_mut().ok_or(ControlError::Gone)?.replace_table(table)?;
        shared.generation.store(generation, Ordering::Release);
        Ok(())
    }

    /// Takes the spawner, to stop it. Workers cannot connect any more once it has stopped.
    #[must_use]
    pub fn take_spawner(&self) -> Option<Spawner> {
        self.shared.as_ref()?.lock().take()
    }

    /// Waits until the spawner has ended, and kills what is left of its programs if it was not
    /// [taken](Self::take_spawner) to be stopped. Returns how it has ended then.
    #[must_use]
    pub fn clean_up_after_end(&self) -> Option<UnexpectedEnd> {
        let shared = self.shared.as_ref()?;
        shared.connector.wait_for_end();
        // A server that stops waits for this lock, and so until nothing is left.
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
