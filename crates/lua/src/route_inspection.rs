//! The routes of a program, without requests: the handler of a request, and its position in the
//! source.

use pinion_engine::clock::Now;
use pinion_http::request_head::RequestHead;

use crate::cpu_watchdog::CpuWatchdogs;
use crate::request;
use crate::router::FoundRoute;
use crate::script_load_error::ScriptProblem;
use crate::shared_site_state::ScriptSite;
use crate::site_program::SiteProgram;
use crate::vm::{Handler, HandlerId, Vm};

/// The routes that the main script of a program has registered, and those of its pages.
pub struct Routes(Vm);

/// The handler of a program for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteFound {
    /// A handler.
    Handler {
        /// The pattern of its route; `None` for the handler of missing paths.
        pattern: Option<String>,
        /// `FILE:LINE` where it begins, with the name of the file in errors; `None` if it is no
        /// function of a script.
        place: Option<String>,
    },
    /// Only other methods have a handler: these.
    Methods(Vec<String>),
    /// No handler.
    Nothing,
}

impl Routes {
    /// Runs the main script once, as every worker does at its start. No handler is called.
    ///
    /// # Errors
    /// Returns the error of the program.
    pub fn start(
        program: &SiteProgram,
        site: &ScriptSite,
        now: Now,
    ) -> Result<Self, ScriptProblem> {
        let watchdogs = CpuWatchdogs::new(1);
        Vm::start(program, &mut watchdogs.watchdog(0)?, site.as_in_a_worker(), now).map(Self)
    }

    /// Finds the route of a request.
    #[must_use]
    pub fn find(&self, head: &RequestHead<'_>) -> RouteFound {
        let mut scratch = Vec::new();
        let Some(path) = request::path(head, &mut scratch) else { return RouteFound::Nothing };
        let router = self.0.router();
        match router.find(head.method_token, path) {
            FoundRoute::Route(found) => RouteFound::Handler {
                pattern: router.pattern(found.route).map(str::to_owned),
                place: self.0.handler_position(HandlerId::Route(found.route)),
            },
            FoundRoute::Methods(methods) => RouteFound::Methods(methods),
            FoundRoute::Nothing => RouteFound::Nothing,
        }
    }

    /// Returns the handler for paths that neither a route nor the site has.
    #[must_use]
    pub fn not_found(&self) -> RouteFound {
        if !self.0.has(Handler::NotFound) {
            return RouteFound::Nothing;
        }
        let place = self.0.handler_position(HandlerId::Special(Handler::NotFound));
        RouteFound::Handler { pattern: None, place }
    }
}
