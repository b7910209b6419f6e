//! Parses inline commands, which are typed by people in one line: arguments between spaces, with
//! quotes.

use super::arguments::ArgumentRange;
use super::protocol_error::ProtocolError;

/// Splits a line into arguments, whose bytes are added to `out`. Within double quotes there are
/// `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`, and `\` before any other byte; within single quotes `\'`.
///
/// # Errors
/// A quote is not closed, or something other than a space follows it.
pub(crate) fn split(
    line: &[u8],
    out: &mut Vec<u8>,
    ranges: &mut Vec<ArgumentRange>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        let spaces = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = &rest[spaces..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = out.len();
        rest = argument(rest, out)?;
        ranges.push(ArgumentRange { start, end: out.len() });
    }
}

/// Returns whether a byte is white space as in C, which includes the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Takes one argument from the front. Returns the rest of the line.
fn argument<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [byte, ..] if is_space(*byte) => return Ok(rest),
            [b'"', inner @ ..] => rest = after_quote(double_quoted(inner, out)?)?,
            [b'\'', inner @ ..] => rest = after_quote(single_quoted(inner, out)?)?,
            [byte, others @ ..] => {
                out.push(*byte);
                rest = others;
            }
        }
    }
}

/// Checks that a closing quote is followed by a space or the end.
fn after_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', others @ ..] => return Ok(others),
            [b'\\', b'x', high, low, others @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(hex_digit(*high) << 4 | hex_digit(*low));
                others
            }
            [b'\\', escaped, others @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                others
            }
            [byte, others @ ..] => {
                out.push(*byte);
                others
            }
        }
    }
}

fn single_quoted<'l>(mut rest: &'l [u8], out: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', others @ ..] => return Ok(others),
            [b'\\', b'\'', others @ ..] => {
                out.push(b'\'');
                others
            }
            [byte, others @ ..] => {
                out.push(*byte);
                others
            }
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut out, mut ranges) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut out, &mut ranges)?;
        Ok(ranges.iter().map(|range| out[range.start..range.end].to_vec()).collect())
    }

    #[test]
    fn quotes_are_those_of_redis() {
        let cases: [(&str, &[&[u8]]); 9] = [
            ("", &[]),
            ("   ", &[]),
            ("SET a  b", &[b"SET", b"a", b"b"]),
            (r#"SET "a b" 'c d'"#, &[b"SET", b"a b", b"c d"]),
            (r#""\x41\xfF\n\q\"""#, &[b"A\xff\nq\""]),
            (r"'it\'s \n'", &[b"it's \\n"]),
            (r#""" ''"#, &[b"", b""]),
            (r#"a"b c""#, &[b"ab c"]),
            ("a\u{b}'b'\u{b}\u{c}\tc\u{b}", &[b"a", b"b", b"c"]),
        ];
        for (line, expected) in cases {
            assert_eq!(arguments(line).expect(line), expected, "{line}");
        }
        for line in [r#"""#, r#""a"b"#, "'a", "'a'b", r#""\"#, r#""\""#] {
            assert_eq!(arguments(line), Err(ProtocolError::UnbalancedQuotes), "{line}");
        }
    }
}
