//! The escaping of values by their context ([`pinion_template::Context`] documents the guarantee of
//! each). The functions take bytes and return `None` where nothing had to change, as for most
//! values.

use std::io::Write as _;

use pinion_http::html_escape;

use crate::bounded_output::{BoundedResult, check, room};
use crate::pattern::limits::RESULT_MAX_BYTES;

/// The most bytes that one byte may become: `&quot;`, `\u0026`.
const GROWTH_MAX: usize = 6;

/// Schemes of URLs that may come from a value: schemes that only lead to another place. Other
/// schemes, `javascript` and `data` above all, have to be written in the template.
const SCHEMES: &[&str] = &["http", "https", "mailto", "tel", "sms", "ftp", "geo", "xmpp"];

/// The replacement of a URL with another scheme.
const REFUSED_URL: &[u8] = b"about:invalid";

/// Escapes text of HTML and XML.
pub(super) fn html(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    replaced(text, |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\''), reference)
}

/// Escapes the value of an attribute between quotes; old browsers took backticks for such.
pub(super) fn attribute(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    replaced(text, |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'`'), reference)
}

/// Escapes the name of a tag or of an attribute.
pub(super) fn name(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte);
    let kept = replaced(text, |byte| !is_kept(byte), |_, _| {})?;
    let shown = kept.as_deref().unwrap_or(text);
    let begins = |front: &&[u8]| {
        shown.get(..front.len()).is_some_and(|shown| shown.eq_ignore_ascii_case(front))
    };
    Ok(if CODE_NAMES.iter().any(begins) { Some(Vec::new()) } else { kept })
}

/// The beginnings of attribute names that hold code, also after `data-`; the crate `template` has
/// the whole list, for names in the text of a page.
const CODE_NAMES: &[&[u8]] = &[
    b"on",
    b":",
    b"v-",
    b"x-",
    b"ng-",
    b"wire:",
    b"up-on-",
    b"hx-",
    b"attr:",
    b"bind",
    b"class:",
    b"computed",
    b"effect",
    b"signals",
    b"style:",
    b"data-on",
    b"data-attr:",
    b"data-bind",
    b"data-class:",
    b"data-computed",
    b"data-effect",
    b"data-signals",
    b"data-style:",
    b"data-ng-",
    b"data-hx-",
];

/// Escapes a whole URL in an attribute. White space at its ends is removed, as browsers do; inside
/// it is percent-encoded, so that it hides no scheme.
pub(super) fn url(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    let is_space = |byte: &u8| *byte <= b' ';
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let inner = &text[start..end];
    let before = inner.iter().position(|byte| b":/?#".contains(byte));
    if let Some(at) = before
        && inner[at] == b':'
        && !SCHEMES.iter().any(|known| inner[..at].eq_ignore_ascii_case(known.as_bytes()))
    {
        return Ok(Some(REFUSED_URL.to_vec()));
    }
    let is_kept = |byte: u8| is_unreserved(byte) || b":/?#[]@!$()*+,;=%".contains(&byte);
    let escaped = replaced(
        inner,
        |byte| !is_kept(byte),
        |byte, out| match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            byte => percent(byte, out),
        },
    )?;
    if escaped.is_some() || inner.len() == text.len() {
        return Ok(escaped);
    }
    check(inner.len())?;
    Ok(Some(inner.to_vec()))
}

/// Escapes a part of the path of a URL.
pub(super) fn url_path(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    replaced(text, |byte| !is_unreserved(byte) && byte != b'/', percent)
}

/// Escapes a part of the path of a URL, directly after a `/` with which the URL begins. `//` would
/// lead to another host, whether the second `/` belongs to the value or follows an empty one; `/.`
/// leads where `/` does.
pub(super) fn url_root(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    match text {
        [] => Ok(Some(b".".to_vec())),
        [b'/', rest @ ..] => {
            let escaped = url_path(rest)?;
            let (slash, rest) = (b"%2F", escaped.as_deref().unwrap_or(rest));
            let mut out = room(slash.len() + rest.len())?;
            out.extend_from_slice(slash);
            out.extend_from_slice(rest);
            Ok(Some(out))
        }
        _ => url_path(text),
    }
}

/// Escapes a part of a query or a fragment.
pub(super) fn url_query(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    replaced(text, |byte| !is_unreserved(byte), percent)
}

/// Escapes JSON, so that no tag, reference or line of JavaScript begins in it. Outside of its
/// strings JSON has none of these characters.
pub(super) fn script(json: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    units(json, |byte| matches!(byte, b'<' | b'>' | b'&'))
}

/// Escapes the inside of a string of JavaScript or JSON.
pub(super) fn script_string(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    units(text, |byte| {
        matches!(byte, 0..0x20 | 0x7f | b'"' | b'\'' | b'`' | b'$' | b'\\' | b'<' | b'>' | b'&')
    })
}

/// Escapes a value in CSS.
pub(super) fn style(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    let is_kept =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.%#".contains(&byte) || byte >= 0x80;
    replaced(
        text,
        |byte| !is_kept(byte),
        |byte, out| {
            // Writing to memory does not fail.
            let _written = write!(out, "\\{byte:x} ");
        },
    )
}

/// Escapes text in a comment: all characters that could end one, in any language, are left out. A
/// `-` stays between two other characters, so that no two of them meet, whatever surrounds the
/// value.
pub(super) fn comment(text: &[u8]) -> BoundedResult<Option<Vec<u8>>> {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b" _.,".contains(&byte);
    if text.iter().all(|&byte| is_kept(byte)) {
        return Ok(None);
    }
    let mut out = room(text.len())?;
    for &byte in text {
        let is_single = byte == b'-' && !matches!(out.last(), None | Some(b'-'));
        if is_kept(byte) || is_single {
            out.push(byte);
        }
    }
    if out.last() == Some(&b'-') {
        out.pop();
    }
    Ok(Some(out))
}

/// Returns whether a byte is unreserved (RFC 3986 §2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns a copy with some bytes replaced, if there are any of them.
fn replaced(
    text: &[u8],
    is_special: impl Fn(u8) -> bool,
    write: impl Fn(u8, &mut Vec<u8>),
) -> BoundedResult<Option<Vec<u8>>> {
    let Some(first) = text.iter().position(|&byte| is_special(byte)) else { return Ok(None) };
    let bytes_of = |byte| {
        let mut one = Vec::new();
        if is_special(byte) {
            write(byte, &mut one);
            return one.len();
        }
        1
    };
    let mut out = enough_room(text, || 0, bytes_of)?;
    out.extend_from_slice(&text[..first]);
    for &byte in &text[first..] {
        if is_special(byte) {
            write(byte, &mut out);
        } else {
            out.push(byte);
        }
    }
    Ok(Some(out))
}

/// Reserves memory for a text whose bytes become `bytes_of` each, and `more`. A text that cannot
/// become too long is not measured: it gets the memory that texts mostly need.
fn enough_room(
    text: &[u8],
    more: impl Fn() -> usize,
    bytes_of: impl Fn(u8) -> usize,
) -> BoundedResult {
    if text.len() <= RESULT_MAX_BYTES / GROWTH_MAX {
        return room(text.len() + text.len() / 8 + 16);
    }
    let bytes_of: [usize; 256] = std::array::from_fn(|byte| bytes_of(byte as u8));
    room(more() + text.iter().map(|&byte| bytes_of[usize::from(byte)]).sum::<usize>())
}

fn reference(byte: u8, out: &mut Vec<u8>) {
    match html_escape::reference(byte) {
        Some(reference) => out.extend_from_slice(reference.as_bytes()),
        None => {
            let _written = write!(out, "&#{byte};");
        }
    }
}

fn percent(byte: u8, out: &mut Vec<u8>) {
    let _written = write!(out, "%{byte:02X}");
}

/// Escapes some bytes, and U+2028 and U+2029, as `\uXXXX`. JavaScript older than 2019 takes those
/// two for ends of lines.
fn units(text: &[u8], is_special: impl Fn(u8) -> bool) -> BoundedResult<Option<Vec<u8>>> {
    const SEPARATOR: u8 = 0xe2;
    const UNIT_BYTES: usize = r"\u2028".len();
    let first = text.iter().position(|&byte| byte == SEPARATOR || is_special(byte));
    let Some(first) = first else { return Ok(None) };
    let is_separator = |three: &&[u8]| matches!(three, [SEPARATOR, 0x80, 0xa8 | 0xa9]);
    let more = || text.windows(3).filter(is_separator).count() * (UNIT_BYTES - 3);
    let mut out = enough_room(text, more, |byte| if is_special(byte) { UNIT_BYTES } else { 1 })?;
    out.extend_from_slice(&text[..first]);
    let mut rest = &text[first..];
    while let [byte, behind @ ..] = rest {
        rest = behind;
        match (byte, behind) {
            (&SEPARATOR, [0x80, last @ (0xa8 | 0xa9), behind @ ..]) => {
                out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                rest = behind;
            }
            (&byte, _) if is_special(byte) => {
                let _written = write!(out, "\\u{byte:04x}");
            }
            (&byte, _) => out.push(byte),
        }
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests;
