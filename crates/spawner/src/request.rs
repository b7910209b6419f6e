//! Requests of workers as bytes. Each is one record; the sockets of a start come with it as
//! ancillary data (`SCM_RIGHTS`, unix(7)).
//!
//! | Offset | Bytes | Field |
//! |---|---|---|
//! | 0 | 1 | kind: 1 start, 2 signal, 3 stop |
//! | 1 | 1 | signal number of a signal; 0 otherwise |
//! | 2 | 2 | row of the table of a start; 0 otherwise |
//! | 4 | 4 | generation of the table of a start; 0 otherwise |
//! | 8 | 8 | `id`, which the worker has chosen for the program |
//! | 16 | 2 | number of arguments, only of a start |
//! | 18 | | for each argument its length in 16 bits, and the argument |
//!
//! Numbers are little-endian.

use crate::byte_codec::{ByteReader, ByteWriter};
use crate::limits::{ARGUMENTS_MAX, ARGUMENTS_MAX_BYTES};

/// A request of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Starts a program. One socket comes with it, for standard input and output, or two, for input
    /// and output in this order; none for a supervised program.
    Start(StartRequest<'a>),
    /// Sends a signal to the main process of a program.
    Signal {
        /// The number of the program.
        id: u64,
        /// The number of the signal, 1 to 31.
        signal: u8,
    },
    /// Stops a program: its stop signal, and SIGKILL after its grace period.
    Stop {
        /// The number of the program.
        id: u64,
    },
}

/// A request to start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRequest<'a> {
    /// A number that the worker chooses for the program. It has no other program with it.
    pub id: u64,
    /// The row of the table.
    pub start: u16,
    /// The generation of the table that `start` is a row of.
    pub generation: u32,
    /// Arguments behind those of the row, without NUL bytes.
    pub arguments: Vec<&'a [u8]>,
}

const START: u8 = 1;
const SIGNAL: u8 = 2;
const STOP: u8 = 3;

/// Standard signals; real-time signals are no part of any protocol of a program.
const SIGNALS: std::ops::RangeInclusive<u8> = 1..=31;

impl<'a> Request<'a> {
    /// Encodes the request. Returns `None` if it exceeds a limit, if an argument has a NUL byte or
    /// if the signal is none.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = ByteWriter::default();
        match self {
            Request::Start(request) => {
                if !request.has_valid_arguments() {
                    return None;
                }
                head(&mut bytes, START, 0, request.id, (request.start, request.generation));
                bytes.count(request.arguments.len())?;
                for argument in &request.arguments {
                    bytes.text(argument)?;
                }
            }
            Request::Signal { id, signal } => {
                if !SIGNALS.contains(signal) {
                    return None;
                }
                head(&mut bytes, SIGNAL, *signal, *id, (0, 0));
            }
            Request::Stop { id } => head(&mut bytes, STOP, 0, *id, (0, 0)),
        }
        Some(bytes.into_bytes())
    }

    /// Decodes a request. Returns `None` if the bytes are malformed: truncated, with more bytes
    /// behind, or beyond a limit.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let (kind, signal) = (reader.u8()?, reader.u8()?);
        let (start, generation, id) = (reader.u16()?, reader.u32()?, reader.u64()?);
        let is_start = kind == START;
        if !is_start && (start, generation) != (0, 0) || kind != SIGNAL && signal != 0 {
            return None;
        }
        let request = match kind {
            START => {
                let count = reader.count(ARGUMENTS_MAX)?;
                let arguments = (0..count).map(|_| reader.text()).collect::<Option<_>>()?;
                let request = StartRequest { id, start, generation, arguments };
                if !request.has_valid_arguments() {
                    return None;
                }
                Request::Start(request)
            }
            SIGNAL if SIGNALS.contains(&signal) => Request::Signal { id, signal },
            STOP => Request::Stop { id },
            _ => return None,
        };
        reader.end()?;
        Some(request)
    }
}

impl StartRequest<'_> {
    fn has_valid_arguments(&self) -> bool {
        let bytes: usize = self.arguments.iter().map(|argument| argument.len()).sum();
        self.arguments.len() <= ARGUMENTS_MAX
            && bytes <= ARGUMENTS_MAX_BYTES
            && self.arguments.iter().all(|argument| !argument.contains(&0))
    }
}

fn head(bytes: &mut ByteWriter, kind: u8, signal: u8, id: u64, (start, generation): (u16, u32)) {
    bytes.u8(kind);
    bytes.u8(signal);
    bytes.u16(start);
    bytes.u32(generation);
    bytes.u64(id);
}
