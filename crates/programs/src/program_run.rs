//! One program that runs, from the caller's side.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pinion_engine::address::Address;
use pinion_spawner::request::CgiScript;
use rustix::net::RecvFlags;

use crate::limits::{HELD_PIECE_BYTES, INPUT_BUFFER_BYTES, OUTPUT_BUFFER_BYTES};
use crate::run_error::RunError;

/// Names a run, as long as it lives and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub(crate) u64);

impl RunId {
    /// Returns the number of the run; no other run of its worker has it.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the run with a number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// A program that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// The row of the spawner's table.
    pub start: u16,
    /// Arguments behind those of the row.
    pub arguments: Vec<Vec<u8>>,
    /// Whether input follows ([`write`](crate::program_runner::ProgramRunner::write)); otherwise
    /// the program finds its end at once.
    pub has_input: bool,
    /// Within how many milliseconds the program has to end.
    pub timeout_ms: u64,
    /// The script of a row of CGI scripts; `None` for a program.
    pub script: Option<ScriptStart>,
}

/// A CGI script that is to be run, with its variables
/// (`CgiScript` of pinion-spawner).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStart {
    /// Its path below the folder of the row.
    pub path: Box<[u8]>,
    /// Its variables, each a name, `=`, a value and a NUL byte.
    pub variables: Vec<u8>,
}

impl ScriptStart {
    pub(crate) fn as_request(&self) -> CgiScript<'_> {
        CgiScript { path: &self.path, variables: &self.variables }
    }
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status, 0 to 255.
    Status(u8),
    /// By the signal with this number.
    Signal(u8),
}

/// What there is to read of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputRead {
    /// Nothing now. There are news when there is more, or when the program has ended.
    Pending,
    /// So many bytes, which were given to the caller.
    Bytes(usize),
    /// All was read, and the program has ended.
    End,
    /// There will be no more, for this reason.
    Failed(Arc<RunError>),
}

/// How far a start has come.
#[derive(Debug)]
pub(crate) enum RunStage {
    /// It is to be sent to the spawner since this time, in monotonic milliseconds. It has no
    /// sockets before there is room for it, so that a spawner that hangs takes no descriptors.
    Wanted { since_ms: u64 },
    /// The spawner has it.
    Asked,
    /// It runs. Of a script it is not known, which stays asked for until it has ended.
    Running,
    /// It has ended.
    Ended(Exit),
    /// It was never executed, or the connection over which the spawner tells of it was lost.
    NotStarted,
}

/// One side of the connection with a program: its output, or its input. Each is a socket of its
/// own, so that a program which does not read all of its input loses none of its output.
#[derive(Debug)]
pub(crate) enum RunStream {
    /// The spawner was not asked yet.
    Unopened,
    /// The engine does not have it yet.
    Held(OwnedFd),
    /// The stream of the engine.
    Open(Address),
    /// It is over, or there is none.
    Over,
}

impl RunStream {
    /// Returns the stream, if the engine has it.
    pub(crate) fn address(&self) -> Option<Address> {
        match self {
            Self::Open(address) => Some(*address),
            Self::Unopened | Self::Held(_) | Self::Over => None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// Takes the socket if the engine does not have it. The stream is over then.
    pub(crate) fn take_held(&mut self) -> Option<OwnedFd> {
        match std::mem::replace(self, Self::Over) {
            Self::Held(socket) => Some(socket),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// One run.
#[derive(Debug)]
pub(crate) struct ProgramRun {
    pub(crate) request: RunRequest,
    pub(crate) stage: RunStage,
    /// From where its output comes.
    pub(crate) output_stream: RunStream,
    /// Where its input goes.
    pub(crate) input_stream: RunStream,
    /// Its process ID, from when it runs; that of a script is not known.
    pub(crate) pid: Option<u32>,
    /// Output that was not read yet.
    pub(crate) output: VecDeque<u8>,
    /// Bytes that the engine may still deliver.
    pub(crate) credit: u64,
    /// Whether the engine reads output; not at first if it is that of a script.
    pub(crate) is_read: bool,
    /// Input that the engine has not taken yet.
    pub(crate) unsent: Vec<u8>,
    /// No more input will come.
    pub(crate) has_all_input: bool,
    /// The engine knows that.
    pub(crate) is_input_finished: bool,
    /// The engine has told that its queue of input is full.
    pub(crate) is_blocked: bool,
    pub(crate) error: Option<Arc<RunError>>,
    pub(crate) is_announced: bool,
    /// When it must have ended, in monotonic milliseconds.
    pub(crate) due_ms: u64,
}

impl ProgramRun {
    /// Whether another piece of input may be written now.
    pub(crate) fn takes_input(&self) -> bool {
        !self.has_all_input && !self.is_input_refused() && self.unsent.len() < INPUT_BUFFER_BYTES
    }

    /// Whether nothing reads input any more.
    pub(crate) fn is_input_refused(&self) -> bool {
        self.error.is_some()
            || matches!(self.stage, RunStage::Ended(_))
            || self.input_stream.is_over()
    }

    /// Gives the next output, at most `max` bytes of it.
    pub(crate) fn read(&mut self, max: usize, give: impl FnOnce(&[u8])) -> OutputRead {
        self.is_announced = false;
        if !self.output.is_empty() {
            let (first, _) = self.output.as_slices();
            let count = first.len().min(max);
            give(&first[..count]);
            self.output.drain(..count);
            return OutputRead::Bytes(count);
        }
        match &self.error {
            Some(error) => OutputRead::Failed(Arc::clone(error)),
            None if self.is_over() => OutputRead::End,
            None => OutputRead::Pending,
        }
    }

    /// Whether the engine does not have the output.
    pub(crate) fn has_held_output(&self) -> bool {
        matches!(self.output_stream, RunStream::Held(_))
    }

    /// Reads the output of a program that has ended and that the engine does not read, as far as
    /// there is room for it. Returns whether more has to be waited for, because a process that was
    /// killed just now still has the socket.
    pub(crate) fn read_held_output(&mut self) -> bool {
        let mut piece = [0; HELD_PIECE_BYTES];
        while let RunStream::Held(socket) = &self.output_stream {
            let room = (OUTPUT_BUFFER_BYTES as usize).saturating_sub(self.output.len());
            if room == 0 {
                return false;
            }
            let piece = &mut piece[..room.min(HELD_PIECE_BYTES)];
            match rustix::net::recv(socket, &mut *piece, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.output_stream = RunStream::Over,
                Ok((bytes, _)) => self.output.extend(&piece[..bytes]),
                Err(_) => return true,
            }
        }
        false
    }

    /// Whether the spawner was asked for the program and has not said that it has ended.
    pub(crate) fn may_run(&self) -> bool {
        matches!(self.stage, RunStage::Asked | RunStage::Running)
    }

    /// Whether the program has ended and its output as well.
    pub(crate) fn is_over(&self) -> bool {
        self.output_stream.is_over() && matches!(self.stage, RunStage::Ended(_))
    }
}
