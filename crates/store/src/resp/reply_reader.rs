//! Reads replies in RESP3 for local clients, without copying.

use super::number::{parse_i64, parse_u64};
use super::output::ReplyOutput;

/// A reader of the elements of the replies in an output, one after the other. The elements of an
/// array, a set or a map follow its head.
#[derive(Debug)]
pub struct ReplyReader<'o> {
    output: &'o ReplyOutput,
    /// The number of bytes of the buffer that were read. Shared strings are not counted.
    position: usize,
    /// The number of shared strings that were read.
    shared_strings: usize,
}

/// One element of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplyElement<'o> {
    /// The null value.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number, which may be infinite.
    Double(f64),
    /// A simple, bulk or verbatim string; a verbatim string without its format.
    Bytes(&'o [u8]),
    /// The text of an error, with its prefix.
    Error(&'o [u8]),
    /// The head of an array or a set of so many elements.
    List(usize),
    /// The head of a map of so many pairs. Each pair follows as one element for the key and one for
    /// the value.
    Map(usize),
}

impl<'o> ReplyReader<'o> {
    /// Reads an output of a [`LocalClient`](crate::local_client::LocalClient) from its beginning.
    pub fn new(output: &'o ReplyOutput) -> Self {
        Self { output, position: 0, shared_strings: 0 }
    }

    /// Returns the next element, or `None` after the last one.
    pub fn next_element(&mut self) -> Option<ReplyElement<'o>> {
        let (kind, text) = self.line()?;
        // The store itself has written the reply, so it is well-formed.
        Some(match kind {
            b':' => ReplyElement::Integer(parse_i64(text).unwrap_or_default()),
            b',' => ReplyElement::Double(parse_double(text)),
            b'+' => ReplyElement::Bytes(text),
            b'-' => ReplyElement::Error(text),
            b'$' => ReplyElement::Bytes(self.bulk(count(text))),
            b'=' => {
                const VERBATIM_PREFIX_BYTES: usize = "txt:".len();
                let bytes = self.bulk(count(text));
                ReplyElement::Bytes(bytes.get(VERBATIM_PREFIX_BYTES..).unwrap_or_default())
            }
            b'*' | b'~' => ReplyElement::List(count(text)),
            b'%' => ReplyElement::Map(count(text)),
            kind => {
                debug_assert_eq!(kind, b'_', "no reply has another kind");
                ReplyElement::Null
            }
        })
    }

    /// Reads a line, without its end: its first byte, and the rest.
    fn line(&mut self) -> Option<(u8, &'o [u8])> {
        let rest = self.output.bytes.get(self.position..)?;
        let end = memchr::memchr(b'\r', rest)?;
        self.position += end + b"\r\n".len();
        let (kind, text) = rest[..end].split_first()?;
        Some((*kind, text))
    }

    /// Reads a string of `length` bytes with the end of its line. The string is a shared one if the
    /// output has one at this position, otherwise it is in the buffer.
    fn bulk(&mut self, length: usize) -> &'o [u8] {
        let bytes = match self.output.shared_string_at(self.shared_strings, self.position) {
            Some(string) => {
                self.shared_strings += 1;
                string.as_slice()
            }
            None => {
                let from = self.position;
                self.position += length;
                self.output.bytes.get(from..self.position).unwrap_or_default()
            }
        };
        self.position += b"\r\n".len();
        bytes
    }
}

/// Returns the count at the beginning of an element. The store has written the reply, so it is
/// valid.
fn count(text: &[u8]) -> usize {
    parse_u64(text).and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}

/// Returns the value of a floating-point number, which the store has written.
fn parse_double(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::reply_writer::{Reply, RespVersion};
    use super::*;
    use crate::error::NOT_A_FLOAT;

    #[test]
    fn all_kinds_of_reply_elements_round_trip() {
        let mut output = ReplyOutput::default();
        let long = Arc::new(vec![b'x'; 100_000]);
        let mut reply = Reply { output: &mut output, version: RespVersion::Three };
        reply.array(9);
        reply.ok();
        reply.integer(i64::MIN);
        reply.double(f64::NEG_INFINITY);
        reply.bulk(b"");
        // Strings that are shared, and one as long that is not.
        reply.shared_bulk(&long);
        reply.bulk(&long);
        reply.shared_bulk(&long);
        reply.map(1);
        reply.bulk(b"a\r\nb");
        reply.null();
        reply.set(1);
        reply.verbatim("two\nlines");
        reply.error(&NOT_A_FLOAT);
        use ReplyElement::{Bytes, Double, Error, Integer, List, Map, Null};
        let expected = [
            List(9),
            Bytes(b"OK"),
            Integer(i64::MIN),
            Double(f64::NEG_INFINITY),
            Bytes(b""),
            Bytes(&long),
            Bytes(&long),
            Bytes(&long),
            Map(1),
            Bytes(b"a\r\nb"),
            Null,
            List(1),
            Bytes(b"two\nlines"),
            Error(b"ERR value is not a valid float"),
        ];
        let mut reader = ReplyReader::new(&output);
        for element in expected {
            assert_eq!(reader.next_element(), Some(element));
        }
        assert_eq!(reader.next_element(), None);
    }
}
