//! Commands of one client that were parsed before it is their turn, so that the memory that they
//! read is fetched meanwhile.
//!
//! A look-up waits for memory twice: for the entry of a table, and for the record that it points
//! to; and once more for the parts of a value that is no short string. The entry is fetched when a
//! command is parsed, the record while the second command before it is executed, and the parts
//! while the last one before it is.

use crate::client::ClientState;
use crate::dispatch::{self, Prepared};
use crate::resp::protocol_error::ProtocolError;
use crate::resp::request_parser::{ParsedRequest, RequestParser};
use crate::store::Store;

/// Commands that are parsed ahead, with the one that is executed. An entry takes about as long to
/// come from memory as two short commands take.
const DEPTH: usize = 4;

/// See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct Lookahead {
    /// A ring. The one behind those of the commands may have a part of one.
    parsers: [RequestParser; DEPTH],
    commands: [CommandAhead; DEPTH],
    first: usize,
    count: usize,
    /// How many bytes of the input were parsed.
    parsed_bytes: usize,
}

/// A command that has come whole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommandAhead {
    /// Where it begins in the input.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    pub(crate) prepared: Prepared,
}

/// What is behind the last whole command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rest {
    /// A command that has not come whole, and has at least so many bytes.
    Incomplete {
        /// Where it begins in the input.
        start: usize,
        /// Bytes from its beginning.
        bytes: usize,
    },
    /// Something else than a command.
    Malformed(ProtocolError),
}

impl Lookahead {
    /// Begins with input, of which nothing was parsed but the command that has not come whole
    /// before, with which it begins.
    pub(crate) fn begin(&mut self) {
        (self.count, self.parsed_bytes) = (0, 0);
    }

    /// Parses commands. Returns what is behind the last one when it is known.
    #[inline]
    pub(crate) fn look(
        &mut self,
        store: &Store,
        client: &ClientState,
        input: &[u8],
    ) -> Option<Rest> {
        // Before a client has authenticated, what a command does decides about the next one.
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

    /// Returns the next command, which is to be executed now.
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

    /// Returns the parser of the next command, or of the one that has not come whole.
    #[inline]
    pub(crate) fn parser(&self) -> &RequestParser {
        &self.parsers[self.first]
    }

    /// The next command was executed.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.first = (self.first + 1) % DEPTH;
        self.count -= 1;
    }

    /// Gives back memory that long commands have left.
    pub(crate) fn shrink(&mut self) {
        self.parsers.iter_mut().for_each(RequestParser::shrink);
    }
}
