//! `pinion store [ADDRESS]...`: a server with a store for clients of Redis, and no site.

use super::serve;
use crate::failure::Failure;
use crate::plan::ServerPlan;
use crate::settings::Serve;

/// Serves until it is asked to stop.
pub(crate) fn run(settings: Serve) -> Result<(), Failure> {
    serve::start(|| ServerPlan::store_only(settings))
}
