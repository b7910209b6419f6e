//! Writes replies in RESP2 and RESP3.

use std::sync::Arc;

use super::number::IntegerText;
use super::output::{OutputMark, ReplyOutput};
use crate::error::Error;

/// The version of the protocol that a client has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RespVersion {
    #[default]
    Two,
    Three,
}

/// A writer that appends replies to the output.
#[derive(Debug)]
pub(crate) struct Reply<'o> {
    pub(crate) output: &'o mut ReplyOutput,
    pub(crate) version: RespVersion,
}

impl Reply<'_> {
    fn line(&mut self, kind: u8, text: &[u8]) {
        let out = &mut self.output.bytes;
        out.push(kind);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn count(&mut self, kind: u8, count: usize) {
        let digit = |number: usize| b'0' + (number % 10) as u8;
        match count {
            0..10 => self.output.bytes.extend_from_slice(&[kind, digit(count), b'\r', b'\n']),
            10..100 => {
                let line = [kind, digit(count / 10), digit(count), b'\r', b'\n'];
                self.output.bytes.extend_from_slice(&line);
            }
            _ => self.line(kind, IntegerText::unsigned(count as u64).as_bytes()),
        }
    }

    /// Writes a simple string, which is one line.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    pub(crate) fn ok(&mut self) {
        self.output.bytes.extend_from_slice(b"+OK\r\n");
    }

    pub(crate) fn error(&mut self, error: &Error) {
        self.line(b'-', error.text().as_bytes());
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.line(b':', IntegerText::new(number).as_bytes());
    }

    /// Writes a number of elements or bytes.
    pub(crate) fn size(&mut self, number: usize) {
        self.count(b':', number);
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.count(b'$', bytes.len());
        self.output.bytes.extend_from_slice(bytes);
        self.output.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes a string, which is shared with the store if it is long.
    pub(crate) fn shared_bulk(&mut self, bytes: &Arc<Vec<u8>>) {
        self.count(b'$', bytes.len());
        self.output.push_string(bytes);
        self.output.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes an integer as a bulk string.
    pub(crate) fn bulk_integer(&mut self, number: i64) {
        self.bulk(IntegerText::new(number).as_bytes());
    }

    /// Writes a string, or null.
    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Writes null where a string is expected.
    pub(crate) fn null(&mut self) {
        self.output.bytes.extend_from_slice(match self.version {
            RespVersion::Two => b"$-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// Writes null where an array is expected.
    pub(crate) fn null_array(&mut self) {
        self.output.bytes.extend_from_slice(match self.version {
            RespVersion::Two => b"*-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// Begins an array of so many elements.
    pub(crate) fn array(&mut self, count: usize) {
        self.count(b'*', count);
    }

    /// Begins a map of so many pairs; an array of twice as many elements in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::Two => self.count(b'*', pairs * 2),
            RespVersion::Three => self.count(b'%', pairs),
        }
    }

    /// Begins a set of so many elements; an array in RESP2.
    pub(crate) fn set(&mut self, count: usize) {
        match self.version {
            RespVersion::Two => self.count(b'*', count),
            RespVersion::Three => self.count(b'~', count),
        }
    }

    /// Writes a floating-point number; a bulk string in RESP2.
    pub(crate) fn double(&mut self, number: f64) {
        let text = double_text(number);
        match self.version {
            RespVersion::Two => self.bulk(text.as_bytes()),
            RespVersion::Three => self.line(b',', text.as_bytes()),
        }
    }

    /// Writes text for people; a bulk string in RESP2.
    pub(crate) fn verbatim(&mut self, text: &str) {
        match self.version {
            RespVersion::Two => self.bulk(text.as_bytes()),
            RespVersion::Three => {
                self.count(b'=', text.len() + 4);
                self.output.bytes.extend_from_slice(b"txt:");
                self.output.bytes.extend_from_slice(text.as_bytes());
                self.output.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Begins a sequence of elements whose number is not known yet. [`Self::end_array`] writes its
    /// head.
    pub(crate) fn begin(&mut self) -> OutputMark {
        self.output.mark()
    }

    /// Turns the elements written since the mark into an array of so many elements.
    pub(crate) fn end_array(&mut self, mark: OutputMark, count: usize) {
        self.end(mark, |reply| reply.array(count));
    }

    /// Turns the elements written since the mark into a map of so many pairs.
    pub(crate) fn end_map(&mut self, mark: OutputMark, pairs: usize) {
        self.end(mark, |reply| reply.map(pairs));
    }

    /// Turns the elements written since the mark into a set of so many elements.
    pub(crate) fn end_set(&mut self, mark: OutputMark, count: usize) {
        self.end(mark, |reply| reply.set(count));
    }

    /// Inserts a string at the mark, before the elements written since then.
    pub(crate) fn insert_bulk(&mut self, mark: OutputMark, bytes: &[u8]) {
        self.end(mark, |reply| reply.bulk(bytes));
    }

    fn end(&mut self, mark: OutputMark, write_head: impl FnOnce(&mut Self)) {
        let from = self.output.bytes.len();
        write_head(self);
        self.output.move_tail_to_mark(mark, from);
    }
}

/// Returns the text of a number as Redis writes it since version 7.2: the shortest text that parses
/// to the same number.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    const EXACT_MAX: f64 = 1e17;
    if number.fract() == 0.0 && number.abs() < EXACT_MAX {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digit_count = digits.bytes().filter(u8::is_ascii_digit).count() as i32;
    let last_exponent = exponent - digit_count + 1;
    if last_exponent < 0 && (last_exponent > -7 || exponent.abs() < 4) {
        return format!("{number}");
    }
    format!("{digits}e{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::super::output::OutputPart;
    use super::*;

    #[test]
    fn lengths_of_nested_replies_precede_their_elements() {
        let mut output = ReplyOutput::default();
        let mut reply = Reply { output: &mut output, version: RespVersion::Three };
        reply.ok();
        let outer = reply.begin();
        reply.integer(1);
        let inner = reply.begin();
        let long = Arc::new(vec![b'x'; 20_000]);
        reply.shared_bulk(&long);
        reply.null();
        reply.end_set(inner, 2);
        reply.end_array(outer, 2);
        let text: Vec<_> = output
            .parts()
            .map(|part| match part {
                OutputPart::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                OutputPart::Shared(string) => format!("({} bytes)", string.len()),
            })
            .collect();
        let expected = ["+OK\r\n*2\r\n:1\r\n~2\r\n$20000\r\n", "(20000 bytes)", "\r\n_\r\n"];
        assert_eq!(text, expected);
        assert_eq!(output.len(), text[0].len() + 20_000 + text[2].len());
    }

    #[test]
    fn numbers_are_formatted_as_by_redis() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.1"),
            (1e16, "10000000000000000"),
            (1e20, "1e+20"),
            (1.5e-7, "1.5e-7"),
            (0.00001, "0.00001"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double_text(number), text);
        }
    }
}
