//! The lines of chunked content: RFC 9112 §7.1 and RFC 9110 §5.6 taken literally. For requests and
//! responses.

/// Returns the text up to the next CRLF.
pub(crate) fn line_at(wire: &[u8], at: usize) -> Option<&[u8]> {
    let rest = &wire[at..];
    rest.windows(2).position(|two| two == b"\r\n").map(|end| &rest[..end])
}

/// RFC 9112 §7.1.1: *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
pub(crate) fn is_extensions(text: &[u8]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let Some(after) = skip_space(rest).strip_prefix(b";") else { return false };
        let Some(after) = skip_token(skip_space(after)) else { return false };
        rest = after;
        if let Some(value) = skip_space(rest).strip_prefix(b"=") {
            let value = skip_space(value);
            match skip_token(value).or_else(|| skip_quoted(value)) {
                Some(after) => rest = after,
                None => return false,
            }
        }
    }
    true
}

fn skip_space(text: &[u8]) -> &[u8] {
    let space = text.iter().take_while(|byte| b" \t".contains(byte)).count();
    &text[space..]
}

fn skip_token(text: &[u8]) -> Option<&[u8]> {
    let tchar = |b: &&u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    match text.iter().take_while(tchar).count() {
        0 => None,
        length => Some(&text[length..]),
    }
}

/// RFC 9110 §5.6.4: DQUOTE *( qdtext / quoted-pair ) DQUOTE
fn skip_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', byte, after @ ..] if is_value(*byte) => rest = after,
            [b'\\', ..] => return None,
            [byte, after @ ..] if is_value(*byte) => rest = after,
            _ => return None,
        }
    }
}

pub(crate) fn is_field_line(line: &[u8]) -> bool {
    match skip_token(line) {
        Some([b':', value @ ..]) => value.iter().all(|&byte| is_value(byte)),
        _ => false,
    }
}

fn is_value(byte: u8) -> bool {
    byte == b'\t' || (b' '..=b'~').contains(&byte) || byte >= 0x80
}
