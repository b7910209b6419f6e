//! The sites that are explained: those of a plan, which are loaded as a server loads them, or those
//! that a server serves now.

use super::explanation::{SiteKind, SiteShown};
use super::header_origins::HeaderOrigins;
use super::rule_lines::RuleLines;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use crate::served_source::ServedSource;
use crate::server::program_table::ProgramTable;
use crate::server::site_generation::Generation;
use crate::server::site_loader::Loader;
use crate::server::site_programs::KeptPrograms;
use crate::server::site_roster::{Published, ServedSite};
use crate::settings::NamedSources;
use anyhow::{Context as _, anyhow};
use pinion_engine::clock::Now;
use pinion_engine::file_mapping;
use pinion_http::request_head::RequestHead;
use pinion_lua::route_inspection::Routes;
use pinion_site::host_selection::{HostPattern, Hosts};
use pinion_site::{RequestBuffers, field_rules_path, pathless_script_fields, script_fields};
use std::iter;
use std::sync::Arc;

/// All sites of a server.
pub(super) enum ExplainedSites<'p> {
    /// They are not loaded yet.
    Planned(Vec<PlannedSite>),
    /// They are served.
    Served(&'p Published),
}

/// The site of a host.
pub(super) enum ExplainedSite {
    Planned(Box<PlannedSite>),
    Served(Box<ServedSite>),
}

/// A site with its archive, and the rules that it is made of.
pub(super) struct LoadedSite {
    /// Its archive and its script.
    pub(super) generation: Arc<Generation>,
    /// Its rules.
    pub(super) rules: RuleLines,
    named: NamedSources,
}

impl ExplainedSites<'_> {
    /// Returns the site that responds for a host.
    pub(super) fn select(self, authority: Option<&[u8]>) -> Option<ExplainedSite> {
        match self {
            Self::Planned(sites) => {
                let hosts = Hosts::new(sites.iter().map(|site| site.settings.hosts.as_slice()));
                let site = sites.into_iter().nth(hosts.select(authority)?)?;
                Some(ExplainedSite::Planned(Box::new(site)))
            }
            Self::Served(published) => {
                let served = published.select(authority)?;
                Some(ExplainedSite::Served(Box::new(served)))
            }
        }
    }
}

impl ExplainedSite {
    fn hosts(&self) -> &[HostPattern] {
        match self {
            Self::Planned(planned) => &planned.settings.hosts,
            Self::Served(served) => &served.hosts,
        }
    }

    fn source(&self) -> &ServedSource {
        match self {
            Self::Planned(planned) => &planned.source,
            Self::Served(served) => &served.source,
        }
    }

    /// Returns the description of the site for the document.
    pub(super) fn shown(&self, authority: Option<&[u8]>) -> SiteShown {
        let kind = match self.source() {
            ServedSource::Archive(_) => SiteKind::Archive,
            ServedSource::Folder(_) => SiteKind::Folder,
            ServedSource::Releases(_) => SiteKind::Releases,
            ServedSource::Script(_) => SiteKind::Script,
            ServedSource::Upstream(_) => SiteKind::Proxy,
        };
        let path = self.source().path().display().to_string();
        SiteShown { path, kind, host: best_pattern(self.hosts(), authority) }
    }

    /// Loads it, if it is not served already, and reads its rules.
    ///
    /// # Errors
    /// The errors of a start of the server, or damage of the archive.
    pub(super) fn load(&self) -> Result<LoadedSite, Failure> {
        let (generation, named) = match self {
            Self::Planned(planned) => {
                (Arc::new(load(planned)?), planned.settings.content.named_sources())
            }
            Self::Served(served) => (Arc::clone(&served.generation), served.named.clone()),
        };
        let source = self.source();
        let rules = match RuleLines::of(&generation.archive(), source, &named) {
            Ok(rules) => rules,
            // No response has anything of such an archive.
            Err(_) if generation.is_damaged() => RuleLines::default(),
            Err(damage) => {
                let shown = source.path().display();
                return Err(anyhow!("{shown} is damaged: {damage}").into());
            }
        };
        Ok(LoadedSite { generation, rules, named })
    }
}

/// Loads a site as a server does at its start.
fn load(PlannedSite { source, settings }: &PlannedSite) -> Result<Generation, Failure> {
    // While this process has one thread.
    let named = settings.script_access.programs().iter();
    let programs = ProgramTable::fork(KeptPrograms::default(), named, iter::empty())?;
    file_mapping::guard_lost_pages().context("cannot watch over mapped files")?;
    let loader = Loader::new(source.clone(), settings, programs, None).silent();
    loader.load().map_err(|failure| loader.with_site(failure))
}

/// Returns the pattern that names a host: a name comes before patterns, and the longest of these
/// first. A site for all other hosts has none.
fn best_pattern(hosts: &[HostPattern], authority: Option<&[u8]>) -> Option<String> {
    let selects = |pattern: &&HostPattern| {
        let alone = Hosts::new([std::slice::from_ref(*pattern)]);
        alone.select(authority).is_some()
    };
    let matching = hosts.iter().filter(selects).map(ToString::to_string);
    matching.max_by_key(|host| (!host.starts_with("*."), host.len()))
}

impl LoadedSite {
    /// Starts its script; returns `None` for a static site.
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
            Some(path) => script_fields(&archive, &path, &mut RequestBuffers::new()),
            None => pathless_script_fields(&archive),
        }
    }

    /// Returns where its headers come from, as far as that is the same for all responses.
    pub(super) fn origins(&self) -> HeaderOrigins<'_> {
        let cache_control = self.named.cache_control.as_deref();
        HeaderOrigins { rules: Some(&self.rules), cache_control, ..HeaderOrigins::default() }
    }
}
