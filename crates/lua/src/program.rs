//! The source of a site's scripts and pages, as each worker makes a VM of it.

use crate::allowance::Allowance;
use crate::pages::{self, Files, HandlerPage, LinkKey};
use crate::problem::ScriptProblem;
use crate::source_names::{SourceNames, Sources};
use pinion_jobs::folders::Folders;
use pinion_template::name::main_script;
use std::sync::Arc;

/// What runs for a site: a main script, the modules it may require, and pages. Copies share it.
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
    /// From the text of the main script; errors call it `name`.
    #[must_use]
    pub fn new(name: &str, main: Vec<u8>) -> Self {
        // Lua takes names as C does.
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

    /// From the files of a site: its Lua, its pages and what those include. Other files do no harm.
    /// A path begins with `/`, the root of the site; one of a Lua file that stands beside the
    /// content with `//`.
    ///
    /// The main script is `main`, which errors call `name`; without it `//main.lua`, or else
    /// `/main.lua`, which are called as `names` has it. There may be none.
    ///
    /// # Errors
    /// What is wrong with a page, with its file and line, or that two answer the same requests.
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

    /// With what its messages are put in order by.
    fn with_sources(self) -> Self {
        let modules = self.code.keys().map(|path| self.names.name(path));
        let names = modules.chain([(*self.name).to_owned()]);
        let sources = Sources::new(names, Arc::clone(&self.pages)).into();
        Self { sources, ..self }
    }

    /// With a key for links: `to_url` encrypts what they carry. All servers of a site have the
    /// same, so that each opens the links of the others.
    ///
    /// # Errors
    /// A key that is too short to be a secret.
    pub fn with_master_key(mut self, key: &[u8]) -> Result<Self, ScriptProblem> {
        self.key = Some(LinkKey::of_master(key).map_err(|why| ScriptProblem::of_text(&why))?);
        Ok(self)
    }

    /// With other limits than the usual ones, or without a sandbox.
    #[must_use]
    pub fn allowed(self, allowance: Allowance) -> Self {
        Self { allowance, ..self }
    }

    /// As a program at the command line, with these arguments, for
    /// [`Scripts::run_alone`](crate::scripts::Scripts::run_alone).
    #[must_use]
    pub fn with_arguments(self, arguments: Vec<Vec<u8>>) -> Self {
        Self { arguments: Some(arguments.into()), ..self }
    }

    /// With folders in which its scripts read and write files.
    #[must_use]
    pub fn with_folders(self, folders: Folders) -> Self {
        Self { folders, ..self }
    }

    /// Whether there is nothing in it that could answer: neither a main script nor a page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.main.is_none() && self.pages.is_empty()
    }

    /// How many files it is made of: scripts, modules, pages and their parts.
    #[must_use]
    pub fn file_count(&self) -> u64 {
        self.file_count
    }

    /// What errors call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its requests and its VM may take.
    #[must_use]
    pub fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The text of a script or a module by the name that errors have for it; Lua shortens long
    /// names at their front.
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

    /// What errors call its files.
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

    /// Of a program at the command line.
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

/// A byte order mark, as some editors write it, is no part of a script: not every Lua takes it. The
/// first line may be meant for a shell. Its end stays, so that those behind it keep their numbers.
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
