//! Where workers get their connections to the spawner from.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Pid;

use pinion_spawner::connection::SpawnerConnection;
use pinion_spawner::spawner::{ControlError, Spawner};
use pinion_spawner::start_table::StartTable;

/// The spawner of the server, if it has one. Workers connect to it when their first program is to
/// run. A reload may add rows to its table; those that are there keep their numbers.
#[derive(Clone, Default)]
pub struct SpawnerAccess {
    /// `None` inside once the spawner was stopped.
    spawner: Option<Arc<Mutex<Option<Spawner>>>>,
    /// The generation of the table that is in use.
    generation: Arc<AtomicU32>,
}

impl SpawnerAccess {
    /// Shares a spawner.
    #[must_use]
    pub fn new(spawner: Spawner) -> Self {
        let generation = Arc::new(AtomicU32::new(spawner.generation()));
        Self { spawner: Some(Arc::new(Mutex::new(Some(spawner)))), generation }
    }

    /// Returns whether the server has a spawner.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.spawner.is_some()
    }

    /// Returns the process ID of the spawner; `None` once it has ended.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        let mut spawner = self.lock()?;
        let spawner = spawner.as_mut()?;
        (!spawner.has_ended()).then(|| spawner.pid())
    }

    /// Returns the generation of the table that is in use.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Connects a worker.
    ///
    /// # Errors
    /// There is no spawner any more, or no descriptor.
    pub fn connect(&self) -> Result<SpawnerConnection, ControlError> {
        let spawner = self.lock();
        let spawner = spawner.as_deref().and_then(Option::as_ref).ok_or(ControlError::Gone)?;
        spawner.connect()
    }

    /// Puts a table into use that has all rows of the previous one, and more behind them.
    ///
    /// # Errors
    /// The table is wrong, or the spawner does not accept it or has ended. The previous one stays
    /// in use.
    pub fn extend_table(&self, table: &StartTable) -> Result<(), ControlError> {
        let mut spawner = self.lock();
        let spawner = spawner.as_deref_mut().and_then(Option::as_mut).ok_or(ControlError::Gone)?;
        let generation = spawner.replace_table(table)?;
        self.generation.store(generation, Ordering::Release);
        Ok(())
    }

    /// Takes the spawner, to stop it. Workers cannot connect any more.
    #[must_use]
    pub fn take_spawner(&self) -> Option<Spawner> {
        self.lock()?.take()
    }

    fn lock(&self) -> Option<MutexGuard<'_, Option<Spawner>>> {
        Some(self.spawner.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for SpawnerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnerAccess").field("is_there", &self.is_there()).finish()
    }
}
