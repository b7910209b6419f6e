//! A folder, looked at as a build would, without building it.

use std::path::Path;

use crate::build::rules;
use crate::code;
use crate::dynamic;
use crate::error::BuildError;
use crate::names::Names;
use crate::options::Options;
use crate::summary::Warning;
use crate::walk::{FileId, walk};

/// A folder that a build would take.
#[derive(Debug)]
pub struct Examined {
    /// What the author may want to know, sorted.
    pub warnings: Vec<Warning>,
    /// The code that the archive would have: paths and contents, by rising path.
    pub code: Vec<(Box<[u8]>, Vec<u8>)>,
}

/// What is wrong with the names of a folder, with its rules and with its templates. No content is
/// read but that of rules files, code, and what templates include.
///
/// # Errors
/// [`BuildError`], as a build would fail before it reads content, with all problems and all errors
/// in rules at once.
pub fn examine(source: &Path, options: &Options) -> Result<Examined, BuildError> {
    let names = Names::new(&options.exclude)?;
    let left_out: Vec<FileId> = options.named_files().collect();
    let found = walk(source, &names, &left_out, 0)?;
    let mut rules = rules(source, options, &found, &left_out)?;
    if !found.problems.is_empty() && !options.keep_going {
        return Err(BuildError::Problems(found.problems));
    }
    let code = code::read(source, &found)?;
    rules.warnings.extend(dynamic::doubts(&found));
    rules.warnings.extend(dynamic::doubts(&found));
    rules.warnings.sort_unstable();
    Ok(Examined { warnings: rules.warnings, code: code.into_iter().collect() })
}
