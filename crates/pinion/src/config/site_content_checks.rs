//! Checks the content of a site: a folder with its rules and its Lua code, or an archive.

use super::fault::{ConfigFault, TextPlace};
use crate::archive_file::ArchiveFile;
use crate::build_notes;
use crate::failure::{Failure, without_number};
use crate::lua_program_loader;
use crate::server::mounts::Mounts;
use crate::server::php::unrun_scripts::{UNRUN, first_unrun, is_run};
use pinion_builder::{BuildError, CodeError, Examined, FileProblem, Options, RuleError};
use pinion_lua::script_quotas::Allowance;
use pinion_lua::shared_site_state::ScriptSite;
use std::fmt::Display;
use std::path::Path;

/// The warnings and notes about a folder without faults.
#[derive(Debug, Default)]
pub(crate) struct CheckNotes {
    /// Rules without effect.
    pub(crate) warnings: Vec<String>,
    /// Files of it that are left out, and files that clients keep.
    pub(crate) notes: Vec<String>,
}

impl CheckNotes {
    /// Adds the warnings and notes about another folder.
    pub(super) fn add(&mut self, other: Self) {
        self.warnings.extend(other.warnings);
        self.notes.extend(other.notes);
    }
}

/// Returns the faults in an archive or in its code; without any, a note that its contents were not
/// verified.
pub(crate) fn examine_archive(path: &Path, allowance: Allowance) -> Result<CheckNotes, Failure> {
    let file = ArchiveFile::open(path)?;
    let proven =
        lua_program_loader::of_archive(&file.view(), path, allowance, &ScriptSite::default())?;
    let warnings = proven.map(|proven| proven.warnings).unwrap_or_default();
    let shown = path.display();
    let note =
        format!("{shown}: its contents were not verified; `pinion verify {shown}` does that");
    Ok(CheckNotes { notes: vec![note], warnings })
}

/// Returns the faults in the files of a folder; without any, the warnings and notes about it.
pub(crate) fn examine_folder(
    folder: &Path,
    options: &Options,
    allowance: Allowance,
    mounts: Option<&Mounts>,
) -> Result<CheckNotes, Vec<ConfigFault>> {
    let on_disk = |file: &Path| pinion_builder::path_on_disk(folder, file);
    match pinion_builder::examine(folder, options) {
        Ok(examined) => {
            let Examined { skipped, excluded, .. } = &examined;
            let unrun = mounts.and_then(|mounts| first_unrun(skipped, excluded, mounts));
            if let Some(script) = unrun {
                return Err(vec![ConfigFault::of(&folder.join(script), UNRUN)]);
            }
            let code = examined.code.iter().map(|(path, content)| (&**path, &**content));
            let proven = match lua_program_loader::of_code(
                folder,
                code,
                allowance,
                &ScriptSite::default(),
            ) {
                Ok(proven) => proven,
                Err(failure) => return Err(faults_of_code(folder, &failure, &examined.code)),
            };
            let code_warnings = proven.map(|proven| proven.warnings).unwrap_or_default();
            let shown = |text: &dyn Display| format!("{}: {text}", folder.display());
            let left_out =
                examined.problems.iter().map(|problem| shown(&format_args!("left out {problem}")));
            let warnings = examined
                .warnings
                .iter()
                .map(|warning| warning.of_rule(folder).unwrap_or_else(|| shown(warning)));
            let warnings = left_out.chain(warnings).chain(code_warnings).collect();
            let is_run = |path: &Path| mounts.is_some_and(|mounts| is_run(path, mounts));
            let notes = build_notes::of_examined(&examined, is_run);
            Ok(CheckNotes { warnings, notes: notes.iter().map(|note| shown(note)).collect() })
        }
        Err(BuildError::Code(errors)) => {
            let fault = |CodeError { file, line, message, .. }: &CodeError| match line {
                Some(line) => {
                    let place = TextPlace::of_line(*line as usize);
                    ConfigFault::at(&on_disk(file), place, message.clone())
                }
                None => ConfigFault::of(&on_disk(file), message.clone()),
            };
            Err(errors.iter().map(fault).chain(syntax_errors(folder, options)).collect())
        }
        Err(BuildError::Rules(errors)) => {
            let fault = |RuleError { file, line, column, expected }: &RuleError| {
                let place = TextPlace { line: *line, column: *column };
                ConfigFault::at(&on_disk(file), place, format!("expected {expected}"))
            };
            Err(errors.iter().map(fault).chain(syntax_errors(folder, options)).collect())
        }
        Err(BuildError::Problems(problems) | BuildError::UnreadRules(problems)) => {
            let fault = |problem: &FileProblem| {
                let reason = without_number(&problem.reason.to_string());
                ConfigFault::of(&on_disk(&problem.path), reason)
            };
            Err(problems.iter().map(fault).collect())
        }
        Err(error) => Err(vec![ConfigFault::of(folder, without_number(&error.to_string()))]),
    }
}

/// Returns the syntax errors in the Lua files of a folder that cannot be built.
fn syntax_errors(folder: &Path, options: &Options) -> Vec<ConfigFault> {
    let scripts = pinion_builder::scripts(folder, options);
    let wrong = lua_program_loader::syntax_errors(folder, &scripts);
    wrong.iter().map(|reason| of_code(folder, reason)).collect()
}

/// Returns the faults in the code of a folder: the reason why it did not start, and the syntax
/// errors in its other files.
fn faults_of_code(
    folder: &Path,
    failure: &Failure,
    code: &[(Box<[u8]>, Vec<u8>)],
) -> Vec<ConfigFault> {
    let first = of_code(folder, &failure.reason().unwrap_or_default());
    let others = lua_program_loader::syntax_errors(folder, code);
    let others = others.iter().map(|reason| of_code(folder, reason));
    let others: Vec<ConfigFault> = others.filter(|fault| *fault != first).collect();
    [vec![first.with_stack(failure.stack())], others].concat()
}

/// Returns the fault in the code of a site, in its file and line if the reason names them.
pub(crate) fn of_code(source: &Path, reason: &str) -> ConfigFault {
    let named = reason.split_once(": ").and_then(|(place, message)| {
        let (file, line) = place.rsplit_once(':')?;
        let is_within = Path::new(file).starts_with(source);
        let line = line.parse().ok().filter(|_| is_within)?;
        Some(ConfigFault::at(Path::new(file), TextPlace::of_line(line), message))
    });
    // For a limit of memory the line is not always known.
    let of_file = || {
        let (file, message) = reason.split_once(": ")?;
        let file = Path::new(file);
        (file != source && file.starts_with(source)).then(|| ConfigFault::of(file, message))
    };
    named.or_else(of_file).unwrap_or_else(|| ConfigFault::of(source, without_name(source, reason)))
}

/// Returns a reason without the name of the file at its beginning: a fault begins with it anyway.
fn without_name<'r>(file: &Path, reason: &'r str) -> &'r str {
    let rest = reason.strip_prefix(&*file.to_string_lossy());
    let rest = rest.and_then(|rest| rest.strip_prefix([':', ' ']));
    rest.map_or(reason, str::trim_start)
}
