//! The results of verbs that did not succeed, and their exit codes: 1 if the work failed, 2 if the
//! command line or the configuration is wrong, 0 if only the reader of the output has gone.
//!
//! A failure is reported as one line for each single fault, one line that says what to do, and the
//! stack of a script that has failed.

use crate::config::ConfigFault;
use crate::terminal::counted;
use pinion_builder::{CodeError, FileProblem, RuleError};
use pinion_engine::stderr;
use pinion_lua::script_load_error::ScriptProblem as LuaProblem;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The result of a verb that did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or the configuration is wrong; nothing was started.
    Usage(String),
    /// The command line was correct, but the work failed.
    Failed(anyhow::Error),
    /// Files of a folder cannot be published, so nothing was built.
    UnusableFiles(Vec<FileProblem>),
    /// Faults in a configuration file; nothing was started.
    ConfigFaults(Vec<ConfigFault>),
    /// Rules files that cannot be read.
    UnreadableRules(Vec<FileProblem>),
    /// Rules files with errors.
    InvalidRules(Vec<RuleError>),
    /// Code of a dynamic site that cannot be read, or has errors.
    InvalidCode(Vec<CodeError>),
    /// A site that has a host of its own cannot be built: the host, and the failure.
    InSite(String, Box<Self>),
    /// Several sites cannot be loaded, each for its own reason; at least two.
    SeveralSites(Vec<Self>),
    /// The exit code is 1, and nothing is reported: the verb has already written its result or its
    /// error. It is also the result of `diff --exit-code` for archives that differ.
    AlreadyReported,
    /// The exit code is 2, and nothing is reported: the faults in a configuration or in rules files
    /// are reported already.
    AlreadyReportedConfig,
    /// The reader of our output has gone (`pinion ls site.pinion | head`). This is not a failure:
    /// the exit code is 0.
    ReaderGone,
}

impl Failure {
    /// Returns the failure of a wrong command line; `message` is one line with the advice.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// Returns the failure of a build for the site of a server: relative paths of its files are
    /// joined with the folder `source`, and the messages begin with the host, if there is one.
    /// Other failures are returned as they are.
    pub(crate) fn with_site(mut self, source: &Path, host: Option<&str>) -> Self {
        let on_disk = |file: &mut PathBuf| *file = pinion_builder::path_on_disk(source, file);
        match &mut self {
            Self::InvalidRules(errors) => {
                errors.iter_mut().for_each(|error| on_disk(&mut error.file));
            }
            Self::UnusableFiles(problems) | Self::UnreadableRules(problems) => {
                problems.iter_mut().for_each(|problem| on_disk(&mut problem.path));
            }
            Self::InvalidCode(_) => {}
            _ => return self,
        }
        match host {
            Some(host) => Self::InSite(host.to_owned(), Box::new(self)),
            None => self,
        }
    }

    /// Reports the failure on stderr and returns its exit code.
    pub(crate) fn report(self) -> ExitCode {
        self.print();
        self.exit_code()
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_)
            | Self::ConfigFaults(_)
            | Self::UnreadableRules(_)
            | Self::InvalidRules(_)
            | Self::AlreadyReportedConfig => ExitCode::from(2),
            Self::Failed(_)
            | Self::UnusableFiles(_)
            | Self::InvalidCode(_)
            | Self::AlreadyReported => ExitCode::from(1),
            Self::InSite(_, failure) => failure.exit_code(),
            Self::SeveralSites(failures) => {
                failures.first().map_or(ExitCode::FAILURE, Self::exit_code)
            }
            Self::ReaderGone => ExitCode::SUCCESS,
        }
    }

    /// Reports the failure on stderr at once, and returns a failure that is not reported again.
    /// Verbs use it that have already written a JSON document to stdout.
    pub(crate) fn printed(self) -> Self {
        self.print();
        if matches!(self, Self::ReaderGone) { self } else { Self::AlreadyReported }
    }

    /// Reports the failure of a server that does not start, and returns a failure that is not
    /// reported again. First comes a line for each single fault, then `cannot start:` with the
    /// reason, then the stack of a script that has failed.
    ///
    /// A wrong command line is returned as it is: its report is the line that names the flag.
    pub(crate) fn reported_as_start_failure(self) -> Self {
        let reason = match &self {
            Self::Usage(_)
            | Self::AlreadyReported
            | Self::AlreadyReportedConfig
            | Self::ReaderGone => return self,
            Self::ConfigFaults(faults) => {
                let file = faults.first().map(|fault| fault.file.display().to_string());
                let errors = counted(faults.len() as u64, "error");
                format!("{errors} in {}", file.unwrap_or_default())
            }
            _ => self.reason().unwrap_or_default(),
        };
        for part in self.parts() {
            stderr::line(format_args!("pinion: {part}"));
        }
        stderr::line(format_args!("pinion: cannot start: {reason}"));
        self.print_stack();
        if self.exit_code() == ExitCode::from(2) {
            Self::AlreadyReportedConfig
        } else {
            Self::AlreadyReported
        }
    }

    /// Returns the reason in one line; `None` if it is reported already, or if there is no reason
    /// to report.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Usage(message) => Some(message.clone()),
            Self::Failed(error) => Some(one_line(error)),
            Self::UnusableFiles(problems) => {
                let (paths, them) = counted_as(problems.len(), "path");
                Some(format!(
                    "nothing was built because {paths} cannot be published; correct {them}, or \
                     leave {them} out with --exclude or --keep-going"
                ))
            }
            Self::UnreadableRules(problems) => {
                let (files, _) = counted_as(problems.len(), "rules file");
                Some(format!(
                    "nothing was built because {files} cannot be read; correct the path or the \
                     permissions"
                ))
            }
            Self::InvalidRules(errors) => {
                let (errors, them) = counted_as(errors.len(), "error");
                Some(format!(
                    "nothing was built because of {errors} in rules files; correct {them}, or \
                     skip the wrong lines with --lax-rules"
                ))
            }
            Self::InvalidCode(errors) => {
                let (errors, them) = counted_as(errors.len(), "error");
                Some(format!("nothing was built because of {errors} in code; correct {them}"))
            }
            Self::InSite(host, failure) => Some(format!("site {host}: {}", failure.reason()?)),
            Self::SeveralSites(failures) => {
                let sites = counted(failures.len() as u64, "site");
                Some(format!("{sites} cannot be loaded; correct what the lines above say"))
            }
            Self::ConfigFaults(faults) => {
                let lines: Vec<String> = faults.iter().map(ConfigFault::to_string).collect();
                (!lines.is_empty()).then(|| lines.join("; "))
            }
            Self::AlreadyReported | Self::AlreadyReportedConfig | Self::ReaderGone => None,
        }
    }

    fn print(&self) {
        let parts = self.parts();
        for part in &parts {
            stderr::line(format_args!("pinion: {part}"));
        }
        // The reason of these would repeat the faults that were printed above.
        let reason_repeats_parts = matches!(self, Self::ConfigFaults(_));
        if let Some(reason) = self.reason().filter(|_| !reason_repeats_parts) {
            stderr::line(format_args!("pinion: {reason}"));
        }
        self.print_stack();
    }

    fn print_stack(&self) {
        for line in self.stack() {
            stderr::line(format_args!("pinion:   {line}"));
        }
    }

    /// Returns the lines of the stack of a script that has failed while it started, with their
    /// heading; none for anything else.
    pub(crate) fn stack(&self) -> Vec<String> {
        let problem = match self {
            Self::Failed(error) => error.downcast_ref::<LuaProblem>(),
            Self::InSite(_, failure) => return failure.stack(),
            _ => None,
        };
        let without_control = |c: char| if c.is_control() { ' ' } else { c };
        let lines = problem.into_iter().flat_map(LuaProblem::stack);
        lines.map(|line| line.chars().map(without_control).collect()).collect()
    }

    /// Returns a message for each single fault. If there are none, returns the reason, with the
    /// stack of the script below it.
    pub(crate) fn messages(&self) -> Vec<String> {
        let parts = self.parts();
        if !parts.is_empty() {
            return parts;
        }
        let with_stack = |reason| [vec![reason], self.stack()].concat().join("\n");
        self.reason().map(with_stack).into_iter().collect()
    }

    /// Returns a message for each single fault that the failure consists of. It has none if it is a
    /// single reason.
    fn parts(&self) -> Vec<String> {
        match self {
            Self::UnusableFiles(problems) | Self::UnreadableRules(problems) => {
                problems.iter().map(ToString::to_string).collect()
            }
            Self::InvalidRules(errors) => errors.iter().map(ToString::to_string).collect(),
            Self::InvalidCode(errors) => errors.iter().map(ToString::to_string).collect(),
            Self::ConfigFaults(faults) => faults.iter().map(ToString::to_string).collect(),
            Self::InSite(host, failure) => {
                failure.parts().iter().map(|part| format!("site {host}: {part}")).collect()
            }
            Self::SeveralSites(failures) => failures.iter().flat_map(Self::messages).collect(),
            _ => Vec::new(),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast_ref::<io::Error>() {
            Some(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Failed(error),
        }
    }
}

/// Converts an error of writing to stdout. Only such errors are converted: other I/O errors get a
/// context that names their operation first.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        anyhow::Error::from(error).context("cannot write to stdout").into()
    }
}

/// Returns a number of things, and the pronoun for them.
fn counted_as(number: usize, thing: &str) -> (String, &'static str) {
    (counted(number as u64, thing), if number == 1 { "it" } else { "them" })
}

/// Returns the whole chain of causes on one line, the outermost first.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = without_number(&cause.to_string());
        // Many error types repeat their source in their own text; saying it once is enough.
        if line.ends_with(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        for c in text.chars() {
            match c {
                '\n' => line.push(' '),
                // A file name may hold anything; a terminal must not obey it.
                c if c.is_control() => {
                    let _infallible = write!(line, "\\u{{{:x}}}", u32::from(c));
                }
                c => line.push(c),
            }
        }
    }
    line
}

/// Converts `No such file or directory (os error 2)` to `No such file or directory`.
pub(crate) fn without_number(text: &str) -> String {
    match text.rsplit_once(" (os error ") {
        Some((reason, number)) if number.trim_end_matches(')').parse::<i32>().is_ok() => {
            reason.to_owned()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_chain_is_one_line_without_error_numbers() {
        let missing = io::Error::from_raw_os_error(2);
        let error = Err::<(), _>(missing).context("cannot open\nsite.pinion").unwrap_err();
        assert_eq!(one_line(&error), "cannot open site.pinion: No such file or directory");
    }

    /// The message of each error names the flags that continue in spite of it.
    #[test]
    fn the_message_of_a_stopped_build_names_the_flags_that_continue_it() {
        let file = || "a".into();
        let problem = || FileProblem { path: file(), reason: pinion_builder::Reason::Pipe };
        let rule = RuleError { file: file(), line: 1, column: 1, expected: "b".to_owned() };
        for (failure, expected) in [
            (
                Failure::UnusableFiles(vec![problem()]),
                "correct it, or leave it out with --exclude or",
            ),
            (
                Failure::UnusableFiles(vec![problem(), problem()]),
                "2 paths cannot be published; correct",
            ),
            (Failure::UnusableFiles(vec![problem()]), "--keep-going"),
            (Failure::UnreadableRules(vec![problem()]), "correct the path or the permissions"),
            (Failure::InvalidRules(vec![rule]), "skip the wrong lines with --lax-rules"),
        ] {
            let reason = failure.reason().unwrap_or_default();
            assert!(reason.contains(expected), "{reason}");
        }
    }

    /// With several sites, the message tells the user which site has failed, and where its file is.
    #[test]
    fn a_failure_of_a_site_names_its_host_and_its_file() {
        let rule = |file: &str| RuleError {
            file: file.into(),
            line: 1,
            column: 2,
            expected: "b".to_owned(),
        };
        let problem =
            || FileProblem { path: "_headers".into(), reason: pinion_builder::Reason::Pipe };
        let source = Path::new("/srv/a");
        for (failure, file) in [
            (Failure::InvalidRules(vec![rule("_redirects")]), "/srv/a/_redirects:1:2: expected b"),
            (Failure::InvalidRules(vec![rule("./conf/rules")]), "./conf/rules:1:2: expected b"),
            (
                Failure::UnreadableRules(vec![problem()]),
                "/srv/a/_headers: a named pipe, not a file",
            ),
            (Failure::UnusableFiles(vec![problem()]), "/srv/a/_headers: a named pipe, not a file"),
        ] {
            let code = failure.exit_code();
            let named = failure.with_site(source, Some("a.test"));
            assert_eq!(named.messages(), [format!("site a.test: {file}")]);
            assert!(named.reason().is_some_and(|reason| reason.starts_with("site a.test: ")));
            assert_eq!(named.exit_code(), code);
        }
        let alone = Failure::InvalidRules(vec![rule("_redirects")]).with_site(source, None);
        assert_eq!(alone.messages(), ["/srv/a/_redirects:1:2: expected b"]);
    }

    /// Each failure has a message, whatever kind it is, and the reason counts them.
    #[test]
    fn each_of_several_failures_is_reported() {
        let rules = ["a", "b"].map(|name| RuleError {
            file: name.into(),
            line: 1,
            column: 2,
            expected: "c".to_owned(),
        });
        let first = Failure::InvalidRules(rules.to_vec()).with_site(Path::new("s"), Some("a.test"));
        let failures = vec![first, Failure::from(anyhow::anyhow!("main.lua:1: wrong"))];
        let several = Failure::SeveralSites(failures);
        let expected = [
            "site a.test: s/a:1:2: expected c",
            "site a.test: s/b:1:2: expected c",
            "main.lua:1: wrong",
        ];
        assert_eq!(several.messages(), expected);
        assert!(several.reason().is_some_and(|reason| reason.starts_with("2 sites cannot")));
    }

    #[test]
    fn a_cause_that_was_already_named_is_not_repeated() {
        let error = anyhow::anyhow!("disk full").context("cannot write: disk full");
        assert_eq!(one_line(&error), "cannot write: disk full");
    }

    #[test]
    fn control_characters_of_a_file_name_do_not_reach_the_terminal() {
        assert_eq!(one_line(&anyhow::anyhow!("cannot open \x1b[2J")), "cannot open \\u{1b}[2J");
    }

    #[test]
    fn a_closed_pipe_is_not_a_failure() {
        let gone = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(gone, Failure::ReaderGone));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.reason().as_deref(), Some("cannot write to stdout: no storage space"));
    }
}
