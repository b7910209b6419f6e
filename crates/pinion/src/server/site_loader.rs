//! Folder, archive or script → generation, at start and at every reload.

use super::access::rules::AccessRules;
use super::content_count::ContentCount;
use super::dev::load_failure::{LoadFailure, Meanwhile, SiteFiles};
use super::dev::{SCRIPT_PATH, STREAM_PATH};
use super::live_files::LiveFiles;
use super::live_folders::{self, LiveSite};
use super::php::unrun_scripts::{UNRUN, first_unrun, is_run};
use super::site_generation::Generation;
use super::watch::WalkTeller;
use super::writable_folder_check;
use crate::access_log::LogHandle;
use crate::archive_file;
use crate::build_notes;
use crate::build_options;
use crate::catch_all_rule;
use crate::failure::Failure;
use crate::lua_program_loader::{self, Proven};
use crate::releases::folder::{CURRENT, becomes_release_folder, is_release_folder};
use crate::releases::release_in_use;
use crate::served_source::ServedSource;
use crate::server::mounts::Mounts;
use crate::server::program_table::ProgramTable;
use crate::settings::{
    BuildSettings, LiveFolder, LuaSettings, MemoryMode, ScriptAccess, SiteAccess, SiteSettings,
};
use crate::warnings_and_notes;
use anyhow::{Context as _, anyhow};
use pinion_archive::Archive;
use pinion_builder::{Options, Progress, PublishGuard, SiteLayout, Summary, WalkedSite, Warning};
use pinion_engine::file_mapping::Mapping;
use pinion_jobs::confined_folders::FolderAt;
use pinion_lua::shared_site_state::ScriptSite;
use pinion_lua::site_program::SiteProgram;
use pinion_site::{RequestBuffers, has_file};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Loads a site from its source.
#[derive(Debug)]
pub(crate) struct Loader {
    source: ServedSource,
    memory: MemoryMode,
    content: BuildSettings,
    lua: LuaSettings,
    folders: Vec<FolderAt>,
    access: ScriptAccess,
    programs: ProgramTable,
    mounts: Arc<Mounts>,
    /// The folders whose files are read for each request.
    live: Vec<LiveFolder>,
    /// The access rules.
    site_access: Arc<SiteAccess>,
    /// Whether scripts that nothing runs may be left out.
    leaves_out_php: bool,
    /// The state that its scripts share from one load to the next.
    site: ScriptSite,
    /// Its log, if it has one of its own.
    log: Option<Arc<LogHandle>>,
    watch: Option<WalkTeller>,
    /// The state of a folder at the last load. It stays the same for as long as it is served.
    guard: Cell<Option<PublishGuard>>,
    /// The size of the content that was loaded last.
    content_count: Cell<ContentCount>,
    /// The notes about the last build of a folder.
    notes: RefCell<Vec<String>>,
    /// The warnings about it.
    warnings: RefCell<Vec<String>>,
    /// Whether nothing is printed that the last build has printed.
    is_again: Cell<bool>,
    /// Whether no warnings and notes are printed.
    is_silent: bool,
}

/// Receives the paths that the walk of a build has met.
struct WalkListener<'a> {
    watch: Option<&'a WalkTeller>,
    links: Mutex<Vec<PathBuf>>,
}

impl Progress for WalkListener<'_> {
    fn walked(&self, walked: WalkedSite) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = walked.links.clone();
        if let Some(watch) = self.watch {
            watch.walked(walked);
        }
    }
}

impl Loader {
    /// Returns a loader for a source and the settings it is served with. Paths that the walk of a
    /// build meets are passed to `watch`.
    pub(crate) fn new(
        source: ServedSource,
        settings: &SiteSettings,
        programs: ProgramTable,
        watch: Option<WalkTeller>,
    ) -> Self {
        let (content, folders) = (settings.content.clone(), settings.lua_folders.clone());
        let (memory, lua, site) = (settings.memory, settings.lua, ScriptSite::default());
        let access = settings.script_access.clone();
        let (mounts, site_access) = (Arc::clone(&settings.mounts), Arc::clone(&settings.access));
        let live = settings.live.clone();
        let (guard, notes, content_count) = (Cell::default(), RefCell::default(), Cell::default());
        let (warnings, is_again) = (RefCell::default(), Cell::default());
        Self {
            source,
            memory,
            content,
            lua,
            folders,
            access,
            programs,
            mounts,
            live,
            site_access,
            leaves_out_php: settings.low.given("no-php"),
            site,
            log: None,
            watch,
            guard,
            content_count,
            notes,
            warnings,
            is_again,
            is_silent: false,
        }
    }

    /// Returns the loader without warnings and notes, for a caller that only looks at the site.
    pub(crate) fn silent(self) -> Self {
        Self { is_silent: true, ..self }
    }

    /// Returns the loader with a log of the site.
    pub(crate) fn logging(self, log: Option<Arc<LogHandle>>) -> Self {
        Self { log, ..self }
    }

    /// Returns the source that is loaded.
    pub(crate) fn source(&self) -> &ServedSource {
        &self.source
    }

    /// Returns the size of the content that was loaded last.
    pub(crate) fn content_count(&self) -> ContentCount {
        self.content_count.get()
    }

    /// Loads it once more, which prints no warning that the last load has printed.
    ///
    /// # Errors
    /// The errors of [`Loader::load`].
    pub(crate) fn load_again(&self) -> Result<Generation, Failure> {
        self.is_again.set(true);
        let loaded = self.load();
        self.is_again.set(false);
        loaded
    }

    /// Loads it as it is now.
    ///
    /// # Errors
    /// One line that names the error; for a folder each problem.
    pub(crate) fn load(&self) -> Result<Generation, Failure> {
        let (mut held, mut program, mut guard) = (None, None, None);
        let folders = lua_program_loader::folders(&self.folders)?;
        let site = self.access.give_to(&self.site, &self.programs)?;
        if !self.is_silent {
            self.programs.add_cgi(self.mounts.cgi())?;
        }
        let rules = self.access_rules()?;
        let mapping = match &self.source {
            ServedSource::Archive(path) => self.map_archive(archive_file::open(path)?, path)?,
            // A release has been published to a folder that was empty when it was first served: the
            // other files of a release folder are private.
            ServedSource::Folder(path) if is_release_folder(path) => {
                self.map_current(path, &mut held)?
            }
            ServedSource::Folder(path) => {
                let built = self.build_folder(path, &mut guard)?;
                // It may have become one since.
                match becomes_release_folder(path) {
                    true if is_release_folder(path) => self.map_current(path, &mut held)?,
                    true => {
                        let shown = path.display();
                        return Err(anyhow!("{shown} has no current release yet").into());
                    }
                    false => built,
                }
            }
            ServedSource::Releases(folder) => self.map_current(folder, &mut held)?,
            ServedSource::Upstream(_) => self.map_nothing()?,
            ServedSource::Script(path) => {
                let proven = lua_program_loader::proven(path, self.lua.allowance, &site)?;
                program = Some(self.warned(proven));
                self.map_nothing()?
            }
        };
        if self.memory == MemoryMode::Preload {
            mapping.preload();
        }
        let shown = self.source.path().display();
        let generation = Generation::new(mapping).map_err(|error| anyhow!("{shown}: {error}"))?;
        if self.mounts.has_root_mount()
            && let Some(path) = self.source.file()
            && !matches!(self.source, ServedSource::Script(_))
        {
            catch_all_rule::check(&generation.archive(), &path)?;
        }
        if program.is_none() {
            let (archive, path) = (generation.archive(), self.source.path());
            let allowance = self.lua.allowance;
            let proven = lua_program_loader::of_archive(&archive, path, allowance, &site)?;
            program = proven.map(|proven| self.warned(proven));
        }
        let program = program.map(|program| program.with_folders(folders));
        self.warn_of_reserved_paths(&generation.archive());
        let live = self.live_files(guard.as_ref(), &generation.archive())?;
        // The process that switched waits for this mark, and takes it as the sign that the load has
        // succeeded.
        held.iter().for_each(release_in_use::hold);
        self.guard.set(guard);
        self.content_count.set(ContentCount::of(&generation.archive()));
        let generation = generation.holding(held).running(program, &site).serving_live(live);
        let generation = generation.logging(self.log.clone()).mounting(&self.mounts);
        let rules = rules.map(|rules| rules.with_single_page(&generation.archive()));
        let generation = generation.protected(rules);
        Ok(generation.showing_errors(self.lua.shows_errors))
    }

    /// Opens the folders whose files are read for each request; `None` if there are none. `guard`
    /// are those of a folder that was built.
    fn live_files(
        &self,
        guard: Option<&PublishGuard>,
        archive: &Archive<'_>,
    ) -> Result<Option<LiveFiles>, Failure> {
        let site = LiveSite {
            folder: guard.map(|_| self.source.path()),
            layout: guard.map_or(SiteLayout::Static, |guard| guard.layout),
            content: &self.content,
            mounts: &self.mounts,
            password_files: &self.site_access.password_files(),
        };
        live_folders::open(&self.live, &site, archive)
    }

    /// Reads the files that the rules about access name.
    fn access_rules(&self) -> Result<Option<AccessRules>, Failure> {
        let warns = !self.is_again.get() && !self.is_silent;
        let (source, hosts) = (self.source.path(), &self.content.hosts);
        AccessRules::load(&self.site_access, source, hosts, warns)
    }

    /// Returns a site without content whose developer sees why it could not be loaded; `None` for a
    /// failure that its files do not cause.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn load_failed(&self, failure: &Failure) -> Result<Option<Generation>, Failure> {
        let is_built = matches!(self.source, ServedSource::Folder(_) | ServedSource::Script(_));
        let shown = self.shown(failure, Meanwhile::Nothing).filter(|_| is_built);
        let Some(shown) = shown else { return Ok(None) };
        let generation = Generation::new(self.map_nothing()?).map_err(anyhow::Error::from)?;
        let generation = generation.without_content();
        generation.fail(shown);
        let generation = generation.running(None, &self.site).logging(self.log.clone());
        Ok(Some(generation.showing_errors(true)))
    }

    /// Returns a failed load as the developer of the site sees it; `None` without `--dev`, or if a
    /// change of the site does not help. `meanwhile` is the version that is served.
    pub(crate) fn shown(&self, failure: &Failure, meanwhile: Meanwhile) -> Option<LoadFailure> {
        let is_of_site = match failure {
            Failure::Failed(_)
            | Failure::UnusableFiles(_)
            | Failure::UnreadableRules(_)
            | Failure::InvalidRules(_)
            | Failure::InvalidCode(_) => true,
            Failure::Usage(_)
            | Failure::ConfigFaults(_)
            | Failure::InSite(..)
            | Failure::SeveralSites(_)
            | Failure::AlreadyReported
            | Failure::AlreadyReportedConfig
            | Failure::ReaderGone => false,
        };
        if !self.lua.shows_errors || !is_of_site {
            return None;
        }
        let named = self.content.rules.iter().chain(&self.content.fields);
        let named = named.map(PathBuf::as_path).collect();
        Some(LoadFailure::new(&SiteFiles { source: &self.source, named }, failure, meanwhile))
    }

    /// Logs the warnings about a program, unless the last load has logged them.
    fn warned(&self, Proven { program, warnings }: Proven) -> SiteProgram {
        if !self.is_again.get() && !self.is_silent {
            warnings.iter().for_each(warnings_and_notes::warning);
        }
        program
    }

    /// Warns about files that a developer does not get.
    fn warn_of_reserved_paths(&self, archive: &Archive<'_>) {
        let mut work = RequestBuffers::new();
        for path in [SCRIPT_PATH, STREAM_PATH] {
            let needs_no_warning = self.is_again.get() || !self.lua.shows_errors;
            if !needs_no_warning && has_file(archive, path.as_bytes(), &mut work) {
                warnings_and_notes::warning(format_args!(
                    "{}: the file {path} is hidden while --dev is given, which uses that path",
                    self.source.path().display()
                ));
            }
        }
    }

    /// Maps the current release of a release folder, whose file stays open as long as it is served.
    fn map_current(&self, folder: &Path, held: &mut Option<File>) -> Result<Mapping, Failure> {
        let path = folder.join(CURRENT);
        let file = archive_file::open(&path)?;
        *held = file.try_clone().ok();
        self.map_archive(file, &path)
    }

    fn map_archive(&self, mut file: File, path: &Path) -> Result<Mapping, Failure> {
        let shown = path.display();
        if self.memory == MemoryMode::Copy {
            file = copied(&mut file).with_context(|| format!("cannot copy {shown} to memory"))?;
        }
        let mapping = Mapping::new(file, Vec::new());
        Ok(mapping.with_context(|| format!("cannot map {shown}"))?)
    }

    /// Maps an archive without files: all responses come from a script.
    fn map_nothing(&self) -> Result<Mapping, Failure> {
        let options = build_options::options(&self.content, Options::serving)?;
        let memory = memory_file().context("cannot get memory for the site")?;
        let built = pinion_builder::build_nothing(&options, memory);
        let built = built.map_err(build_options::failure)?;
        seal(&built.out).context("cannot seal the memory of the site")?;
        Ok(Mapping::new(built.out, built.externals).context("cannot map the memory of the site")?)
    }

    /// Builds the folder into sealed memory. Large files stay where they are, unless the site is to
    /// be held in memory.
    fn build_folder(
        &self,
        path: &Path,
        guard: &mut Option<PublishGuard>,
    ) -> Result<Mapping, Failure> {
        let mut options = build_options::options(&self.content, Options::serving)?;
        options.live.extend(live_folders::named_elsewhere(&self.live, path));
        options.follows = self.guard.get();
        if self.memory != MemoryMode::Map {
            options.external_min_bytes = None;
        }
        let memory = memory_file().context("cannot get memory for the site")?;
        let walk = WalkListener { watch: self.watch.as_ref(), links: Mutex::default() };
        let built = pinion_builder::build(path, &options, memory, &walk);
        let built = built.map_err(build_options::failure)?;
        let links = walk.links.into_inner().unwrap_or_else(PoisonError::into_inner);
        writable_folder_check::check(path, &self.content, &self.folders, &links)?;
        self.check_php(&built.summary)?;
        self.print_warnings(&built.summary);
        *guard = Some(built.summary.guard);
        let is_run = |path: &Path| is_run(path, &self.mounts);
        self.print_notes(build_notes::of_build(&built.summary, is_run));
        seal(&built.out).context("cannot seal the memory of the site")?;
        let mapping = Mapping::new(built.out, built.externals);
        Ok(mapping.with_context(|| format!("cannot map {}", path.display()))?)
    }
}

impl Loader {
    /// Returns the failure of a load with the paths of its files on the disk, and with the first
    /// host of the site, if it has hosts of its own.
    pub(crate) fn with_site(&self, failure: Failure) -> Failure {
        failure.with_site(self.source.path(), self.host())
    }

    /// Returns the host that distinguishes the site from others of the same server; `None` if it is
    /// for all that no other site names.
    fn host(&self) -> Option<&str> {
        self.content.hosts.first().map(String::as_str)
    }

    /// Checks that every PHP script of the folder is run. Its source is not part of the site in any
    /// case, but its path would have no response.
    ///
    /// # Errors
    /// A script that nothing runs.
    fn check_php(&self, summary: &Summary) -> Result<(), Failure> {
        if self.leaves_out_php {
            return Ok(());
        }
        let unrun = first_unrun(&summary.skipped, &summary.excluded, &self.mounts);
        let Some(script) = unrun else { return Ok(()) };
        let script = self.source.path().join(script);
        Err(anyhow!("{} {UNRUN}", script.display()).into())
    }

    /// Prints the warnings about a build: after the first load only those that matter then.
    fn print_warnings(&self, summary: &Summary) {
        // If a site has lost its last file, the report of the reload says so.
        let is_first = self.guard.get().is_none();
        let warnings = summary.warnings.iter();
        let may_be_empty = !is_first || self.mounts.has_root_mount();
        let warnings = warnings.filter(|warning| !may_be_empty || **warning != Warning::NoFiles);
        // They may be for the files of a live folder outside of the site.
        let has_live = !self.live.is_empty();
        let is_pattern = |warning: &Warning| {
            matches!(warning, Warning::UnusedExclude(_) | Warning::UnusedInclude(_))
        };
        let warnings = warnings.filter(|warning| !has_live || !is_pattern(warning));
        let problems = summary.problems.iter().map(|problem| format!("left out {problem}"));
        let source = self.source.path();
        let shown =
            |warning: &Warning| warning.of_rule(source).unwrap_or_else(|| warning.to_string());
        let lines: Vec<String> = problems.chain(warnings.map(shown)).collect();
        let before = self.warnings.replace(lines);
        let is_new =
            |line: &&String| !self.is_silent && (!self.is_again.get() || !before.contains(line));
        for line in self.warnings.borrow().iter().filter(is_new) {
            match self.host() {
                Some(host) => warnings_and_notes::warning(format_args!("site {host}: {line}")),
                None => warnings_and_notes::warning(line),
            }
        }
    }

    /// Prints the notes about a build that the one before did not have.
    fn print_notes(&self, notes: Vec<String>) {
        let before = self.notes.replace(notes);
        let is_new = |note: &&String| !self.is_silent && !before.contains(note);
        for note in self.notes.borrow().iter().filter(is_new) {
            match self.host() {
                Some(host) => warnings_and_notes::note(format_args!("site {host}: {note}")),
                None => warnings_and_notes::note(note),
            }
        }
    }
}

/// Copies a file into sealed memory, that nothing outside of this process can touch.
fn copied(file: &mut File) -> io::Result<File> {
    let mut memory = memory_file()?;
    io::copy(file, &mut memory)?;
    seal(&memory)?;
    Ok(memory)
}

fn memory_file() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(memfd_create("pinion-site", flags)?))
}

/// Seals a file. No process has the file mapped for writing, so that FUTURE_WRITE (Linux 5.1) keeps
/// every write out, as WRITE would. WRITE fails with EBUSY while any page has another reader, be it
/// the kernel that moves it, and before Linux 6.7 no process could map the file afterwards, not
/// even read-only.
fn seal(file: &File) -> io::Result<()> {
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE;
    Ok(fcntl_add_seals(file, all)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::sendfile;
    use std::io::{Read as _, Seek as _, Write as _};

    #[test]
    fn a_copy_has_the_same_bytes_and_cannot_be_changed() {
        let mut memory = memory_file().expect("memory");
        memory.write_all(b"some bytes").expect("written");
        memory.rewind().expect("rewound");
        let mut copy = copied(&mut memory).expect("a copy");
        let mut bytes = Vec::new();
        copy.rewind().expect("rewound");
        copy.read_to_end(&mut bytes).expect("read");
        assert_eq!(bytes, b"some bytes");
        assert!(copy.write_all(b"x").is_err() && copy.set_len(0).is_err());
    }

    /// The kernel itself holds pages for a moment, to move or join them, as a pipe does here.
    #[test]
    fn a_page_that_another_reads_does_not_hinder_the_seal() {
        let mut memory = memory_file().expect("memory");
        memory.write_all(b"some bytes").expect("written");
        let (_reader, writer) = io::pipe().expect("a pipe");
        let held = sendfile(&writer, &memory, Some(&mut 0), 10);
        assert_eq!(held, Ok(10));
        seal(&memory).expect("sealed");
        assert!(memory.write_all(b"x").is_err());
    }
}
