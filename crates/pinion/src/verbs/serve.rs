//! `pinion serve [PATH]`: planned and prepared on this thread, then run.

use crate::failure::Failure;
use crate::plan::ServerPlan;
use crate::server::service_manager::ServiceManager;
use crate::server::{server_threads, startup};
use crate::settings::Serve;

/// Serves until it is asked to stop.
pub(crate) fn run(settings: Serve) -> Result<(), Failure> {
    start(|| ServerPlan::make(settings))
}

/// Serves the plan that `plan` returns until it is asked to stop.
pub(super) fn start(plan: impl FnOnce() -> Result<ServerPlan, Failure>) -> Result<(), Failure> {
    let manager = ServiceManager::take();
    let plan = plan().map_err(Failure::reported_as_start_failure)?;
    let kit = startup::prepare(plan, manager).map_err(Failure::reported_as_start_failure)?;
    server_threads::run(kit).map_err(Failure::reported_as_start_failure)
}
