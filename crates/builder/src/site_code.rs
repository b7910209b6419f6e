//! The code of a dynamic site: read as it is, with the files that its templates include. Templates
//! are compiled once, so that a mistake in them ends the build; the compiled form is dropped.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pinion_archive::limits::{CODE_FILE_MAX_BYTES, CODE_SECTION_MAX_BYTES};
use pinion_template::file_name::Routes;
use pinion_template::{StrayTag, compile, stray_tags};

use crate::code_or_content::CodeFile;
use crate::error::{BuildError, CodeError, Reason, ShownPath};
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::file_kinds_by_name::{is_page, is_script, path_and_name};
use crate::walk::found_files::{FoundFiles, relative};
use crate::warning::Warning;

/// Contents by their paths in the archive.
pub(crate) type SiteCode = BTreeMap<Box<[u8]>, Vec<u8>>;

/// Reads the code that was found in the folder `source`; none of a static site.
///
/// # Errors
/// [`BuildError::Code`] with all that is wrong. No build can do without a part of its code.
pub(crate) fn read(source: &Path, found: &FoundFiles) -> Result<SiteCode, BuildError> {
    let mut reader = CodeReader {
        source,
        found,
        places: found.code.iter().map(|file| (&*file.path, file.relative())).collect(),
        files: SiteCode::new(),
        bytes: 0,
        errors: Vec::new(),
    };
    for CodeFile { path, key } in &found.code {
        reader.read(path, relative(key));
    }
    if reader.errors.is_empty() {
        let pages = found.code.iter().filter(|file| is_page(path_and_name(&file.path).1));
        pages.for_each(|page| reader.prove(page));
        reader.errors.extend(clashes(source, &found.code));
    }
    let CodeReader { files, mut errors, .. } = reader;
    if errors.is_empty() {
        return Ok(files);
    }
    errors.sort();
    errors.dedup();
    errors.iter_mut().for_each(|error| error.folder = source.to_owned());
    Err(BuildError::Code(errors))
}

/// Returns warnings about tags in templates that are none and are sent as text.
pub(crate) fn tag_warnings(found: &FoundFiles, code: &SiteCode) -> Vec<Warning> {
    let templates = code.iter().filter(|(path, _)| !is_script(path_and_name(path).1));
    let stray = templates.flat_map(|(path, content)| {
        let of_code = found.code.binary_search_by(|file| file.path.cmp(path)).ok();
        let of_code = of_code.map(|at| found.code[at].relative());
        let file = of_code.unwrap_or_else(|| Path::new(found.content).join(relative(path)));
        let tags = stray_tags(&String::from_utf8_lossy(path), content);
        tags.into_iter().map(move |StrayTag { line, tag, instead }| {
            let file = file.clone();
            Warning::StrayTag { file, line, tag, instead }
        })
    });
    stray.collect()
}

/// Returns the errors of pages whose names are wrong, or whose route belongs to another page.
fn clashes(source: &Path, code: &[CodeFile]) -> Vec<CodeError> {
    let mut routes = Routes::default();
    let clash = |page: &CodeFile| {
        let path = std::str::from_utf8(&page.path).ok()?;
        let file = page.relative();
        let message = routes.add(path, ShownPath(&source.join(&file)).to_string()).err()?;
        Some(CodeError { file, line: None, message, ..CodeError::default() })
    };
    code.iter().filter_map(clash).collect()
}

struct CodeReader<'f> {
    source: &'f Path,
    found: &'f FoundFiles,
    /// The paths of the code, below the source.
    places: BTreeMap<&'f [u8], PathBuf>,
    /// The files that were read so far, with the plain files that pages include.
    files: SiteCode,
    bytes: u64,
    errors: Vec<CodeError>,
}

impl CodeReader<'_> {
    /// Reads a file, or notes why it cannot be read.
    fn read(&mut self, path: &[u8], file: PathBuf) {
        match self.content(&file) {
            Ok(content) => drop(self.files.insert(path.into(), content)),
            Err(message) => {
                self.errors.push(CodeError { file, line: None, message, ..CodeError::default() });
            }
        }
    }

    fn content(&mut self, file: &Path) -> Result<Vec<u8>, String> {
        let text = |reason: Reason| reason.to_string();
        let source = OpenSource::open(&self.source.join(file)).map_err(text)?;
        let bytes = source.stamp().bytes;
        if bytes > CODE_FILE_MAX_BYTES {
            return Err(format!(
                "larger than {CODE_FILE_MAX_BYTES} bytes, the limit of a Lua file"
            ));
        }
        self.bytes += bytes;
        // The archive counts the paths too.
        if self.bytes > CODE_SECTION_MAX_BYTES {
            let limit = CODE_SECTION_MAX_BYTES;
            return Err(format!("with it all code is larger than {limit} bytes, the limit"));
        }
        source.read().map_err(text)
    }

    /// Compiles a page, and reads the other files that it includes.
    fn prove(&mut self, page: &CodeFile) {
        let Ok(path) = std::str::from_utf8(&page.path) else {
            let message = "a page needs a name in UTF-8".to_owned();
            return self.errors.push(CodeError {
                file: page.relative(),
                line: None,
                message,
                ..CodeError::default()
            });
        };
        loop {
            // The includes of a page are known only by compiling it.
            let missing = RefCell::new(BTreeSet::new());
            let compiled = compile(path, |path| {
                let content = self.files.get(path.as_bytes()).map(Vec::as_slice);
                if content.is_none() {
                    missing.borrow_mut().insert(path.to_owned());
                }
                content
            });
            let errors = self.errors.len();
            let mut is_more = false;
            for path in missing.into_inner() {
                is_more |= self.read_plain(&path);
            }
            if is_more && self.errors.len() == errors {
                continue;
            }
            if let (Err(problem), false) = (compiled, is_more) {
                let file = self.place_of(problem.file.as_bytes());
                let (line, message) = (Some(problem.line), problem.message);
                self.errors.push(CodeError { file, line, message, ..CodeError::default() });
            }
            return;
        }
    }

    /// Reads a file of the content that a page includes; whether there is one.
    fn read_plain(&mut self, path: &str) -> bool {
        let key = path.as_bytes();
        if self.found.files.binary_search_by(|file| (*file.key).cmp(key)).is_err() {
            return false;
        }
        self.read(key, self.place_of(key));
        true
    }

    /// Returns where a file lies, by its path in the archive.
    fn place_of(&self, path: &[u8]) -> PathBuf {
        let content = || Path::new(self.found.content).join(relative(path));
        self.places.get(path).cloned().unwrap_or_else(content)
    }
}
