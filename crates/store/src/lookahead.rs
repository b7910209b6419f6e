//! Parses commands of one client ahead of their execution, so that the memory that they will read
//! is prefetched.
//!
//! A lookup waits for memory twice: for the entry of a table, and for the record that the entry
//! points to. It waits once more for the parts of a value that is not a short string. The entry is
//! prefetched when a command is parsed, the record while the second command before it is executed,
//! and the parts while the command directly before it is executed.

use crate::client::ClientState;
use crate::dispatch::{self, Prepared};
use crate::resp::protocol_error::ProtocolError;
use crate::resp::request_parser::{ParsedRequest, RequestParser};
use crate::store::Store;

/// Number of commands that are parsed ahead, including the one that is executed. An entry takes
/// about as long to arrive from memory as two short commands take.
const DEPTH: usize = 4;

/// The commands of one client that were parsed ahead.
#[derive(Debug, Default)]
pub(crate) struct Lookahead {
    /// A ring of parsers, one for each command. The parser after those of the commands may have a
    /// partial command.
    parsers: [RequestParser; DEPTH],
    commands: [CommandAhead; DEPTH],
    first: usize,
    count: usize,
    /// The number of bytes of the input that were parsed.
    parsed_bytes: usize,
}

/// A complete command in the input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandAhead {
    /// The offset of its first byte in the input.
    pub(crate) start: usize,
    /// The offset of its end in the input.
    pub(crate) end: usize,
    pub(crate) prepared: Prepared,
}

/// The state of the input after the last complete command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rest {
    /// An incomplete command that has at least so many bytes.
    Incomplete {
        /// The offset of its first byte in the input.
        start: usize,
        /// The least number of bytes from the start of the command.
        bytes: usize,
    },
    /// Malformed input that is not a command.
    Malformed(ProtocolError),
}

impl Lookahead {
    /// Begins with new input, of which nothing was parsed yet except the partial command of the
    /// previous input, with which it begins.
    pub(crate) fn begin(&mut self) {
        (self.count, self.parsed_bytes) = (0, 0);
    }

    /// Parses commands. Returns the state of the input after the last one as soon as it is known.
    #[inline]
    pub(crate) fn look(
        &mut self,
        store: &Store,
        client: &ClientState,
        input: &[u8],
    ) -> Option<Rest> {
        // Before a client has authenticated, the effect of a command decides about the next one, so
        // none is parsed ahead.
        let depth = if client.is_authenticated { DEPTH } else { 1 };
        while self.count < depth {
            let index = (self.first + self.count) % DEPTH;
            let start = self.parsed_bytes;
            let rest = &input[start..];
            match self.parsers[index].parse(rest, client.is_authenticated) {
                Ok(ParsedRequest::Command { bytes }) => {
                    let arguments = self.parsers[index].arguments(rest);
                    let mut prepared = dispatch::prepare(store, arguments);
                    if self.count > 0 {
                        prepared.prefetch_entry(store, client.database);
                    }
                    self.parsed_bytes += bytes;
                    let end = self.parsed_bytes;
                    self.commands[index] = CommandAhead { start, end, prepared };
                    self.count += 1;
                }
                Ok(ParsedRequest::Nothing { bytes }) => self.parsed_bytes += bytes,
                Ok(ParsedRequest::Incomplete { bytes }) => {
                    return Some(Rest::Incomplete { start, bytes });
                }
                Err(error) => return Some(Rest::Malformed(error)),
            }
        }
        None
    }

    /// Returns the command that is to be executed next.
    #[inline]
    pub(crate) fn next(&mut self, store: &Store, database: usize) -> Option<CommandAhead> {
        if self.count > 1 {
            let following = &mut self.commands[(self.first + 1) % DEPTH].prepared;
            following.prefetch_parts(store, database);
            following.prefetch_record(store, database);
        }
        if self.count > 2 {
            let second = &mut self.commands[(self.first + 2) % DEPTH].prepared;
            second.prefetch_record(store, database);
        }
        (self.count > 0).then(|| self.commands[self.first])
    }

    /// Returns the parser of the next command, or of the incomplete one.
    #[inline]
    pub(crate) fn parser(&self) -> &RequestParser {
        &self.parsers[self.first]
    }

    /// Removes the next command after its execution.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.first = (self.first + 1) % DEPTH;
        self.count -= 1;
    }

    /// Frees memory that long commands have used.
    pub(crate) fn shrink(&mut self) {
        self.parsers.iter_mut().for_each(RequestParser::shrink);
    }
}
