//! A folder, looked at as a build would, without building it.

use std::path::Path;

use crate::build::rules;
use crate::error::BuildError;
use crate::names::Names;
use crate::options::Options;
use crate::summary::Warning;
use crate::walk::{FileId, walk};

/// What is wrong with the names of a folder and with its rules. No content is read but that of
/// rules files.
///
/// # Errors
/// [`BuildError`], as a build would fail before it reads content, with all problems and all errors
/// in rules at once.
pub fn examine(source: &Path, options: &Options) -> Result<Vec<Warning>, BuildError> {
    let names = Names::new(&options.exclude)?;
    let left_out: Vec<FileId> = options.named_files().collect();
    let found = walk(source, &names, &left_out, 0)?;
    let mut rules = rules(source, options, &found, &left_out)?;
    if !found.problems.is_empty() && !options.keep_going {
        return Err(BuildError::Problems(found.problems));
    }
    rules.warnings.sort_unstable();
    Ok(rules.warnings)
}
