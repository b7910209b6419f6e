//! Lua as it lies on the disk or in an archive, as the program that workers run.

use crate::failure::Failure;
use crate::regular_file;
use crate::served_source;
use anyhow::anyhow;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pinion_archive::Archive;
use pinion_builder::CodeError;
use pinion_engine::clock::Now;
use pinion_jobs::confined_folders::{FolderAt, Folders};
use pinion_lua::script_quotas::Allowance;
use pinion_lua::shared_site_state::ScriptSite;
use pinion_lua::site_program::SiteProgram;
use pinion_lua::source_names::SourceNames;
use pinion_lua::worker_scripts;
use pinion_template::file_name::main_script;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder of the content, where code lies beside it.
const CONTENT_FOLDER: &str = "public_html";

/// Most of a script: more than any that people write, and little enough to be read at once.
const SCRIPT_MAX_MIB: u64 = 8;

/// A program that was run once.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) program: SiteProgram,
    /// Warnings about code that its author may not have meant, each with file and line.
    pub(crate) warnings: Vec<String>,
}

impl Proven {
    /// Runs a program once, as every worker of its site will.
    ///
    /// # Errors
    /// [`Failure::Failed`]: the mistake with its file and line, and its stack.
    fn of(program: SiteProgram, site: &ScriptSite) -> Result<Self, Failure> {
        let warnings =
            worker_scripts::prove(&program, site, Now::read()).map_err(anyhow::Error::new)?;
        Ok(Self { program, warnings })
    }
}

/// Reads a script and runs it once, as every worker of its site will, within its limits.
///
/// # Errors
/// [`Failure::Failed`]: one line with the file, and for a mistake in it the line.
pub(crate) fn proven(
    path: &Path,
    allowance: Allowance,
    site: &ScriptSite,
) -> Result<Proven, Failure> {
    Proven::of(alone(path, allowance)?, site)
}

/// Reads a script as a program at the command line, and runs nothing of it.
///
/// # Errors
/// [`Failure::Failed`]: one line with the file, or with `MASTER_KEY`.
pub(crate) fn alone(path: &Path, allowance: Allowance) -> Result<SiteProgram, Failure> {
    let shown = path.display();
    if path.try_exists().is_ok_and(|exists| !exists) {
        let remark = served_source::unexpanded(path);
        return Err(anyhow!("{shown} does not exist; give the path of a Lua script{remark}").into());
    }
    let text = regular_file::read(path, SCRIPT_MAX_MIB);
    let text = text.map_err(|message| anyhow!("{shown} {message}"))?;
    with_key(SiteProgram::new(&path.to_string_lossy(), text).allowed(allowance))
}

/// Opens the folders in which scripts have files.
///
/// # Errors
/// [`Failure::Usage`]: one line with the folder that cannot be opened.
pub(crate) fn folders(named: &[FolderAt]) -> Result<Folders, Failure> {
    let opened = Folders::open(named, pinion_builder::file_type);
    opened.map_err(|why| Failure::usage(format!("--lua-folder: {why}")))
}

/// Returns the program of an archive, run once, as every worker of its site will; `None` for a
/// static site. `path` is the folder or the archive, for messages.
///
/// # Errors
/// [`Failure::Failed`]: damage of the archive, or a mistake with file and line.
pub(crate) fn of_archive(
    archive: &Archive<'_>,
    path: &Path,
    allowance: Allowance,
    site: &ScriptSite,
) -> Result<Option<Proven>, Failure> {
    let code = archive.code();
    let code = code.map_err(|damage| anyhow!("{}: {damage}", path.display()))?;
    of_code(path, code.iter(), allowance, site)
}

/// Returns the program of some code, paths and contents, as [`of_archive`].
///
/// # Errors
/// [`Failure::Failed`]: a mistake with file and line.
pub(crate) fn of_code<'c>(
    path: &Path,
    code: impl Iterator<Item = (&'c [u8], &'c [u8])>,
    allowance: Allowance,
    site: &ScriptSite,
) -> Result<Option<Proven>, Failure> {
    let program = program(path, &code.collect::<Vec<_>>())?;
    if program.is_empty() {
        return Ok(None);
    }
    Proven::of(with_key(program)?.allowed(allowance), site).map(Some)
}

/// Returns the syntax errors in the Lua files among some code, also where a page keeps the site
/// from being built.
pub(crate) fn syntax_errors(path: &Path, code: &[(Box<[u8]>, Vec<u8>)]) -> Vec<String> {
    let code: Vec<(&[u8], &[u8])> = code.iter().map(|(path, text)| (&**path, &**text)).collect();
    let Ok(program) = program(path, &code) else { return Vec::new() };
    let wrong = worker_scripts::syntax_errors(&program).unwrap_or_default();
    wrong.iter().map(ToString::to_string).collect()
}

/// Returns the syntax errors in the Lua files of a folder, for a build of it.
pub(crate) fn code_errors(folder: &Path, code: &BTreeMap<Box<[u8]>, Vec<u8>>) -> Vec<CodeError> {
    let code: Vec<_> = code.iter().map(|(path, text)| (path.clone(), text.clone())).collect();
    let error = |reason: String| {
        let located = reason.split_once(": ").and_then(|(place, message)| {
            let (file, line) = place.rsplit_once(':')?;
            let file = Path::new(file).strip_prefix(folder).ok()?.to_owned();
            Some((file, Some(line.parse().ok()?), message.to_owned()))
        });
        let (file, line, message) = located.unwrap_or((PathBuf::new(), None, reason));
        CodeError { file, line, message, folder: folder.to_owned() }
    };
    syntax_errors(folder, &code).into_iter().map(error).collect()
}

/// Returns the program to run: a main script, or pages, or both. The program of a static site is
/// empty.
fn program(site: &Path, code: &[(&[u8], &[u8])]) -> Result<SiteProgram, Failure> {
    // Where code lies beside the content, a path of one slash is one of the content.
    let has_folder = code.iter().any(|(path, _)| path.starts_with(b"//"))
        || code.first().is_some_and(|(path, _)| lies_in_content_folder(site, path));
    let main = main_script(|main| code.iter().find(|(path, _)| *path == main.as_bytes()));
    let folder = site.to_string_lossy();
    let names = SourceNames::of_folder(&folder, has_folder.then_some(CONTENT_FOLDER));
    let name = main.as_ref().map_or(folder.into_owned(), |(path, _)| names.name(path));
    // Names that pages and `require` can use are text.
    let named = |(path, text): &(&[u8], &[u8])| {
        Some((std::str::from_utf8(path).ok()?.to_owned(), text.to_vec()))
    };
    let files = code.iter().filter_map(named);
    let main = main.map(|(_, (_, text))| text.to_vec());
    Ok(SiteProgram::of_code(&name, main, names, files).map_err(anyhow::Error::new)?)
}

/// Returns whether a file of code lies below the folder for the content of a site on the disk.
fn lies_in_content_folder(site: &Path, path: &[u8]) -> bool {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    site.join(CONTENT_FOLDER).join(OsStr::from_bytes(relative)).is_file()
}

/// The variable of the environment that has the key for links and for `pinion.crypto.key`.
const MASTER_KEY: &str = "MASTER_KEY";

/// Returns the program with the master key of the environment, if there is one.
///
/// # Errors
/// [`Failure::Failed`]: one line about a key that is too short or not valid Base64.
fn with_key(program: SiteProgram) -> Result<SiteProgram, Failure> {
    let Some(key) = std::env::var_os(MASTER_KEY) else { return Ok(program) };
    let key = master_key(key.as_encoded_bytes()).map_err(|why| anyhow!("{MASTER_KEY} {why}"))?;
    let keyed = program.with_master_key(&key);
    Ok(keyed.map_err(|why| anyhow!("{MASTER_KEY} in the environment: {why}"))?)
}

/// Decodes a key: the bytes after `b64:` are Base64, any other text is the key.
///
/// # Errors
/// A phrase to follow the name of the variable.
fn master_key(text: &[u8]) -> Result<Vec<u8>, String> {
    let Some(coded) = text.strip_prefix(b"b64:") else { return Ok(text.to_vec()) };
    BASE64_STANDARD.decode(coded).map_err(|error| {
        let error = error.to_string();
        // The library writes a sentence.
        let (first, rest) = error.trim_end_matches('.').split_at(1);
        format!("is not valid base64 after \"b64:\" ({}{rest})", first.to_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &[(&'static str, &'static str)]) -> Option<SiteProgram> {
        let code = code.iter().map(|(path, text)| (path.as_bytes(), text.as_bytes()));
        let program = program(Path::new("site"), &code.collect::<Vec<_>>()).ok()?;
        (!program.is_empty()).then_some(program)
    }

    #[test]
    fn the_main_script_and_its_name_are_determined() {
        let name = |code: &[(&'static str, &'static str)]| {
            found(code).map(|program| program.name().to_owned())
        };
        let (inner, outer) = (("/main.lua", "inner"), ("//main.lua", "outer"));
        let page = ("/a.dyn.html", "page");
        assert_eq!(name(&[inner]).as_deref(), Some("site/main.lua"));
        assert_eq!(name(&[outer, inner]).as_deref(), Some("site/main.lua"));
        let lib = ("//lib.lua", "");
        assert_eq!(name(&[lib, inner]).as_deref(), Some("site/public_html/main.lua"));
        assert_eq!(name(&[lib, page]).as_deref(), Some("site"));
        assert_eq!(name(&[lib, ("/a/main.lua", ""), ("/a.priv.html", "")]), None);
        assert_ne!(found(&[outer, inner]), found(&[inner]));
    }

    #[test]
    fn a_master_key_is_plain_or_base64() {
        assert_eq!(master_key(b"0123456789abcdef").as_deref(), Ok(&b"0123456789abcdef"[..]));
        assert_eq!(master_key(b"b64:AAEC").as_deref(), Ok(&[0, 1, 2][..]));
        let wrong = "is not valid base64 after \"b64:\" (invalid symbol 33, offset 0)";
        assert_eq!(master_key(b"b64:!!!!"), Err(wrong.to_owned()));
        for coded in ["b64:A", "b64:AAE", "b64:A\u{e4}==", "b64:*", "b64:AAF="] {
            let why = master_key(coded.as_bytes()).expect_err(coded);
            assert!(why.starts_with("is not valid base64") && why.ends_with(')'), "{why}");
        }
    }

    /// Where a site has a folder for its content, messages name the files in it.
    #[test]
    fn a_page_is_named_by_its_path_on_disk() {
        let folder = std::env::temp_dir().join(format!("pinion-script-{}", std::process::id()));
        let content = folder.join(CONTENT_FOLDER);
        std::fs::create_dir_all(&content).expect("a folder");
        std::fs::write(content.join("a.dyn.html"), "page").expect("a file");
        let page: [(&[u8], &[u8]); 1] = [(b"/a.dyn.html", b"page")];
        let named = program(&folder, &page).map(|program| program.names().name("/a.dyn.html"));
        let other: [(&[u8], &[u8]); 1] = [(b"/b.dyn.html", b"page")];
        let other = program(&folder, &other).map(|program| program.names().name("/b.dyn.html"));
        std::fs::remove_dir_all(&folder).expect("removed");
        let shown = |path: &Path| path.display().to_string();
        assert_eq!(named.expect("a program"), shown(&content.join("a.dyn.html")));
        assert_eq!(other.expect("a program"), shown(&folder.join("b.dyn.html")));
    }

    #[test]
    fn a_syntax_error_is_reported_with_its_line() {
        let code: [(&[u8], &[u8]); 1] = [(b"/main.lua", b"local x\nif x\n")];
        let (path, allowance) = (Path::new("site"), Allowance::default());
        let program = of_code(path, code.into_iter(), allowance, &ScriptSite::default());
        let failure = program.err().and_then(|f| f.reason());
        let reason = failure.expect("a mistake");
        assert!(reason.starts_with("site/main.lua:"), "{reason}");
    }
}
