//! How values are escaped, by where they stand ([`pinion_template::Context`] says what each way
//! promises). Bytes in; `None` where nothing had to change, which is what most values are.

use std::io::Write as _;

use crate::grown::{Grown, check, room};
use crate::pattern::limits::RESULT_MAX_BYTES;

/// How many bytes one may become: `&quot;`, `\u0026`.
const GROWTH_MAX: usize = 6;

/// Schemes that a URL may have that is a value: those that do nothing but lead somewhere. The
/// others, `javascript` and `data` above all, are written into the template by whoever means it.
const SCHEMES: &[&str] = &["http", "https", "mailto", "tel", "sms", "ftp", "geo", "xmpp"];

/// What stands in the place of a URL with another scheme.
const REFUSED_URL: &[u8] = b"about:invalid";

/// Text of HTML and XML.
pub(super) fn html(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    replaced(text, |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\''), reference)
}

/// The value of an attribute between quotes; old browsers took backticks for such.
pub(super) fn attribute(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    replaced(text, |byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'`'), reference)
}

/// The name of a tag or of an attribute.
pub(super) fn name(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte);
    let kept = replaced(text, |byte| !is_kept(byte), |_, _| {})?;
    let shown = kept.as_deref().unwrap_or(text);
    let begins = |front: &&[u8]| {
        shown.get(..front.len()).is_some_and(|shown| shown.eq_ignore_ascii_case(front))
    };
    Ok(if CODE_NAMES.iter().any(begins) { Some(Vec::new()) } else { kept })
}

/// What the names of attributes begin with that hold code, also behind `data-`; the crate
/// `template` has the whole list, of what is written in a page.
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

/// A whole URL in an attribute. White space at its ends goes, as browsers have it; inside it is
/// percent-encoded, so that no scheme hides behind it.
pub(super) fn url(text: &[u8]) -> Grown<Option<Vec<u8>>> {
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

/// A part of the path of a URL.
pub(super) fn url_path(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    replaced(text, |byte| !is_unreserved(byte) && byte != b'/', percent)
}

/// A part of the path of a URL, right behind a `/` with which the URL begins. `//` would lead to
/// another host, be the second `/` of the value or stand behind an empty one; `/.` leads where `/`
/// does.
pub(super) fn url_root(text: &[u8]) -> Grown<Option<Vec<u8>>> {
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

/// A part of a query or a fragment.
pub(super) fn url_query(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    replaced(text, |byte| !is_unreserved(byte), percent)
}

/// JSON, so that no tag, reference or line of JavaScript begins in it. None of these characters
/// stands outside of its strings.
pub(super) fn script(json: &[u8]) -> Grown<Option<Vec<u8>>> {
    units(json, |byte| matches!(byte, b'<' | b'>' | b'&'))
}

/// The inside of a string of JavaScript or JSON.
pub(super) fn script_string(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    units(text, |byte| {
        matches!(byte, 0..0x20 | 0x7f | b'"' | b'\'' | b'`' | b'$' | b'\\' | b'<' | b'>' | b'&')
    })
}

/// CSS.
pub(super) fn style(text: &[u8]) -> Grown<Option<Vec<u8>>> {
    let is_kept =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.%#".contains(&byte) || byte >= 0x80;
    replaced(
        text,
        |byte| !is_kept(byte),
        |byte, out| {
            // Nothing can go wrong when memory is written to.
            let _written = write!(out, "\\{byte:x} ");
        },
    )
}

/// A comment: whatever could end one, of any language, is left out. A `-` stays between two other
/// characters, so that no two of them meet, whatever stands around the value.
pub(super) fn comment(text: &[u8]) -> Grown<Option<Vec<u8>>> {
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

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// A copy with some bytes written otherwise, if there are any of them.
fn replaced(
    text: &[u8],
    is_special: impl Fn(u8) -> bool,
    write: impl Fn(u8, &mut Vec<u8>),
) -> Grown<Option<Vec<u8>>> {
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

/// Room for a text whose bytes become so many each, and some more. One that cannot become too long
/// is not measured: it takes what texts mostly take.
fn enough_room(text: &[u8], more: impl Fn() -> usize, bytes_of: impl Fn(u8) -> usize) -> Grown {
    if text.len() <= RESULT_MAX_BYTES / GROWTH_MAX {
        return room(text.len() + text.len() / 8 + 16);
    }
    let bytes_of: [usize; 256] = std::array::from_fn(|byte| bytes_of(byte as u8));
    room(more() + text.iter().map(|&byte| bytes_of[usize::from(byte)]).sum::<usize>())
}

fn reference(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'&' => out.extend_from_slice(b"&amp;"),
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'"' => out.extend_from_slice(b"&quot;"),
        byte => {
            let _written = write!(out, "&#{byte};");
        }
    }
}

fn percent(byte: u8, out: &mut Vec<u8>) {
    let _written = write!(out, "%{byte:02X}");
}

/// With some bytes, and U+2028 and U+2029, as `\uXXXX`. JavaScript older than 2019 takes those two
/// for ends of lines.
fn units(text: &[u8], is_special: impl Fn(u8) -> bool) -> Grown<Option<Vec<u8>>> {
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
