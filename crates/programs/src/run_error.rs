//! The reason why a program was not run, or not to its end.

use std::fmt;
use std::io;

use pinion_engine::limits::SEND_STALL_MS;
use pinion_spawner::reply::{Reason, StartStage};

use crate::limits::RUNS_PER_WORKER_MAX;

/// The reason why a program was not run, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The worker has reached its limit of running programs.
    #[error(
        "{RUNS_PER_WORKER_MAX} programs run in this worker already; try again when one has ended"
    )]
    TooMany,
    /// The arguments exceed a limit of the spawner, or one has a NUL byte.
    #[error("the arguments are too many, too long or contain a NUL byte; send long data as input")]
    Arguments,
    /// The worker has no memory or descriptor for the streams of the program.
    #[error("no resources for one more program: {0}")]
    NoResources(String),
    /// The spawner, the process that starts programs, has ended.
    #[error("the process that starts programs has ended; restart the server")]
    SpawnerGone,
    /// The spawner has closed the connection of this worker, but still runs.
    #[error("the connection to the process that starts programs was closed; try again later")]
    Disconnected,
    /// The spawner does not read requests.
    #[error("the process that starts programs is busy; try again later")]
    SpawnerBusy,
    /// The spawner has rejected the request.
    #[error("cannot start the program: {0}")]
    Rejected(ReasonText),
    /// A step of the start of the program has failed.
    #[error("cannot {stage}: {error}", error = io::Error::from_raw_os_error(*.errno))]
    NotStarted {
        /// The step that has failed.
        stage: StageText,
        /// The error number of the system (errno(3)).
        errno: i32,
    },
    /// The program ran for longer than its time limit, in milliseconds.
    #[error("the program has not ended within {} s and was stopped", seconds(*.0))]
    TimedOut(u64),
    /// The program has not read its input for as long as the engine waits for a stalled send
    /// ([`SEND_STALL_MS`]).
    #[error("the program has not read its input for {} s and was stopped", SEND_STALL_MS / 1000)]
    InputStalled,
    /// The stream of the output has ended because memory was short, or because the server has
    /// ended.
    #[error("the output of the program was cut off")]
    OutputLost,
    /// The caller has stopped the program, or the server stops.
    #[error("the program was stopped")]
    Stopped,
}

/// A [`Reason`] with its text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonText(pub Reason);

/// A [`StartStage`] with its text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageText(pub StartStage);

impl fmt::Display for ReasonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for StageText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Formats milliseconds as seconds, with one decimal unless the number of seconds is whole.
fn seconds(ms: u64) -> String {
    match ms % 1000 {
        0 => (ms / 1000).to_string(),
        _ => format!("{:.1}", ms as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_failed_step_and_its_reason() {
        let stage = StageText(StartStage::Exec);
        let error = RunError::NotStarted { stage, errno: 2 };
        let text = "cannot execute the program: No such file or directory (os error 2)";
        assert_eq!(error.to_string(), text);
        let text = "the program has not ended within 1.5 s and was stopped";
        assert_eq!(RunError::TimedOut(1500).to_string(), text);
        assert_eq!(seconds(2000), "2");
    }
}
