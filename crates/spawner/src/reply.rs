//! Encodes and decodes the replies of the spawner. All replies have the same size, so a worker may
//! read them as a stream of bytes without framing.
//!
//! | Offset | Bytes | Field |
//! |---|---|---|
//! | 0 | 8 | `id`, which the worker has chosen for the program, little-endian |
//! | 8 | 1 | kind: 1 started, 2 failed, 3 exited, 4 ended by a signal, 5 rejected |
//! | 9 | 1 | stage of a failed start, reason of a rejected request; 0 otherwise |
//! | 10 | 2 | zero |
//! | 12 | 4 | value: process ID, error number, exit status or signal, little-endian |

use std::fmt;

/// Size of each reply in bytes.
pub const REPLY_BYTES: usize = 16;

/// A reply of the spawner. Every accepted `Start` gets either one `Failed`, or one `Started`
/// and later one `Exited` or `Signaled`; any other `Start` gets one `Rejected`. CGI scripts have no
/// `Started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnerReply {
    /// The program was executed.
    Started {
        /// The number of the program, which the worker has chosen.
        id: u64,
        /// The process ID.
        pid: u32,
    },
    /// The program could not be executed, and no process of it is left.
    Failed {
        /// The number of the program, which the worker has chosen.
        id: u64,
        /// The step that failed.
        stage: StartStage,
        /// The error number of this step (errno(3)).
        errno: i32,
    },
    /// The program has exited. Its descendants were sent SIGKILL.
    Exited {
        /// The number of the program, which the worker has chosen.
        id: u64,
        /// The exit status, 0 to 255.
        status: u8,
    },
    /// The program was ended by a signal. Its descendants were sent SIGKILL.
    Signaled {
        /// The number of the program, which the worker has chosen.
        id: u64,
        /// The number of the signal.
        signal: u8,
    },
    /// The spawner has rejected the request and has done nothing.
    Rejected {
        /// The number of the program, which the worker has chosen.
        id: u64,
        /// The reason of the rejection.
        reason: Reason,
    },
}

/// A step of a start, in the order in which they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StartStage {
    /// Pipes for standard error and for the result (pipe2(2)).
    Pipes = 1,
    /// The new process (fork(2), clone3(2)).
    Fork = 2,
    /// Its own session and process group (setsid(2)).
    Session = 3,
    /// Standard input, output and error (dup2(2)).
    Descriptors = 4,
    /// Resource limits (setrlimit(2)).
    ResourceLimits = 5,
    /// Nice value (setpriority(2)).
    Nice = 6,
    /// Root directory (chroot(2)).
    Chroot = 7,
    /// Supplementary groups (setgroups(2)).
    Groups = 8,
    /// Group (setresgid(2)).
    Group = 9,
    /// User (setresuid(2)).
    User = 10,
    /// Dropping of the capabilities that would survive the execution (capabilities(7)).
    Capabilities = 11,
    /// Working directory (chdir(2)).
    WorkingDirectory = 12,
    /// `PR_SET_NO_NEW_PRIVS` (prctl(2)).
    NoNewPrivileges = 13,
    /// `PR_SET_PDEATHSIG` (prctl(2)), or the check that the spawner has not ended.
    ParentDeathSignal = 14,
    /// The folder of CGI scripts (open(2)).
    ScriptFolder = 15,
    /// The path of a CGI script below it, of which no part is a symbolic link (openat2(2)).
    Script = 16,
    /// The check that the script is a regular file: `EISDIR` for a folder, `EACCES` for any other
    /// kind.
    ScriptType = 17,
    /// The check that the script has at least one execute permission.
    ScriptMode = 18,
    /// The program itself (execve(2)).
    Exec = 19,
    /// The interpreter of an existing CGI script: that of its first line (`#!`), or the loader of
    /// its shared libraries, is missing (execve(2)).
    Interpreter = 20,
}

/// The reason why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The table has no row with this number.
    UnknownStart = 1,
    /// The table of this generation was replaced twice.
    StaleTable = 2,
    /// The row does not allow arguments of a worker.
    Arguments = 3,
    /// There was no descriptor, or one that is not a socket, or more than two; or there was one for
    /// a supervised program.
    Descriptors = 4,
    /// The worker has a program with this ID already.
    DuplicateId = 5,
    /// The limit of running programs is reached.
    TooManyRunning = 6,
    /// The spawner is about to end.
    Stopping = 7,
    /// The worker has no program with this ID: the program has ended, or was never started.
    NotRunning = 8,
    /// The row is for CGI and the request has no script, or the other way round, or the row does
    /// not allow the script.
    Script = 9,
    /// A variable is neither one of CGI nor named by the row.
    Variable = 10,
}

impl StartStage {
    const ALL: [StartStage; 20] = [
        StartStage::Pipes,
        StartStage::Fork,
        StartStage::Session,
        StartStage::Descriptors,
        StartStage::ResourceLimits,
        StartStage::Nice,
        StartStage::Chroot,
        StartStage::Groups,
        StartStage::Group,
        StartStage::User,
        StartStage::Capabilities,
        StartStage::WorkingDirectory,
        StartStage::NoNewPrivileges,
        StartStage::ParentDeathSignal,
        StartStage::ScriptFolder,
        StartStage::Script,
        StartStage::ScriptType,
        StartStage::ScriptMode,
        StartStage::Exec,
        StartStage::Interpreter,
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| *stage as u8 == byte)
    }
}

impl fmt::Display for StartStage {
    /// Writes the failed step as a phrase that follows "cannot", such as "set the user".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartStage::Pipes => "open pipes",
            StartStage::Fork => "create a process",
            StartStage::Session => "create a session",
            StartStage::Descriptors => "connect standard input and output",
            StartStage::ResourceLimits => "set resource limits",
            StartStage::Nice => "set the nice value",
            StartStage::Chroot => "change the root directory",
            StartStage::Groups => "set supplementary groups",
            StartStage::Group => "set the group",
            StartStage::User => "set the user",
            StartStage::Capabilities => "drop capabilities",
            StartStage::WorkingDirectory => "enter the working directory",
            StartStage::NoNewPrivileges => "set no_new_privs",
            StartStage::ParentDeathSignal => "set the parent-death signal",
            StartStage::ScriptFolder => "open the folder of the scripts",
            StartStage::Script => "find the script",
            StartStage::ScriptType => "execute what is not a regular file",
            StartStage::ScriptMode => "execute a file that is not executable",
            StartStage::Exec => "execute the program",
            StartStage::Interpreter => "find the interpreter of the script",
        })
    }
}

impl Reason {
    const ALL: [Reason; 10] = [
        Reason::UnknownStart,
        Reason::StaleTable,
        Reason::Arguments,
        Reason::Descriptors,
        Reason::DuplicateId,
        Reason::TooManyRunning,
        Reason::Stopping,
        Reason::NotRunning,
        Reason::Script,
        Reason::Variable,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == byte)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::UnknownStart => "the table has no such program",
            Reason::StaleTable => "the table was replaced",
            Reason::Arguments => "the program takes no arguments",
            Reason::Descriptors => "the request has no sockets, or wrong ones",
            Reason::DuplicateId => "a program with this ID is running",
            Reason::TooManyRunning => "too many programs are running",
            Reason::Stopping => "the server is stopping",
            Reason::NotRunning => "the program is not running",
            Reason::Script => "the script is not one of the table",
            Reason::Variable => "a variable of the environment is not one of CGI",
        })
    }
}

/// Returns the name of a signal, such as `SIGSEGV` (signal(7)).
#[must_use]
pub fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let number = usize::try_from(signal).unwrap_or(0);
    match number.checked_sub(1).and_then(|at| NAMES.get(at)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

impl SpawnerReply {
    /// Returns the number that the worker has chosen for the program.
    pub fn id(&self) -> u64 {
        match *self {
            SpawnerReply::Started { id, .. }
            | SpawnerReply::Failed { id, .. }
            | SpawnerReply::Exited { id, .. }
            | SpawnerReply::Signaled { id, .. }
            | SpawnerReply::Rejected { id, .. } => id,
        }
    }

    /// Encodes the reply.
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let (kind, detail, value) = match *self {
            SpawnerReply::Started { pid, .. } => (1, 0, pid),
            SpawnerReply::Failed { stage, errno, .. } => (2, stage as u8, errno.cast_unsigned()),
            SpawnerReply::Exited { status, .. } => (3, 0, u32::from(status)),
            SpawnerReply::Signaled { signal, .. } => (4, 0, u32::from(signal)),
            SpawnerReply::Rejected { reason, .. } => (5, reason as u8, 0),
        };
        let mut bytes = [0; REPLY_BYTES];
        bytes[..8].copy_from_slice(&self.id().to_le_bytes());
        bytes[8] = kind;
        bytes[9] = detail;
        bytes[12..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Decodes a reply. Returns `None` if the bytes are malformed; only another version of the
    /// spawner would send such bytes.
    pub fn decode(bytes: &[u8; REPLY_BYTES]) -> Option<Self> {
        let [id @ .., kind, detail, zero, other_zero, v0, v1, v2, v3] = *bytes;
        let (id, value) = (u64::from_le_bytes(id), u32::from_le_bytes([v0, v1, v2, v3]));
        if (zero, other_zero) != (0, 0) {
            return None;
        }
        match (kind, detail) {
            (1, 0) => Some(SpawnerReply::Started { id, pid: value }),
            (2, stage) => {
                let stage = StartStage::from_byte(stage)?;
                Some(SpawnerReply::Failed { id, stage, errno: value.cast_signed() })
            }
            (3, 0) => Some(SpawnerReply::Exited { id, status: u8::try_from(value).ok()? }),
            (4, 0) => Some(SpawnerReply::Signaled { id, signal: u8::try_from(value).ok()? }),
            (5, reason) if value == 0 => {
                Some(SpawnerReply::Rejected { id, reason: Reason::from_byte(reason)? })
            }
            _ => None,
        }
    }
}

/// Splits a stream of bytes into answers.
#[derive(Debug, Default)]
pub struct ReplyReader {
    /// The first bytes of an incomplete answer.
    begun: [u8; REPLY_BYTES],
    begun_bytes: usize,
}

impl ReplyReader {
    /// Accepts the next bytes of the stream and calls `found` with each complete answer, or with
    /// `None` for a reply that cannot be decoded. The cost is linear in the number of bytes.
    pub fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(Option<SpawnerReply>)) {
        while !bytes.is_empty() {
            let missing = &mut self.begun[self.begun_bytes..];
            let taken = missing.len().min(bytes.len());
            let (now, later) = bytes.split_at(taken);
            missing[..taken].copy_from_slice(now);
            self.begun_bytes += taken;
            bytes = later;
            if self.begun_bytes == REPLY_BYTES {
                self.begun_bytes = 0;
                found(SpawnerReply::decode(&self.begun));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replies() -> impl Strategy<Value = SpawnerReply> {
        let stage = prop::sample::select(StartStage::ALL.to_vec());
        let reason = prop::sample::select(Reason::ALL.to_vec());
        prop_oneof![
            (any::<u64>(), any::<u32>()).prop_map(|(id, pid)| SpawnerReply::Started { id, pid }),
            (any::<u64>(), stage, any::<i32>())
                .prop_map(|(id, stage, errno)| SpawnerReply::Failed { id, stage, errno }),
            (any::<u64>(), any::<u8>())
                .prop_map(|(id, status)| SpawnerReply::Exited { id, status }),
            (any::<u64>(), any::<u8>())
                .prop_map(|(id, signal)| SpawnerReply::Signaled { id, signal }),
            (any::<u64>(), reason).prop_map(|(id, reason)| SpawnerReply::Rejected { id, reason }),
        ]
    }

    proptest! {
        #[test]
        fn replies_are_decoded_however_their_bytes_are_split(
            sent in prop::collection::vec(replies(), 0..20),
            pieces in prop::collection::vec(1usize..40, 1..20),
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(SpawnerReply::encode).collect();
            let (mut reader, mut read) = (ReplyReader::default(), Vec::new());
            let mut rest = &bytes[..];
            for size in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, later) = rest.split_at((*size).min(rest.len()));
                reader.feed(piece, |reply| read.push(reply));
                rest = later;
            }
            let sent: Vec<Option<SpawnerReply>> = sent.into_iter().map(Some).collect();
            prop_assert_eq!(read, sent);
        }

        #[test]
        fn decoded_replies_encode_to_the_same_bytes(bytes in any::<[u8; REPLY_BYTES]>()) {
            if let Some(reply) = SpawnerReply::decode(&bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }

    #[test]
    fn a_reply_has_the_documented_layout() {
        let reply =
            SpawnerReply::Failed { id: 0x0102_0304_0506_0708, stage: StartStage::Exec, errno: 2 };
        let bytes = [8, 7, 6, 5, 4, 3, 2, 1, 2, 19, 0, 0, 2, 0, 0, 0];
        assert_eq!(reply.encode(), bytes);
    }
}
