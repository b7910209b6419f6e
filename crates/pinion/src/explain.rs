//! Explains the response of a server to a request: which site, rule, file or route gives it, which
//! steps came before it, and where each header comes from. `pinion why` explains a server that is
//! not started, the control socket a running one.
//!
//! The response is made by the functions that a server calls; only the sockets are missing.
//!
//! | Module | Does |
//! |---|---|
//! | `request` | URL and headers → the head of a request |
//! | `server_settings` | the settings of the server that its responses depend on |
//! | `listener` | the listener that a client connects to, and the fields of its responses |
//! | `sites` | the sites: of a plan, or those that a server serves |
//! | `response` | the steps before and after the sites: hosts, scripts, errors |
//! | `lookup_recorder`, `lookup_steps` | the steps of a look-up, recorded and in words |
//! | `rule_lines` | the lines that rules are written in |
//! | `header_origins` | where each header comes from |
//! | `explanation` | the document |

pub(crate) mod explanation;
mod header_origins;
mod listener;
mod lookup_recorder;
mod lookup_steps;
pub(crate) mod request;
mod response;
mod rule_lines;
pub(crate) mod server_settings;
mod sites;

use crate::failure::Failure;
use crate::plan::ServerPlan;
use crate::server::site_roster::Published;
use explanation::Explanation;
use request::WhyRequest;
use server_settings::ServerSettings;
use sites::ExplainedSites;
use std::sync::Arc;

/// Why there is nothing to explain about a server with only a store; follows its name.
pub(crate) const HAS_NO_HTTP: &str = "has no HTTP, only a store, whose replies are not explained";

/// Explains the response of a server that would be started with this plan.
///
/// # Errors
/// The site of the host cannot be loaded, or its archive is damaged.
pub(crate) fn explain_plan(plan: ServerPlan, request: &WhyRequest) -> Result<Explanation, Failure> {
    let ServerPlan { serve, mut sites, config, .. } = plan;
    if let Some(config) = config.as_ref().filter(|_| serve.is_store_only()) {
        return Err(Failure::usage(format!("{} {HAS_NO_HTTP}", config.path.display())));
    }
    for site in &mut sites {
        if let Some(mounts) = site.settings.planned_mounts() {
            site.settings.mounts = Arc::new(mounts);
        }
    }
    let settings = ServerSettings::of_plan(&serve, config.is_some(), request)?;
    response::explain(&settings, ExplainedSites::Planned(sites), request)
}

/// Explains the response of this server, from the archives that it serves now.
///
/// # Errors
/// The script of the site does not start, or its archive is damaged.
pub(crate) fn explain_served(
    settings: &ServerSettings,
    published: &Published,
    request: &WhyRequest,
) -> Result<Explanation, Failure> {
    response::explain(settings, ExplainedSites::Served(published), request)
}
