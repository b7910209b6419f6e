//! The sites that a worker serves, and how it loads the sites that were published last.

use super::SitesApp;
use crate::server::deferred_responses::Scripted;
use crate::server::dev::Developer;
use crate::server::dev::load_failure::{LoadFailure, Meanwhile};
use crate::server::mounts::Mount;
use crate::server::site_generation::Generation;
use crate::server::site_roster::{Roster, SiteId};
use pinion_engine::clock::Now;
use pinion_engine::exchange::Exchange;
use pinion_engine::file_mapping::{MappingId, Mappings};
use pinion_engine::stderr;
use pinion_http::request_head::RequestHead;
use pinion_lua::script_load_error::ScriptProblem;
use pinion_lua::site_program::SiteProgram;
use std::sync::Arc;

/// The time that a worker waits before it tries again to get its turn: too short to be noticed in a
/// reload, and little work meanwhile.
const TURN_LOOK_MS: u64 = 5;

/// A roster, and the names this worker's engine has for its mappings.
pub(super) struct Serving {
    pub(super) number: u64,
    pub(super) roster: Arc<Roster>,
    pub(super) sites: Vec<SiteGeneration>,
    /// Other servers respond to some requests.
    pub(super) has_mounts: bool,
}

/// A generation and its mapping, and its script, which responds where the archive does not.
pub(super) struct SiteGeneration {
    pub(super) id: SiteId,
    pub(super) generation: Arc<Generation>,
    pub(super) mapping: MappingId,
    pub(super) scripted: Option<Scripted>,
    /// It has no script, its files could be loaded, nothing is to be checked, and it shows no
    /// errors to a developer.
    pub(super) is_static: bool,
    /// The generation that was to replace it and has a script that does not start in this worker.
    pub(super) refused: Option<Arc<Generation>>,
}

impl SitesApp {
    /// Loads the published roster when it is this worker's turn; the first roster at once, since
    /// this worker has no earlier one.
    #[cold]
    pub(super) fn take_turn(&mut self, now: Now, mappings: &mut Mappings) {
        let published = Arc::clone(&self.published);
        let turn = published.turn();
        if turn.is_some() || self.serving.is_none() {
            self.load_roster(now, mappings);
        } else {
            self.turn_ms = Some(now.monotonic_ms + TURN_LOOK_MS);
        }
    }

    /// Loads the published roster. A generation that stays in use keeps its mapping.
    #[cold]
    fn load_roster(&mut self, now: Now, mappings: &mut Mappings) {
        let (number, roster) = self.published.current();
        let mut old = self.serving.take().map(|old| old.sites).unwrap_or_default();
        let dynamic = &mut self.dynamic;
        let mut site = |(id, generation): &(SiteId, Arc<Generation>)| {
            if let Some(at) = old.iter().position(|site| site.has_seen(generation)) {
                return old.swap_remove(at);
            }
            let scripted = match dynamic.load(generation, now) {
                Ok(scripted) => scripted,
                Err(problem) => {
                    let earlier = old.iter().position(|site| site.id == *id && !site.is_broken());
                    report_refused(generation, &problem, earlier.is_some());
                    let shown = earlier.and_then(|at| old.get(at)).map(|site| &site.generation);
                    show_refused(shown, generation, &problem);
                    if let Some(at) = earlier {
                        let refused = Some(Arc::clone(generation));
                        return SiteGeneration { refused, ..old.swap_remove(at) };
                    }
                    Some(Scripted::broken(generation))
                }
            };
            let mapping = mappings.add(Arc::clone(generation.mapping()));
            let generation = Arc::clone(generation);
            let is_static = scripted.is_none()
                && generation.mounts().is_empty()
                && !generation.has_no_content()
                && generation.access().is_none()
                && generation.live().is_none()
                && !generation.shows_errors();
            SiteGeneration { id: *id, generation, mapping, scripted, is_static, refused: None }
        };
        let sites: Vec<SiteGeneration> = roster.sites.iter().map(&mut site).collect();
        for site in old {
            mappings.retire(site.mapping);
            if let Some(scripted) = &site.scripted {
                self.dynamic.retire(scripted);
            }
        }
        let mounts = sites.iter().flat_map(|site| site.generation.mounts().all());
        let upstreams = mounts.filter_map(Mount::upstreams);
        let watched = upstreams.filter(|upstreams| upstreams.options().active.is_some());
        self.gateway.watch(watched.cloned().collect());
        let version = |id| sites.iter().find(|site| site.id == id).map(SiteGeneration::version);
        self.dynamic.streams.sites_changed(version);
        let has_mounts = sites.iter().any(|site| !site.generation.mounts().is_empty());
        self.serving = Some(Serving { number, roster, sites, has_mounts });
    }
}

impl SiteGeneration {
    /// Returns whether it is of a generation, or has refused it.
    fn has_seen(&self, generation: &Arc<Generation>) -> bool {
        let refused = self.refused.as_ref();
        Arc::ptr_eq(&self.generation, generation)
            || refused.is_some_and(|refused| Arc::ptr_eq(refused, generation))
    }

    /// Returns the latest version of the site that this worker has seen.
    pub(super) fn version(&self) -> u64 {
        let refused = self.refused.as_ref().map_or(0, |refused| refused.version());
        self.generation.version().max(refused)
    }

    /// Returns the developer who sends a request; `None` for any other client, and without `--dev`.
    #[inline]
    pub(super) fn developer(
        &self,
        head: &RequestHead<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Developer> {
        if !self.generation.shows_errors() {
            return None;
        }
        Developer::of(self.version(), head, exchange.peer())
    }

    fn is_broken(&self) -> bool {
        self.scripted.as_ref().is_some_and(Scripted::is_broken)
    }
}

/// Reports that a script that was proven does not start in this worker.
#[cold]
fn report_refused(generation: &Generation, problem: &ScriptProblem, has_earlier: bool) {
    let program_name = generation.program().map_or("a script", SiteProgram::name);
    if has_earlier {
        stderr::line(format_args!(
            "pinion: cannot reload {program_name} in one worker, keeping the previous version"
        ));
    } else {
        stderr::line(format_args!("pinion: cannot start {program_name} in one worker"));
    }
    stderr::line(format_args!("pinion: {problem}"));
    for line in problem.stack() {
        stderr::line(format_args!("pinion:   {line}"));
    }
}

/// Shows the developer of a site why its script does not start in this worker.
#[cold]
fn show_refused(earlier: Option<&Arc<Generation>>, next: &Generation, problem: &ScriptProblem) {
    if next.shows_errors() {
        let subject = next.program().map_or("the script", SiteProgram::name);
        let read = |name: &str| next.source_text(name);
        let meanwhile = if earlier.is_some() { Meanwhile::Previous } else { Meanwhile::Nothing };
        let failure = LoadFailure::of_script(subject, &problem.report(), read, meanwhile);
        earlier.map_or(next, |earlier| &**earlier).fail(failure);
    }
}
