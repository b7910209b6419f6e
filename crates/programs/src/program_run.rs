//! One run of a program, from the caller's side.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pinion_engine::exchange_address::Address;
use pinion_spawner::worker_request::CgiScript;
use rustix::net::RecvFlags;

use crate::limits::{HELD_PIECE_BYTES, INPUT_BUFFER_BYTES, OUTPUT_BUFFER_BYTES};
use crate::run_error::RunError;

/// The identifier of a run. It stays unique after the end of the run.
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

/// A request to run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// The row of the spawner's table that has the program.
    pub start: u16,
    /// The arguments that follow those of the row.
    pub arguments: Vec<Vec<u8>>,
    /// Whether input follows ([`write`](crate::program_runner::ProgramRunner::write)); otherwise
    /// the program reads the end of file at once.
    pub has_input: bool,
    /// The time in which the program has to end, in milliseconds.
    pub timeout_ms: u64,
    /// The script of a row of CGI scripts; `None` for a program.
    pub script: Option<ScriptStart>,
}

/// A request to run a CGI script, with its variables
/// (`CgiScript` of pinion-spawner).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStart {
    /// The path of the script below the folder of the row.
    pub path: Box<[u8]>,
    /// The variables of the script, each a name, `=`, a value and a NUL byte.
    pub variables: Vec<u8>,
}

impl ScriptStart {
    pub(crate) fn as_request(&self) -> CgiScript<'_> {
        CgiScript { path: &self.path, variables: &self.variables }
    }
}

/// The way in which a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The program has exited with this status, 0 to 255.
    Status(u8),
    /// The signal with this number has ended the program.
    Signal(u8),
}

/// The result of reading the output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputRead {
    /// No output is available now. The run has news when there is more, or when the program has
    /// ended.
    Pending,
    /// This number of bytes was passed to the caller.
    Bytes(usize),
    /// All output was read, and the program has ended.
    End,
    /// There will be no more output, for this reason.
    Failed(Arc<RunError>),
}

/// The stage of a run.
#[derive(Debug)]
pub(crate) enum RunStage {
    /// The start request waits to be sent to the spawner since this time, in monotonic
    /// milliseconds. The run gets its sockets only when there is space for the request, so that a
    /// spawner that hangs uses up no descriptors.
    Wanted { since_ms: u64 },
    /// The start request was sent to the spawner.
    Asked,
    /// The program runs. A script never has this stage: it stays [`Asked`](Self::Asked) until it
    /// has ended, because the spawner does not report its start.
    Running,
    /// The program has ended.
    Ended(Exit),
    /// The program was never executed, or the connection over which the spawner reports on it was
    /// lost.
    NotStarted,
}

/// The stream of the output of a program, or that of its input. Each is a separate socket, so that
/// a program which does not read all of its input loses none of its output.
#[derive(Debug)]
pub(crate) enum RunStream {
    /// The start request was not sent yet.
    Unopened,
    /// The socket is open, but not registered with the engine yet.
    Held(OwnedFd),
    /// The socket is a stream of the engine with this address.
    Open(Address),
    /// The stream has ended, or does not exist.
    Over,
}

impl RunStream {
    /// Returns the address of the stream, if the engine has it.
    pub(crate) fn address(&self) -> Option<Address> {
        match self {
            Self::Open(address) => Some(*address),
            Self::Unopened | Self::Held(_) | Self::Over => None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// Takes the socket if the engine does not have it. The stream becomes [`Over`](Self::Over).
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

/// The state of one run.
#[derive(Debug)]
pub(crate) struct ProgramRun {
    pub(crate) request: RunRequest,
    pub(crate) stage: RunStage,
    /// The stream of the output.
    pub(crate) output_stream: RunStream,
    /// The stream of the input.
    pub(crate) input_stream: RunStream,
    /// The process ID, as soon as the program runs. The process ID of a script is not known.
    pub(crate) pid: Option<u32>,
    /// Output that the caller has not read yet.
    pub(crate) output: VecDeque<u8>,
    /// The number of bytes that the engine may still deliver.
    pub(crate) credit: u64,
    /// Whether the engine reads the output. For a script this is false at first.
    pub(crate) is_read: bool,
    /// Input that was not passed to the engine yet.
    pub(crate) unsent: Vec<u8>,
    /// Whether the caller has written all input.
    pub(crate) has_all_input: bool,
    /// Whether the end of the input was passed to the engine.
    pub(crate) is_input_finished: bool,
    /// Whether the engine has reported that its output queue for the input is full.
    pub(crate) is_blocked: bool,
    pub(crate) error: Option<Arc<RunError>>,
    pub(crate) is_announced: bool,
    /// The deadline of the run, in monotonic milliseconds.
    pub(crate) due_ms: u64,
}

impl ProgramRun {
    /// Returns whether another piece of input may be written now.
    pub(crate) fn takes_input(&self) -> bool {
        !self.has_all_input && !self.is_input_refused() && self.unsent.len() < INPUT_BUFFER_BYTES
    }

    /// Returns whether the program does not read its input any more.
    pub(crate) fn is_input_refused(&self) -> bool {
        self.error.is_some()
            || matches!(self.stage, RunStage::Ended(_))
            || self.input_stream.is_over()
    }

    /// Passes the next output to `give`, at most `max` bytes of it.
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

    /// Returns whether the output socket is open and not registered with the engine.
    pub(crate) fn has_held_output(&self) -> bool {
        matches!(self.output_stream, RunStream::Held(_))
    }

    /// Reads the output of a program that has ended from a socket that the engine does not read, as
    /// far as the buffer has space. Returns whether more output may follow, because a process that
    /// was killed just now still holds the socket.
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

    /// Returns whether a start request was sent and the spawner has not reported the end of the
    /// program.
    pub(crate) fn may_run(&self) -> bool {
        matches!(self.stage, RunStage::Asked | RunStage::Running)
    }

    /// Returns whether both the program and its output have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.output_stream.is_over() && matches!(self.stage, RunStage::Ended(_))
    }
}
