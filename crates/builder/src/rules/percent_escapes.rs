//! Percent escapes in rules files.

use pinion_http::grammar::hex_digit;

use super::source_lines::{LineFault, Word};

/// Returns the bytes of a path, its escapes decoded.
pub(super) fn decoded(word: Word<'_>) -> Result<Vec<u8>, LineFault> {
    let bytes = unescaped(word, |byte| byte)?;
    let is_in_no_key = |byte: &&Byte| byte.value == 0 || (byte.escaped && byte.value == b'/');
    if let Some(byte) = bytes.iter().find(is_in_no_key) {
        let column = word.column_at(byte.offset);
        return Err(LineFault::new(column, "a path without %2F and %00")
            .advise("no path of a site has them"));
    }
    Ok(bytes.into_iter().map(|byte| byte.value).collect())
}

/// Returns the bytes of a key or value of a query; `+` is a space there.
pub(super) fn query_decoded(word: Word<'_>) -> Result<Vec<u8>, LineFault> {
    let bytes = unescaped(word, |byte| if byte == b'+' { b' ' } else { byte })?;
    Ok(bytes.into_iter().map(|byte| byte.value).collect())
}

struct Byte {
    value: u8,
    escaped: bool,
    /// The offset in the word.
    offset: usize,
}

fn unescaped(word: Word<'_>, plain: fn(u8) -> u8) -> Result<Vec<Byte>, LineFault> {
    let mut bytes = Vec::with_capacity(word.text.len());
    let mut rest = word.text.as_bytes();
    while let [first, tail @ ..] = rest {
        let offset = word.text.len() - rest.len();
        if *first != b'%' {
            bytes.push(Byte { value: plain(*first), escaped: false, offset });
            rest = tail;
            continue;
        }
        let digits = tail.split_first_chunk().and_then(|(&[high, low], behind)| {
            Some((hex_digit(high)? << 4 | hex_digit(low)?, behind))
        });
        let Some((value, behind)) = digits else {
            let fault = LineFault::new(word.column_at(offset), "two hexadecimal digits after %");
            return Err(fault.advise("write %25 for a percent sign"));
        };
        bytes.push(Byte { value, escaped: true, offset });
        rest = behind;
    }
    Ok(bytes)
}
