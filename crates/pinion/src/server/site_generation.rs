//! One state of a site. A reload makes another one; each worker loads it at the top of its next
//! pass and finishes older responses from the older one.

use super::access::rules::AccessRules;
use super::dev::load_failure::LoadFailure;
use super::dev::next_version;
use super::live_files::LiveFiles;
use super::mounts::{Mount, Mounts};
use super::server_error_report::DamageReport;
use crate::access_log::{LogHandle, LogId};
use pinion_archive::{Archive, Layout, OpenError};
use pinion_engine::file_mapping::Mapping;
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody};
use pinion_http::request_head::RequestHead;
use pinion_lua::shared_site_state::ScriptSite;
use pinion_lua::site_program::SiteProgram;
use pinion_site::{RequestBuffers, has_rule_before_files, pathless_script_fields};
use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One state of the site: a mapped archive and where everything is in it.
pub(crate) struct Generation {
    mapping: Arc<Mapping>,
    layout: Layout,
    report: DamageReport,
    /// The script, which responds where the archive does not.
    program: Option<SiteProgram>,
    /// Lines of the fields that responses made on demand have, without the rules for a path; made
    /// when they are needed first.
    generated_fields: OnceLock<Arc<[u8]>>,
    /// The paths that other servers respond to.
    mounts: Arc<Mounts>,
    /// The files that are read as they are now; `None` if there are none.
    live: Option<LiveFiles>,
    /// The access rules; `None` if there is nothing to check.
    access: Option<Arc<AccessRules>>,
    /// Whose generation it is, for its script.
    site: ScriptSite,
    shows_errors: bool,
    /// It stands for a site that could not be loaded, and only has the reason.
    has_no_content: bool,
    /// The log of the site, if it has one of its own.
    log: Option<Arc<LogHandle>>,
    /// The version of the generation, greater than those of all earlier ones.
    version: u64,
    /// The reason why the next generation could not be loaded, for a developer.
    failure: Mutex<Option<Arc<LoadFailure>>>,
    /// Open, so that its mark stays ([`crate::releases::release_in_use`]).
    _held: Option<File>,
}

impl Generation {
    /// Checks a mapped archive.
    ///
    /// # Errors
    /// It is no archive, or damaged.
    pub(crate) fn new(mapping: Mapping) -> Result<Self, OpenError> {
        let layout = Layout::open(mapping.bytes())?;
        Ok(Self {
            mapping: Arc::new(mapping),
            layout,
            report: DamageReport::default(),
            program: None,
            generated_fields: OnceLock::new(),
            mounts: Arc::default(),
            live: None,
            access: None,
            site: ScriptSite::default(),
            shows_errors: false,
            has_no_content: false,
            log: None,
            version: next_version(),
            failure: Mutex::default(),
            _held: None,
        })
    }

    /// Returns the generation with a file that stays open as long as it is served.
    pub(crate) fn holding(self, held: Option<File>) -> Self {
        Self { _held: held, ..self }
    }

    /// Returns the generation with a script of a site.
    pub(crate) fn running(self, program: Option<SiteProgram>, site: &ScriptSite) -> Self {
        Self { program, site: site.clone(), ..self }
    }

    /// Returns the generation with the parts of the site that other servers respond to.
    pub(crate) fn mounting(self, mounts: &Arc<Mounts>) -> Self {
        Self { mounts: Arc::clone(mounts), ..self }
    }

    /// Returns the parts of the site that other servers respond to.
    #[inline]
    pub(crate) fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// Returns the generation with files that are read as they are now.
    pub(crate) fn serving_live(self, live: Option<LiveFiles>) -> Self {
        Self { live, ..self }
    }

    /// Returns the files that are read as they are now, if there are any.
    #[inline]
    pub(crate) fn live(&self) -> Option<&LiveFiles> {
        self.live.as_ref()
    }

    /// Returns the mount that responds to a request before all files. A rule that comes before the
    /// file of its path comes before a script of the site, too.
    #[inline]
    pub(crate) fn mount_before_files_and_rules(
        &self,
        head: &RequestHead<'_>,
        work: &mut RequestBuffers,
    ) -> Option<&Mount> {
        let has_rule = || !self.is_damaged() && has_rule_before_files(&self.archive(), head, work);
        self.mounts().mount_before_files_and_rules(head.target.path, has_rule)
    }

    /// Returns how many parts of the site send files that they open for it: its live folders, and
    /// mounts whose responses name files.
    pub(crate) fn file_senders(&self) -> usize {
        let sending = self.mounts().all().filter(|mount| mount.sent_folders.is_some());
        sending.count() + usize::from(self.live.is_some())
    }

    /// Returns the generation with access rules.
    pub(crate) fn protected(self, access: Option<AccessRules>) -> Self {
        Self { access: access.map(Arc::new), ..self }
    }

    /// Returns the access rules, if there is anything to check.
    #[inline]
    pub(crate) fn access(&self) -> Option<&Arc<AccessRules>> {
        self.access.as_ref()
    }

    /// Returns the generation with a log of its site.
    pub(crate) fn logging(self, log: Option<Arc<LogHandle>>) -> Self {
        Self { log, ..self }
    }

    /// Returns the log of its site, if it has one of its own.
    #[inline]
    pub(crate) fn log(&self) -> Option<LogId> {
        self.log.as_ref().map(|log| log.id())
    }

    /// Returns the generation with pages that show the errors of its script, or without.
    pub(crate) fn showing_errors(self, shows_errors: bool) -> Self {
        Self { shows_errors, ..self }
    }

    /// Returns the generation in place of a site that could not be loaded ([`Self::fail`]).
    pub(crate) fn without_content(self) -> Self {
        Self { has_no_content: true, ..self }
    }

    /// Returns whether it stands for a site that could not be loaded.
    #[inline]
    pub(crate) fn has_no_content(&self) -> bool {
        self.has_no_content
    }

    /// Returns whether its pages show the errors of its script.
    pub(crate) fn shows_errors(&self) -> bool {
        self.shows_errors
    }

    /// Takes note that the next generation could not be loaded.
    pub(crate) fn fail(&self, failure: LoadFailure) {
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::new(failure));
    }

    /// Returns why the next generation could not be loaded, if it could not.
    pub(crate) fn failure(&self) -> Option<Arc<LoadFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the version that is served, for pages that reload when there is a later one.
    pub(crate) fn version(&self) -> u64 {
        self.failure().map_or(self.version, |failure| failure.version.max(self.version))
    }

    /// Returns a number that no other generation has, of this site or another one.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.version
    }

    /// Returns the text of a file of its code by the name that an error has for it.
    pub(crate) fn source_text(&self, name: &str) -> Option<String> {
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        if let Some(found) = self.program.as_ref().and_then(|program| program.text(name)) {
            return Some(text(found));
        }
        let code = self.archive().code().ok()?;
        // Pages are no longer part of a program, and their names are those of its other files.
        let named = |path: &&[u8]| {
            let path = std::str::from_utf8(path).ok()?;
            self.program.as_ref().filter(|program| program.names().name(path) == name)
        };
        let found = code.iter().find(|(path, _)| named(path).is_some());
        found.map(|(_, content)| text(content))
    }

    /// Returns its script.
    pub(crate) fn program(&self) -> Option<&SiteProgram> {
        self.program.as_ref()
    }

    /// Returns the state that its script shares with the scripts of other generations.
    pub(crate) fn site(&self) -> &ScriptSite {
        &self.site
    }

    /// Returns lines of the fields that responses made on demand have unless they set them, without
    /// the rules for a path.
    pub(crate) fn generated_fields(&self) -> &Arc<[u8]> {
        self.generated_fields.get_or_init(|| pathless_script_fields(&self.archive()).into())
    }

    /// Returns the archive, to look things up in.
    #[inline]
    pub(crate) fn archive(&self) -> Archive<'_> {
        self.layout.view(self.mapping.bytes())
    }

    /// Returns the mapping, to cut responses from.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Returns whether a page was lost since: the file was truncated or its disk failed.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.mapping.is_damaged()
    }

    /// Looks whether the archive has been truncated.
    pub(crate) fn look(&self) {
        self.mapping.look_for_truncation();
    }

    /// Returns whether a response is cut from a file outside of the archive that has changed since.
    #[inline]
    pub(crate) fn is_outdated(&self, response: &Prepared<'_>) -> bool {
        let PreparedBody::Archive(pieces) = response.body else { return false };
        pieces.iter().any(|piece| match piece {
            Piece::External(range) => {
                self.mapping.external(range.file).is_none_or(|file| !file.is_unchanged(range))
            }
            Piece::Bytes(_) | Piece::Archive(_) => false,
        })
    }

    /// Returns the report of responses with status 500.
    pub(crate) fn report(&self) -> &DamageReport {
        &self.report
    }
}
