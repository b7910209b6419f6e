//! The source of a site's scripts and pages, from which each worker makes a VM.

use crate::pages::{self, Files, HandlerPage, LinkKey};
use crate::script_load_error::ScriptProblem;
use crate::script_quotas::Allowance;
use crate::source_names::{SourceNames, Sources};
use pinion_jobs::confined_folders::Folders;
use pinion_template::file_name::main_script;
use std::sync::Arc;

/// The program of a site: a main script, the modules it may require, and pages. Copies share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteProgram {
    name: Arc<str>,
    main: Option<Arc<[u8]>>,
    code: Arc<Files>,
    file_count: u64,
    pages: Arc<[HandlerPage]>,
    names: SourceNames,
    sources: Arc<Sources>,
    key: Option<LinkKey>,
    allowance: Allowance,
    arguments: Option<Arc<[Vec<u8>]>>,
    folders: Folders,
}

/// A byte order mark in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

impl SiteProgram {
    /// Creates a program from the text of the main script; errors call it `name`.
    #[must_use]
    pub fn new(name: &str, main: Vec<u8>) -> Self {
        // Lua ends names at a NUL, as C does.
        let name = name.replace('\0', "").into();
        let main = Some(script_alone(main).into());
        let (code, pages, allowance) = (Arc::default(), Arc::default(), Allowance::default());
        let folders = Folders::default();
        let (key, arguments, names) = (None, None, SourceNames::default());
        Self {
            name,
            main,
            code,
            file_count: 1,
            pages,
            names,
            sources: Arc::default(),
            key,
            allowance,
            arguments,
            folders,
        }
        .with_sources()
    }

    /// Creates a program from the files of a site: its Lua, its pages and their includes. Other
    /// files do no harm. A path begins with `/`, the root of the site; the path of a Lua file
    /// beside the content begins with `//`.
    ///
    /// The main script is `main`, which errors call `name`; without it `//main.lua`, or else
    /// `/main.lua`, whose names in errors are those of `names`. There may be none.
    ///
    /// # Errors
    /// Returns the error of a page, with its file and line, or that two pages answer the same
    /// requests.
    pub fn of_code(
        name: &str,
        main: Option<Vec<u8>>,
        names: SourceNames,
        files: impl Iterator<Item = (String, Vec<u8>)>,
    ) -> Result<Self, ScriptProblem> {
        let mut files: Files = files.collect();
        let file_count = files.len().max(usize::from(main.is_some())) as u64;
        let pages = pages::compiled(&files, &names)?;
        for (path, text) in &mut files {
            if pages::is_code(path) {
                *text = script_alone(std::mem::take(text));
            }
        }
        files.retain(|path, _| pages::is_code(path));
        let of_site = || {
            let (path, main) = main_script(|path| files.get(path).cloned())?;
            Some((names.name(path), main))
        };
        let main = main.map(|main| (name.to_owned(), script_alone(main))).or_else(of_site);
        let (name, main) =
            main.map_or((name.to_owned(), None), |(name, main)| (name, Some(main.into())));
        let name = name.replace('\0', "").into();
        let (code, pages, allowance) = (Arc::new(files), pages.into(), Allowance::default());
        let folders = Folders::default();
        let (key, arguments) = (None, None);
        let program = Self {
            name,
            main,
            code,
            file_count,
            pages,
            names,
            sources: Arc::default(),
            key,
            allowance,
            arguments,
            folders,
        };
        Ok(program.with_sources())
    }

    /// Sets the names and lines that messages of the program use.
    fn with_sources(self) -> Self {
        let modules = self.code.keys().map(|path| self.names.name(path));
        let names = modules.chain([(*self.name).to_owned()]);
        let sources = Sources::new(names, Arc::clone(&self.pages)).into();
        Self { sources, ..self }
    }

    /// Sets a key for links: `to_url` encrypts their parameters. All servers of a site have the
    /// same key, so that each opens the links of the others.
    ///
    /// # Errors
    /// Fails for a key that is too short to be a secret.
    pub fn with_master_key(mut self, key: &[u8]) -> Result<Self, ScriptProblem> {
        self.key = Some(LinkKey::of_master(key).map_err(|why| ScriptProblem::of_text(&why))?);
        Ok(self)
    }

    /// Sets other limits than the default ones, or no sandbox.
    #[must_use]
    pub fn allowed(self, allowance: Allowance) -> Self {
        Self { allowance, ..self }
    }

    /// Makes it a program at the command line, with these arguments, for
    /// [`Scripts::run_alone`](crate::worker_scripts::Scripts::run_alone).
    #[must_use]
    pub fn with_arguments(self, arguments: Vec<Vec<u8>>) -> Self {
        Self { arguments: Some(arguments.into()), ..self }
    }

    /// Sets the folders in which its scripts read and write files.
    #[must_use]
    pub fn with_folders(self, folders: Folders) -> Self {
        Self { folders, ..self }
    }

    /// Returns whether the program has neither a main script nor a page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.main.is_none() && self.pages.is_empty()
    }

    /// Returns the number of its files: scripts, modules, pages and their parts.
    #[must_use]
    pub fn file_count(&self) -> u64 {
        self.file_count
    }

    /// Returns its name in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the limits of its requests and its VM.
    #[must_use]
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Returns the text of a script or a module by its name in errors; Lua shortens long names at
    /// their front.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        let is_main = match name.strip_prefix("...") {
            Some(end) => !end.is_empty() && self.name.ends_with(end),
            None => *self.name == *name,
        };
        let main = self.main.as_deref().filter(|_| is_main);
        let by_name = || self.code.iter().find(|(path, _)| self.names.name(path) == name);
        main.or_else(|| by_name().map(|(_, text)| text.as_slice()))
    }

    pub(crate) fn main(&self) -> Option<&[u8]> {
        self.main.as_deref()
    }

    pub(crate) fn code(&self) -> &Arc<Files> {
        &self.code
    }

    /// Returns the names of its files in errors.
    #[must_use]
    pub fn names(&self) -> &SourceNames {
        &self.names
    }

    pub(crate) fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    pub(crate) fn pages(&self) -> &Arc<[HandlerPage]> {
        &self.pages
    }

    /// Returns the arguments of a program at the command line.
    pub(crate) fn arguments(&self) -> Option<&[Vec<u8>]> {
        self.arguments.as_deref()
    }

    pub(crate) fn folders(&self) -> &Folders {
        &self.folders
    }

    pub(crate) fn key(&self) -> Option<&LinkKey> {
        self.key.as_ref()
    }
}

/// Removes a byte order mark, which some editors write and not every Lua accepts, and a first line
/// that is meant for a shell. The end of that line stays, so that later lines keep their numbers.
fn script_alone(mut text: Vec<u8>) -> Vec<u8> {
    if text.starts_with(MARK) {
        text.drain(..MARK.len());
    }
    if text.starts_with(b"#") {
        let end = memchr::memchr(b'\n', &text).unwrap_or(text.len());
        text.drain(..end);
    }
    text
}
