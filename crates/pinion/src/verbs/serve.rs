//! `pinion serve [PATH]`: planned and prepared on this thread, then run.

use crate::failure::Failure;
use crate::plan::Plan;
use crate::server::{kit, run};
use crate::settings::Serve;

/// Serves until it is told to stop.
pub(crate) fn run(settings: Serve) -> Result<(), Failure> {
    run::run(kit::prepare(Plan::make(settings)?)?)
}
