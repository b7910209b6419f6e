//! The head of a part: its name, and whether it is a file.

use super::FormFault;
use super::parameters::Parameters;
use crate::grammar::{is_token, trim};
use crate::limits::PART_NAME_MAX_BYTES;

/// The contents of the head of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The name of the field of the form: any bytes, mostly UTF-8, perhaps none.
    pub name: Vec<u8>,
    /// The client's name for a file: any bytes, a path among them. It must not be used to open a
    /// file. It is empty when the user chose none.
    pub file_name: Option<Vec<u8>>,
    /// `Content-Type` as it was sent: the media type according to the client.
    pub content_type: Option<Vec<u8>>,
}

/// Reads whole lines, each with its CRLF.
pub(super) fn read(lines: &[u8]) -> Result<PartHead, FormFault> {
    let (mut names, mut content_type) = (None, None);
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r\n").ok_or(FormFault::PartHead)?;
        if memchr::memchr(b'\r', line).is_some() {
            return Err(FormFault::PartHead);
        }
        let at = memchr::memchr(b':', line).ok_or(FormFault::PartHead)?;
        let (name, value) = (&line[..at], trim(&line[at + 1..]));
        if !is_token(name) {
            return Err(FormFault::PartHead);
        }
        let is_again = if name.eq_ignore_ascii_case(b"content-disposition") {
            names.replace(disposition(value)?).is_some()
        } else if name.eq_ignore_ascii_case(b"content-type") {
            content_type.replace(value.to_vec()).is_some()
        } else {
            // RFC 7578 §4.8: others are ignored.
            false
        };
        if is_again {
            return Err(FormFault::PartHead);
        }
    }
    let (name, file_name) = names.ok_or(FormFault::Nameless)?;
    Ok(PartHead { name, file_name, content_type })
}

type Names = (Vec<u8>, Option<Vec<u8>>);

/// Returns the names in `Content-Disposition` (RFC 7578 §4.2). `filename*` must not be there, and
/// is ignored with all other parameters.
///
/// A backslash before a quote escapes it, as RFC 9110 and curl have it, or is the last byte of a
/// name, as browsers have it. The second reading is taken where the first one makes no sense.
fn disposition(value: &[u8]) -> Result<Names, FormFault> {
    match names(Parameters::of(value)) {
        Err(FormFault::PartHead) if value.contains(&b'\\') => names(Parameters::literal(value)),
        read => read,
    }
}

fn names((kind, parameters): (&[u8], Parameters<'_>)) -> Result<Names, FormFault> {
    if !kind.eq_ignore_ascii_case(b"form-data") {
        return Err(FormFault::Nameless);
    }
    let (mut name, mut file_name) = (None, None);
    for parameter in parameters {
        let (key, value) = parameter?;
        let into = if key.eq_ignore_ascii_case(b"name") {
            &mut name
        } else if key.eq_ignore_ascii_case(b"filename") {
            &mut file_name
        } else {
            continue;
        };
        if into.replace(unescaped(&value)).is_some() {
            return Err(FormFault::PartHead);
        }
    }
    let name = name.ok_or(FormFault::Nameless)?;
    if name.len() > PART_NAME_MAX_BYTES {
        return Err(FormFault::NameTooLong);
    }
    Ok((name, file_name))
}

/// Undoes the escapes of browsers in names (WHATWG HTML §4.10.21.8): they write a quote and line
/// breaks as `%22`, `%0D` and `%0A`, and a percent sign as itself.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match rest {
            [b'%', b'2', b'2', behind @ ..] => (b'"', behind),
            [b'%', b'0', b'D' | b'd', behind @ ..] => (b'\r', behind),
            [b'%', b'0', b'A' | b'a', behind @ ..] => (b'\n', behind),
            _ => (*first, behind),
        };
        plain.push(byte);
        rest = behind;
    }
    plain
}
