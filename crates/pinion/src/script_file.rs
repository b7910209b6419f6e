//! A Lua script on the disk, as the program that workers run.

use crate::failure::Failure;
use crate::regular_file;
use anyhow::anyhow;
use pinion_lua::program::Program;
use pinion_lua::scripts;
use std::path::Path;

/// Most of a script: more than any that people write, and little enough to be read at once.
const SCRIPT_MAX_MIB: u64 = 8;

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
