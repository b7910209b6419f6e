//! Encodes and decodes the requests of workers. Each request is one record; the sockets of a start
//! come with it as ancillary data (`SCM_RIGHTS`, unix(7)).
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
//! | behind them | 1 | only of a start: 1 if a CGI script follows, 0 otherwise |
//! | | | the length of its path in 16 bits, and the path |
//! | | | the length of its variables in 32 bits, and the variables, each with a NUL at its end |
//!
//! Numbers are little-endian.

use crate::byte_codec::{ByteReader, ByteWriter};
use crate::cgi_variables::variables;
use crate::limits::{
    ARGUMENTS_MAX, ARGUMENTS_MAX_BYTES, CGI_VARIABLES_MAX, CGI_VARIABLES_MAX_BYTES,
    SCRIPT_PATH_MAX_BYTES,
};

/// A request of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnerRequest<'a> {
    /// Starts a program. The request comes with one socket for standard input and output, or with
    /// two for input and output in this order. For a supervised program it comes with no
    /// descriptor, or with a socket for input, or with such a socket and a file. If it has one
    /// socket for a CGI script, that is the output.
    Start(StartRequest<'a>),
    /// Sends a signal to the main process of a program.
    Signal {
        /// The number of the program.
        id: u64,
        /// The number of the signal, 1 to 31.
        signal: u8,
    },
    /// Stops a program with its stop signal, and with SIGKILL after its grace period.
    Stop {
        /// The number of the program.
        id: u64,
    },
}

/// A request to start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRequest<'a> {
    /// A number that the worker chooses for the program. It is unique among the programs of the
    /// worker.
    pub id: u64,
    /// The row of the table.
    pub start: u16,
    /// The generation of the table that `start` is a row of.
    pub generation: u32,
    /// The arguments that follow those of the row, without NUL bytes.
    pub arguments: Vec<&'a [u8]>,
    /// The script of a CGI row. Other rows have none.
    pub script: Option<CgiScript<'a>>,
}

/// A CGI script that is to be started for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgiScript<'a> {
    /// The path of the script below the folder of the row, of 1 to [`SCRIPT_PATH_MAX_BYTES`] bytes:
    /// segments between slashes, none of which is empty, `.` or `..` or has a NUL byte.
    pub path: &'a [u8],
    /// Variables of its environment, each a name, `=`, a value and a NUL byte: at most
    /// [`CGI_VARIABLES_MAX`] of them with [`CGI_VARIABLES_MAX_BYTES`]. The spawner rejects those
    /// that are neither [of CGI](crate::cgi_variables::is_cgi_variable) nor named by the row, and
    /// leaves those out that the environment of the row has.
    pub variables: &'a [u8],
}

/// The tag of a start without a script.
const NO_SCRIPT: u8 = 0;
/// The tag before the script of a start.
const SCRIPT: u8 = 1;

const START: u8 = 1;
const SIGNAL: u8 = 2;
const STOP: u8 = 3;

/// The numbers of standard signals. Real-time signals are not supported, because they are part of
/// no program's interface.
const SIGNALS: std::ops::RangeInclusive<u8> = 1..=31;

impl<'a> SpawnerRequest<'a> {
    /// Encodes the request. Returns `None` if it exceeds a limit, if an argument has a NUL byte, if
    /// the script or its variables are malformed, or if the signal number is invalid.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = ByteWriter::default();
        match self {
            SpawnerRequest::Start(request) => {
                if !request.has_valid_arguments() {
                    return None;
                }
                head(&mut bytes, START, 0, request.id, (request.start, request.generation));
                bytes.count(request.arguments.len())?;
                for argument in &request.arguments {
                    bytes.text(argument)?;
                }
                match &request.script {
                    None => bytes.u8(NO_SCRIPT),
                    Some(script) if script.is_valid() => {
                        bytes.u8(SCRIPT);
                        bytes.text(script.path)?;
                        bytes.long_text(script.variables)?;
                    }
                    Some(_) => return None,
                }
            }
            SpawnerRequest::Signal { id, signal } => {
                if !SIGNALS.contains(signal) {
                    return None;
                }
                head(&mut bytes, SIGNAL, *signal, *id, (0, 0));
            }
            SpawnerRequest::Stop { id } => head(&mut bytes, STOP, 0, *id, (0, 0)),
        }
        Some(bytes.into_bytes())
    }

    /// Decodes a request. Returns `None` if the bytes are malformed: truncated, followed by more
    /// bytes, or beyond a limit.
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
                let script = match reader.u8()? {
                    NO_SCRIPT => None,
                    SCRIPT => {
                        let (path, variables) = (reader.text()?, reader.long_text()?);
                        let script = CgiScript { path, variables };
                        script.is_valid().then_some(Some(script))?
                    }
                    _ => return None,
                };
                let request = StartRequest { id, start, generation, arguments, script };
                if !request.has_valid_arguments() {
                    return None;
                }
                SpawnerRequest::Start(request)
            }
            SIGNAL if SIGNALS.contains(&signal) => SpawnerRequest::Signal { id, signal },
            STOP => SpawnerRequest::Stop { id },
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

impl CgiScript<'_> {
    fn is_valid(&self) -> bool {
        is_script_path(self.path)
            && self.variables.len() <= CGI_VARIABLES_MAX_BYTES
            && self.variables.last().is_none_or(|last| *last == 0)
            && variables(self.variables).all(|(name, _)| !name.is_empty())
            && variables(self.variables).count() <= CGI_VARIABLES_MAX
    }
}

/// Returns whether a path has the form of a script's path below a folder. The file system is not
/// accessed.
#[must_use]
pub fn is_script_path(path: &[u8]) -> bool {
    let is_name = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..") && !segment.contains(&0);
    path.len() <= SCRIPT_PATH_MAX_BYTES && path.split(|byte| *byte == b'/').all(is_name)
}

fn head(bytes: &mut ByteWriter, kind: u8, signal: u8, id: u64, (start, generation): (u16, u32)) {
    bytes.u8(kind);
    bytes.u8(signal);
    bytes.u16(start);
    bytes.u32(generation);
    bytes.u64(id);
}
