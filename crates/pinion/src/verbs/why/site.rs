//! A site, loaded as a server loads it.

use super::headers::Origins;
use super::rule_lines::RuleLines;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use crate::server::generation::Generation;
use crate::server::loader::Loader;
use crate::server::program_table::ProgramTable;
use crate::settings::Content;
use anyhow::{Context as _, anyhow};
use pinion_engine::clock::Now;
use pinion_engine::mapping;
use pinion_http::request::RequestHead;
use pinion_lua::routes::Routes;
use pinion_site::{Work, field_rules_path, pathless_script_fields, script_fields};

/// A site and the rules that it is made of.
pub(super) struct LoadedSite {
    /// Its archive and its script.
    pub(super) generation: Generation,
    /// Its rules.
    pub(super) rules: RuleLines,
    content: Content,
}

impl LoadedSite {
    /// Loads a site.
    ///
    /// # Errors
    /// What a start of the server fails with.
    pub(super) fn load(planned: PlannedSite) -> Result<Self, Failure> {
        let PlannedSite { source, settings } = planned;
        // While this process has one thread.
        let programs = ProgramTable::fork(&[], settings.script_access.programs().iter())?;
        mapping::guard_lost_pages().context("cannot watch over mapped files")?;
        let shown = source.path().display().to_string();
        let loader = Loader::new(source.clone(), &settings, programs, None).silent();
        let generation = loader.load().map_err(|failure| loader.of_site(failure))?;
        let rules = RuleLines::of(&generation.archive(), &source, &settings.content);
        let rules = rules.map_err(|damage| anyhow!("{shown} is damaged: {damage}"))?;
        Ok(Self { generation, rules, content: settings.content })
    }

    /// Starts its script; none for a static site.
    ///
    /// # Errors
    /// The script does not start.
    pub(super) fn routes(&self) -> Result<Option<Routes>, Failure> {
        let Some(program) = self.generation.program() else { return Ok(None) };
        let routes = Routes::start(program, self.generation.site(), Now::read());
        Ok(Some(routes.map_err(anyhow::Error::new)?))
    }

    /// Returns the lines of the headers that a handler may replace.
    pub(super) fn script_fields(&self, head: &RequestHead<'_>) -> Vec<u8> {
        let archive = self.generation.archive();
        match field_rules_path(&archive, head) {
            Some(path) => script_fields(&archive, &path, &mut Work::new()),
            None => pathless_script_fields(&archive),
        }
    }

    /// Where its headers come from, as far as that is the same for all responses.
    pub(super) fn origins(&self) -> Origins<'_> {
        let cache_control = self.content.cache_control.as_deref();
        Origins { rules: Some(&self.rules), cache_control, ..Origins::default() }
    }
}
