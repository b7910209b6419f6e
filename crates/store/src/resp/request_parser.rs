//! Parses commands: arrays of bulk strings, and inline commands.

use super::arguments::{ArgumentRange, Arguments, OwnedArguments};
use super::inline_command;
use super::number::parse_i64;
use super::protocol_error::ProtocolError;
use crate::limits::{
    ARGUMENTS_MAX, COPIED_COMMAND_MAX_BYTES, LINE_MAX_BYTES, STRING_MAX_BYTES,
    UNAUTHENTICATED_ARGUMENT_MAX_BYTES, UNAUTHENTICATED_ARGUMENTS_MAX,
};

/// A parser of one connection. It keeps its state within an incomplete command, so each byte is
/// parsed only once.
#[derive(Debug, Default)]
pub(crate) struct RequestParser {
    ranges: Vec<ArgumentRange>,
    /// The number of arguments of the command that were not parsed yet.
    missing: usize,
    /// The number of bytes of the command that were parsed.
    parsed_bytes: usize,
    /// The length of the next argument, if the line with its length was parsed.
    length: Option<usize>,
    /// The arguments of a command in one line.
    line: Vec<u8>,
    is_line: bool,
}

/// The result of parsing the start of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedRequest {
    /// An incomplete command, which has at least so many bytes.
    Incomplete {
        /// The least number of bytes from the start of the command.
        bytes: usize,
    },
    /// A command, whose arguments are those of the parser.
    Command {
        /// The number of its bytes in the input.
        bytes: usize,
    },
    /// No command: an empty line, or an array without elements.
    Nothing {
        /// The number of its bytes in the input.
        bytes: usize,
    },
}

impl RequestParser {
    /// Parses the command that the input begins with. After [`ParsedRequest::Incomplete`], the next
    /// input begins with the same bytes.
    ///
    /// # Errors
    /// The input is not a command. The rest of the input cannot be parsed.
    pub(crate) fn parse(
        &mut self,
        input: &[u8],
        is_authenticated: bool,
    ) -> Result<ParsedRequest, ProtocolError> {
        if self.missing == 0 {
            if is_authenticated && let Some(bytes) = self.parse_short(input) {
                return Ok(ParsedRequest::Command { bytes });
            }
            match input.first() {
                None => return Ok(ParsedRequest::Incomplete { bytes: 1 }),
                Some(b'*') => {}
                Some(_) => return self.parse_line(input),
            }
            self.ranges.clear();
            self.is_line = false;
            let Some(line) = line(input, 1, ProtocolError::MultibulkLine)? else {
                return Ok(ParsedRequest::Incomplete { bytes: input.len() + 1 });
            };
            let count = parse_i64(line.text).ok_or(ProtocolError::MultibulkLength)?;
            if count <= 0 {
                return Ok(ParsedRequest::Nothing { bytes: line.end });
            }
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count > ARGUMENTS_MAX {
                return Err(ProtocolError::MultibulkLength);
            }
            if !is_authenticated && count > UNAUTHENTICATED_ARGUMENTS_MAX {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            self.missing = count;
            self.parsed_bytes = line.end;
        }
        self.parse_arguments(input, is_authenticated)
    }

    /// Parses a complete command of less than a hundred arguments with less than a hundred bytes
    /// each, as most commands are. Returns its number of bytes.
    fn parse_short(&mut self, input: &[u8]) -> Option<usize> {
        let (count, line_bytes) = short_line(input, b'*')?;
        if count == 0 {
            return None;
        }
        self.ranges.clear();
        self.is_line = false;
        let mut at = line_bytes;
        for _ in 0..count {
            let (length, line_bytes) = short_line(input.get(at..)?, b'$')?;
            let start = at + line_bytes;
            let end = start + length;
            at = end + LINE_END_BYTES;
            if input.len() < at {
                return None;
            }
            self.ranges.push(ArgumentRange { start, end });
        }
        Some(at)
    }

    fn parse_arguments(
        &mut self,
        input: &[u8],
        is_authenticated: bool,
    ) -> Result<ParsedRequest, ProtocolError> {
        while self.missing > 0 {
            let length = match self.length {
                Some(length) => length,
                None => {
                    match input.get(self.parsed_bytes) {
                        None => return Ok(ParsedRequest::Incomplete { bytes: input.len() + 1 }),
                        Some(b'$') => {}
                        Some(&found) => return Err(ProtocolError::ExpectedBulk { found }),
                    }
                    let from = self.parsed_bytes + 1;
                    let Some(line) = line(input, from, ProtocolError::BulkLine)? else {
                        return Ok(ParsedRequest::Incomplete { bytes: input.len() + 1 });
                    };
                    let length = bulk_length(line.text, is_authenticated)?;
                    self.parsed_bytes = line.end;
                    self.length = Some(length);
                    length
                }
            };
            let range = ArgumentRange { start: self.parsed_bytes, end: self.parsed_bytes + length };
            let end = range.end + LINE_END_BYTES;
            if input.len() < end {
                return Ok(ParsedRequest::Incomplete { bytes: end });
            }
            self.ranges.push(range);
            self.parsed_bytes = end;
            self.length = None;
            self.missing -= 1;
        }
        Ok(ParsedRequest::Command { bytes: self.parsed_bytes })
    }

    /// Parses a command in the form of a line.
    fn parse_line(&mut self, input: &[u8]) -> Result<ParsedRequest, ProtocolError> {
        let Some(end) = memchr::memchr(b'\n', input) else {
            if input.len() > LINE_MAX_BYTES {
                return Err(ProtocolError::InlineLength);
            }
            return Ok(ParsedRequest::Incomplete { bytes: input.len() + 1 });
        };
        self.ranges.clear();
        self.line.clear();
        self.is_line = true;
        let text = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        inline_command::split(text, &mut self.line, &mut self.ranges)?;
        if let Some(name) = self.arguments(input).get(0)
            && (name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:"))
        {
            return Err(ProtocolError::CrossProtocol);
        }
        let bytes = end + 1;
        let is_empty = self.ranges.is_empty();
        Ok(if is_empty {
            ParsedRequest::Nothing { bytes }
        } else {
            ParsedRequest::Command { bytes }
        })
    }

    /// Returns the arguments of the command that was parsed from this input.
    pub(crate) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.is_line { &self.line } else { input };
        Arguments { bytes, ranges: &self.ranges }
    }

    /// Returns the arguments of the command that was parsed at `start` of a buffer. Those of a long
    /// command keep the buffer. Also returns the bytes that follow the command, which has `bytes`
    /// bytes.
    pub(crate) fn take_arguments(
        &self,
        mut buffer: Vec<u8>,
        start: usize,
        bytes: usize,
    ) -> (OwnedArguments, Vec<u8>) {
        if self.is_line || bytes <= COPIED_COMMAND_MAX_BYTES {
            let arguments = OwnedArguments::new(self.arguments(&buffer[start..]));
            buffer.drain(..start + bytes);
            return (arguments, buffer);
        }
        let rest = buffer[start + bytes..].to_vec();
        (OwnedArguments::of_buffer(buffer, start, &self.ranges), rest)
    }

    /// Frees memory that a long command has used.
    pub(crate) fn shrink(&mut self) {
        const KEPT_ARGUMENTS: usize = 128;
        const KEPT_LINE_BYTES: usize = 1024;
        if self.ranges.capacity() > KEPT_ARGUMENTS && self.missing == 0 {
            self.ranges = Vec::new();
        }
        if self.line.capacity() > KEPT_LINE_BYTES {
            self.line = Vec::new();
        }
    }
}

/// Returns the number below a hundred of a whole line of this kind, and the bytes of the line.
#[inline]
fn short_line(input: &[u8], kind: u8) -> Option<(usize, usize)> {
    match input {
        [first, ones @ b'0'..=b'9', b'\r', _, ..] if *first == kind => {
            Some((usize::from(ones - b'0'), 4))
        }
        [first, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] if *first == kind => {
            Some((usize::from((tens - b'0') * 10 + (ones - b'0')), 5))
        }
        _ => None,
    }
}

/// Number of bytes of CR and LF.
const LINE_END_BYTES: usize = 2;

struct LengthLine<'a> {
    text: &'a [u8],
    /// The offset at which the next line begins.
    end: usize,
}

/// Returns the line that begins at `from`, or `None` if its end has not arrived.
fn line(
    input: &[u8],
    from: usize,
    too_long: ProtocolError,
) -> Result<Option<LengthLine<'_>>, ProtocolError> {
    let rest = &input[from..];
    // Lines are short: a loop is faster than a search.
    let found = rest.iter().take(LINE_MAX_BYTES).position(|&byte| byte == b'\r');
    match found {
        Some(length) if rest.len() >= length + LINE_END_BYTES => {
            Ok(Some(LengthLine { text: &rest[..length], end: from + length + LINE_END_BYTES }))
        }
        None if rest.len() >= LINE_MAX_BYTES => Err(too_long),
        _ => Ok(None),
    }
}

fn bulk_length(text: &[u8], is_authenticated: bool) -> Result<usize, ProtocolError> {
    let length = parse_i64(text).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|&length| length <= STRING_MAX_BYTES);
    let length = length.ok_or(ProtocolError::BulkLength)?;
    if !is_authenticated && length > UNAUTHENTICATED_ARGUMENT_MAX_BYTES {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses everything, with the input cut at these places. Returns the commands and the error.
    fn parse_all(input: &[u8], cuts: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        let mut parser = RequestParser::default();
        let (mut buffer, mut commands) = (Vec::new(), Vec::new());
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            buffer.extend_from_slice(&input[pair[0]..pair[1]]);
            loop {
                let bytes = match parser.parse(&buffer, true) {
                    Err(error) => return (commands, Some(error)),
                    Ok(ParsedRequest::Incomplete { bytes }) => {
                        assert!(bytes > buffer.len());
                        break;
                    }
                    Ok(ParsedRequest::Nothing { bytes }) => bytes,
                    Ok(ParsedRequest::Command { bytes }) => {
                        let arguments = parser.arguments(&buffer);
                        commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                        bytes
                    }
                };
                buffer.drain(..bytes);
            }
        }
        (commands, None)
    }

    #[test]
    fn errors_are_those_of_redis() {
        let long = [b"*".as_slice(), &[b'1'; LINE_MAX_BYTES + 1]].concat();
        let long_bulk = [b"*1\r\n$".as_slice(), &[b'1'; LINE_MAX_BYTES + 1]].concat();
        let cases: [(&[u8], &str); 13] = [
            (b"*x\r\n", "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n$x\r\n", "invalid bulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"*1\r\nfoo", "expected '$', got 'f'"),
            (b"*1\r\n\0", "expected '$', got '?'"),
            (b"GET \"a\r\n", "unbalanced quotes in request"),
            (b"POST / HTTP/1.1\r\n", "this is not an HTTP server"),
            (b"host: a\r\n", "this is not an HTTP server"),
            (&long, "too big mbulk count string"),
            (&long_bulk, "too big bulk count string"),
            (&[b'a'; LINE_MAX_BYTES + 1], "too big inline request"),
        ];
        for (input, expected) in cases {
            let (commands, error) = parse_all(input, &[]);
            assert!(commands.is_empty());
            assert_eq!(error.expect(expected).to_string(), expected);
        }
    }

    #[test]
    fn requests_of_unauthenticated_clients_have_small_limits() {
        for (input, expected) in [
            ("*11\r\n", ProtocolError::UnauthenticatedMultibulkLength),
            ("*1\r\n$16385\r\n", ProtocolError::UnauthenticatedBulkLength),
        ] {
            assert_eq!(RequestParser::default().parse(input.as_bytes(), false), Err(expected));
        }
    }

    proptest! {
        #[test]
        fn commands_are_parsed_the_same_however_input_is_split(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5),
                0..6,
            ),
            cuts in prop::collection::vec(any::<usize>(), 0..20),
        ) {
            let mut input = Vec::new();
            for command in &commands {
                input.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
                for argument in command {
                    input.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
                    input.extend_from_slice(argument);
                    input.extend_from_slice(b"\r\n");
                }
                input.extend_from_slice(b"*0\r\n\r\n");
            }
            prop_assert_eq!(parse_all(&input, &cuts), (commands, None));
        }

        #[test]
        fn any_bytes_are_parsed_the_same_however_they_are_split(
            input in prop::collection::vec(
                prop::sample::select(b"*$1209-\r\n\"'\\x a".to_vec()),
                0..60,
            ),
            cuts in prop::collection::vec(any::<usize>(), 0..20),
        ) {
            prop_assert_eq!(parse_all(&input, &cuts), parse_all(&input, &[]));
        }
    }
}
