//! Lua as it lies on the disk or in an archive, as the program that workers run.

use crate::failure::Failure;
use crate::regular_file;
use anyhow::anyhow;
use pinion_archive::Archive;
use pinion_lua::program::Program;
use pinion_lua::scripts;
use std::path::Path;

/// Most of a script: more than any that people write, and little enough to be read at once.
const SCRIPT_MAX_MIB: u64 = 8;

/// The paths in an archive at which a program begins; the first one that is there counts.
const MAINS: [&[u8]; 2] = [b"//main.lua", b"/main.lua"];

/// Reads a script and runs it once, as every worker will.
///
/// # Errors
/// [`Failure::Failed`]: one line with the file, and for a mistake in it the line.
pub(crate) fn proven(path: &Path) -> Result<Program, Failure> {
    let shown = path.display();
    let text = regular_file::read(path, SCRIPT_MAX_MIB);
    let text = text.map_err(|what| anyhow!("{shown} {what}"))?;
    let program = Program::new(&path.to_string_lossy(), text);
    scripts::prove(&program).map_err(|problem| anyhow!("{problem}"))?;
    Ok(program)
}

/// The program of an archive, run once, as every worker will; none of a static site. `site` is the
/// folder or the archive, for messages.
///
/// # Errors
/// [`Failure::Failed`]: damage of the archive, or a mistake with file and line.
pub(crate) fn of_archive(archive: &Archive<'_>, site: &Path) -> Result<Option<Program>, Failure> {
    let code = archive.code();
    let code = code.map_err(|damage| anyhow!("{}: {damage}", site.display()))?;
    of_code(site, code.iter())
}

/// The program of some code, paths and contents, as [`of_archive`].
///
/// # Errors
/// [`Failure::Failed`]: a mistake with file and line.
pub(crate) fn of_code<'c>(
    site: &Path,
    code: impl Iterator<Item = (&'c [u8], &'c [u8])>,
) -> Result<Option<Program>, Failure> {
    let Some(program) = program(site, &code.collect::<Vec<_>>()) else { return Ok(None) };
    scripts::prove(&program).map_err(|problem| anyhow!("{problem}"))?;
    Ok(Some(program))
}

/// What is run. Without a main script there is nothing to run.
fn program(site: &Path, code: &[(&[u8], &[u8])]) -> Option<Program> {
    let (path, text) = MAINS.iter().find_map(|main| code.iter().find(|(path, _)| path == main))?;
    // Where code lies beside the content, a path of one slash is one of the content.
    let has_folder = code.iter().any(|(path, _)| path.starts_with(b"//"));
    let folder = match has_folder && !path.starts_with(b"//") {
        true => site.join("public_html"),
        false => site.to_owned(),
    };
    Some(Program::new(&folder.join("main.lua").to_string_lossy(), text.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &[(&'static str, &'static str)]) -> Option<Program> {
        let code = code.iter().map(|(path, text)| (path.as_bytes(), text.as_bytes()));
        program(Path::new("site"), &code.collect::<Vec<_>>())
    }

    #[test]
    fn what_is_run_and_what_it_is_called() {
        let program = |name: &str, text: &str| Some(Program::new(name, text.as_bytes().to_vec()));
        let (inner, outer) = (("/main.lua", "inner"), ("//main.lua", "outer"));
        assert_eq!(found(&[inner]), program("site/main.lua", "inner"));
        assert_eq!(found(&[outer, inner]), program("site/main.lua", "outer"));
        let lib = ("//lib.lua", "");
        assert_eq!(found(&[lib, inner]), program("site/public_html/main.lua", "inner"));
        assert_eq!(found(&[lib, ("/a.dyn.html", ""), ("/a/main.lua", "")]), None);
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let code: [(&[u8], &[u8]); 1] = [(b"/main.lua", b"local x\nif x\n")];
        let failure = of_code(Path::new("site"), code.into_iter()).err().and_then(|f| f.reason());
        let reason = failure.expect("a mistake");
        assert!(reason.starts_with("site/main.lua:"), "{reason}");
    }
}
