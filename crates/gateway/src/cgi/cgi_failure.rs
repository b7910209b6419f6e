//! The reasons why a request has no response of a CGI script, and the status for each.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use pinion_http::cgi::variable_error::VariableError;
use pinion_programs::program_run::Exit;
use pinion_programs::run_error::RunError;
use pinion_programs::{Reason, StartStage, signal_name};
use rustix::fs::{Mode, OFlags};
use thiserror::Error;

use super::cgi_scripts::CgiScripts;
use super::script_output::OutputError;
use crate::limits::{CGI_QUEUE_TIMEOUT_MS, INTERPRETER_LINE_MAX_BYTES, LOCAL_REDIRECTS_MAX};

/// The reason why a request has no response of a CGI script.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CgiFailure {
    /// CONNECT and TRACE are for the connection to this server.
    #[error("the method is not for scripts")]
    Method,
    /// The path can be read in two ways, or has a NUL byte.
    #[error("the path cannot be read in one way")]
    Path,
    /// No script responds to the path.
    #[error("there is no script for the path")]
    NoScript,
    /// The folder of scripts cannot be opened.
    #[error("cannot open the folder of scripts {folder}: {error}")]
    Folder {
        /// The folder as this process sees it.
        folder: Box<str>,
        /// The error of the system.
        error: Box<str>,
    },
    /// The request has too many or too long fields for variables.
    #[error("the request is too long for a script: {0}")]
    Variables(VariableError),
    /// The content has no length and exceeds the limit of the storage that would find its length.
    #[error("the content has no Content-Length, and is longer than buffer-limit")]
    LengthRequired,
    /// All uploads together take as much as they may.
    #[error("the content of the request cannot be stored: {0}")]
    StorageFull(Box<str>),
    /// The content of the request cannot be stored, or not be read again.
    #[error("the content of the request cannot be stored: {0}")]
    Stored(Box<str>),
    /// The maximum of scripts runs, and the maximum of requests waits.
    #[error("{running_max} scripts run, and too many requests wait for one to end (cgi-max)")]
    Busy {
        /// How many may run.
        running_max: usize,
    },
    /// The maximum of scripts runs, and none has ended in time.
    #[error(
        "{running_max} scripts run, and none has ended within {} s (cgi-max)",
        CGI_QUEUE_TIMEOUT_MS / 1000
    )]
    QueueTimeout {
        /// How many may run.
        running_max: usize,
    },
    /// Scripts redirect the request to each other.
    #[error("more than {LOCAL_REDIRECTS_MAX} local redirects (Location without a host)")]
    Redirects,
    /// The scripts have no row in the table of programs yet.
    #[error("the process that starts programs does not know the scripts yet")]
    NoRow,
    /// The script was not run, or not to its end.
    #[error("{text}")]
    Run {
        /// The path of the script.
        script: Box<str>,
        /// The failure, the script, and the advice.
        text: Box<str>,
        /// The error itself.
        error: Arc<RunError>,
    },
    /// The script does nothing.
    #[error("{script}: no output for {seconds} s, and no content was read; stopped")]
    Silent {
        /// Its path.
        script: Box<str>,
        /// The seconds of silence.
        seconds: u64,
    },
    /// The output of the script is no response.
    #[error("{script}: {error}{}", ExitText(*.exit))]
    Output {
        /// Its path.
        script: Box<str>,
        /// The fault of the output.
        error: OutputError,
        /// The way in which it has ended; `None` if it has not.
        exit: Option<Exit>,
        /// The beginning of the line that is no field line, escaped.
        line: Option<Box<str>>,
    },
}

/// The way in which a script has ended, as text after the fault of its output.
struct ExitText(Option<Exit>);

impl fmt::Display for ExitText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => Ok(()),
            Some(Exit::Status(status)) => write!(f, " (it has exited with status {status})"),
            Some(Exit::Signal(signal)) => {
                write!(f, " (it was ended by {})", signal_name(signal.into()))
            }
        }
    }
}

impl CgiFailure {
    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Method => 405,
            Self::Path => 400,
            Self::NoScript => 404,
            Self::Variables(VariableError::TooLarge) => 431,
            Self::Variables(_) => 400,
            Self::LengthRequired => 411,
            Self::Stored(_) => 500,
            Self::StorageFull(_) | Self::Busy { .. } | Self::QueueTimeout { .. } | Self::NoRow => {
                503
            }
            Self::Silent { .. } => 504,
            Self::Folder { .. } | Self::Redirects | Self::Output { .. } => 502,
            Self::Run { error, .. } => match &**error {
                RunError::TimedOut(_) => 504,
                RunError::TooMany
                | RunError::NoResources(_)
                | RunError::SpawnerGone
                | RunError::SpawnerBusy
                | RunError::Disconnected
                | RunError::Stopped => 503,
                RunError::Rejected(reason)
                    if matches!(reason.0, Reason::TooManyRunning | Reason::Stopping) =>
                {
                    503
                }
                _ => 502,
            },
        }
    }

    /// Returns whether the failure says something about a script or this server, and not only about
    /// the request.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        !matches!(self, Self::Method | Self::Path | Self::NoScript | Self::Variables(_))
    }

    /// Returns the path of the script that has failed, if it is one that was started or was to be.
    #[must_use]
    pub fn script(&self) -> &str {
        match self {
            Self::Silent { script, .. }
            | Self::Output { script, .. }
            | Self::Run { script, .. } => script,
            _ => "",
        }
    }

    /// Returns the beginning of the line of the script's output that is no field line, escaped, if
    /// that line is the cause. It is not in the text of the failure, which has nothing in it that a
    /// client could choose.
    #[must_use]
    pub fn malformed_line(&self) -> Option<&str> {
        match self {
            Self::Output { line, .. } => line.as_deref(),
            _ => None,
        }
    }

    /// Returns the failure of a run of the script with a path below its folder.
    pub(super) fn of_run(scripts: &CgiScripts, path: &[u8], error: Arc<RunError>) -> Self {
        let file = scripts.shown(path);
        let text = match &*error {
            RunError::NotStarted { stage, errno } => {
                let error = io::Error::from_raw_os_error(*errno);
                match stage.0 {
                    StartStage::Interpreter => no_interpreter(scripts, &file, path),
                    stage => not_started(scripts, &file, stage, &error),
                }
            }
            error => format!("{file}: {error}"),
        };
        Self::Run { script: file.into(), text: text.into(), error }
    }
}

/// Returns the reason why a script could not be executed, and the advice.
fn not_started(scripts: &CgiScripts, file: &str, stage: StartStage, error: &io::Error) -> String {
    const NO_EXEC: i32 = 8;
    const LOOP: i32 = 40;
    let inside = inside(scripts);
    match (stage, error.raw_os_error()) {
        (StartStage::ScriptFolder, _) => {
            let folder = String::from_utf8_lossy(&scripts.script_folder);
            format!("cannot open the folder of scripts {folder}{inside}: {error}")
        }
        (StartStage::Script, Some(LOOP)) => {
            format!("{file}{inside}: a part of the path is a symbolic link, which is not followed")
        }
        (StartStage::Script, _) => format!("cannot find the script {file}{inside}: {error}"),
        (StartStage::ScriptType, _) => format!("{file}{inside} is not a regular file"),
        (StartStage::ScriptMode, _) => {
            format!("{file}{inside} is not executable: run `chmod +x` for it")
        }
        (StartStage::Exec, Some(NO_EXEC)) => {
            format!("{file} is no program: begin it with a line such as #!/bin/sh")
        }
        (stage, _) => format!("{file}: cannot {stage}: {error}"),
    }
}

/// Returns why the interpreter of a script, which has a path below its folder, is not found.
fn no_interpreter(scripts: &CgiScripts, file: &str, path: &[u8]) -> String {
    let path = scripts.folder.join(OsStr::from_bytes(path));
    if has_carriage_return(&path).unwrap_or(false) {
        return format!(
            "{file}: its first line ends with CR LF, and the CR is taken for a part of the \
             interpreter; save the script with LF alone (sed -i 's/\\r$//' {})",
            path.display()
        );
    }
    let advice = match scripts.chroot {
        Some(_) => "; put it there, or let scripts see all files with cgi-no-chroot = true",
        None => "",
    };
    let inside = inside(scripts);
    format!(
        "{file} is there, but the interpreter of its first line (#!), or a loader for it, is \
         missing{inside}{advice}"
    )
}

/// Returns whether the first line of a script, which names its interpreter, ends with CR LF.
fn has_carriage_return(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let mut first = [0; INTERPRETER_LINE_MAX_BYTES];
    let bytes = rustix::io::read(&file, &mut first)?;
    let line = first.get(..bytes).unwrap_or_default().split_inclusive(|&byte| byte == b'\n').next();
    Ok(line.is_some_and(|line| line.starts_with(b"#!") && line.ends_with(b"\r\n")))
}

/// Returns where the root directory of scripts is in a message, if they have one.
fn inside(scripts: &CgiScripts) -> String {
    let chroot = scripts.chroot.as_ref();
    chroot.map_or_else(String::new, |chroot| {
        format!(" inside of the root directory {}", chroot.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_http::cgi::error::CgiError;
    use pinion_programs::run_error::StageText;

    fn text(chroot: Option<&str>, stage: StartStage, errno: i32) -> String {
        let scripts = CgiScripts { chroot: chroot.map(Into::into), ..CgiScripts::new("/cgi") };
        let error = RunError::NotStarted { stage: StageText(stage), errno };
        let failure = CgiFailure::of_run(&scripts, b"dir/a.sh", Arc::new(error));
        assert_eq!((failure.status(), failure.is_logged()), (502, true));
        failure.to_string()
    }

    #[test]
    fn a_failed_start_is_reported_with_advice() {
        for (chroot, stage, errno, expected) in [
            (None, StartStage::Script, 2, "cannot find the script /cgi/dir/a.sh: No such file"),
            (
                Some("/srv"),
                StartStage::Script,
                2,
                "cannot find the script /cgi/dir/a.sh inside of the root directory /srv: No such",
            ),
            (
                Some("/srv"),
                StartStage::Interpreter,
                2,
                "/cgi/dir/a.sh is there, but the interpreter of its first line (#!), or a loader \
                 for it, is missing inside of the root directory /srv; put it there, or let \
                 scripts see all files with cgi-no-chroot = true",
            ),
            (None, StartStage::ScriptMode, 13, "/cgi/dir/a.sh is not executable: run `chmod +x`"),
            (None, StartStage::Script, 40, "/cgi/dir/a.sh: a part of the path is a symbolic link"),
            (
                None,
                StartStage::Exec,
                8,
                "/cgi/dir/a.sh is no program: begin it with a line such as #!",
            ),
            (None, StartStage::ScriptFolder, 2, "cannot open the folder of scripts /cgi: No such"),
            (
                None,
                StartStage::User,
                1,
                "/cgi/dir/a.sh: cannot set the user: Operation not permitted",
            ),
        ] {
            let text = text(chroot, stage, errno);
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn wrong_output_is_reported_with_the_exit_of_the_script() {
        let error = OutputError::Document(CgiError::NoOutput);
        let text = |exit| {
            let line = None;
            CgiFailure::Output { script: "/a".into(), error, exit, line }.to_string()
        };
        assert_eq!(text(None), "/a: the program wrote no response");
        let status = text(Some(Exit::Status(3)));
        assert_eq!(status, "/a: the program wrote no response (it has exited with status 3)");
        let signal = text(Some(Exit::Signal(11)));
        assert_eq!(signal, "/a: the program wrote no response (it was ended by SIGSEGV)");
    }
}
