//! References in the value of an attribute, `&quot;` and `&#39;`, as a browser reads them (HTML,
//! §13.2.5.72 and on): a search for quotes must see those that are written so.

use std::borrow::Cow;

use crate::limits::REFERENCE_MAX_BYTES;

/// Text without references.
pub(crate) struct Decoded<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    /// Whether it contained a name whose meaning is not known here; the name was left out.
    pub(crate) has_unknown: bool,
    /// The end of the text, from its `&` on, if the following text may belong to the reference.
    pub(crate) cut: &'a [u8],
}

/// All names that mean a sign of ASCII. Those that also work without `;` are in [`SHORT`].
const NAMES: &[(&[u8], u8)] = &[
    (b"AMP", b'&'),
    (b"DiacriticalGrave", b'`'),
    (b"GT", b'>'),
    (b"Hat", b'^'),
    (b"LT", b'<'),
    (b"NewLine", b'\n'),
    (b"QUOT", b'"'),
    (b"Tab", b'\t'),
    (b"UnderBar", b'_'),
    (b"VerticalLine", b'|'),
    (b"amp", b'&'),
    (b"apos", b'\''),
    (b"ast", b'*'),
    (b"bsol", b'\\'),
    (b"colon", b':'),
    (b"comma", b','),
    (b"commat", b'@'),
    (b"dollar", b'$'),
    (b"equals", b'='),
    (b"excl", b'!'),
    (b"grave", b'`'),
    (b"gt", b'>'),
    (b"lbrace", b'{'),
    (b"lbrack", b'['),
    (b"lcub", b'{'),
    (b"lowbar", b'_'),
    (b"lpar", b'('),
    (b"lsqb", b'['),
    (b"lt", b'<'),
    (b"midast", b'*'),
    (b"num", b'#'),
    (b"percnt", b'%'),
    (b"period", b'.'),
    (b"plus", b'+'),
    (b"quest", b'?'),
    (b"quot", b'"'),
    (b"rbrace", b'}'),
    (b"rbrack", b']'),
    (b"rcub", b'}'),
    (b"rpar", b')'),
    (b"rsqb", b']'),
    (b"semi", b';'),
    (b"sol", b'/'),
    (b"verbar", b'|'),
    (b"vert", b'|'),
];

/// Names that need no `;`, unless `=`, a letter or a digit follows. The others of that kind mean no
/// sign of ASCII, and are harmless as they are.
const SHORT: &[&[u8]] = &[b"AMP", b"GT", b"LT", b"QUOT", b"amp", b"gt", b"lt", b"quot"];

/// The meaning of an `&`.
enum CharacterReference {
    /// A sign, and how many bytes its reference has.
    Sign(char, usize),
    Unknown(usize),
    /// The `&` itself.
    Itself,
    /// More text is necessary to decide.
    Cut,
}

pub(crate) fn decoded(bytes: &[u8]) -> Decoded<'_> {
    if !bytes.contains(&b'&') {
        return Decoded { text: Cow::Borrowed(bytes), has_unknown: false, cut: &[] };
    }
    let (mut text, mut has_unknown) = (Vec::with_capacity(bytes.len()), false);
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'&') {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let length = match reference(rest) {
            CharacterReference::Sign(sign, length) => {
                text.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
                length
            }
            CharacterReference::Unknown(length) => {
                has_unknown = true;
                length
            }
            CharacterReference::Itself => {
                text.push(b'&');
                1
            }
            CharacterReference::Cut if rest.len() > REFERENCE_MAX_BYTES => {
                has_unknown = true;
                rest.len()
            }
            CharacterReference::Cut => {
                return Decoded { text: Cow::Owned(text), has_unknown, cut: rest };
            }
        };
        rest = &rest[length..];
    }
    text.extend_from_slice(rest);
    Decoded { text: Cow::Owned(text), has_unknown, cut: &[] }
}

fn reference(here: &[u8]) -> CharacterReference {
    match here {
        [b'&', b'#', b'x' | b'X', digits @ ..] => number(here, digits, 16),
        [b'&', b'#', digits @ ..] => number(here, digits, 10),
        [_, name @ ..] => named(name),
        [] => CharacterReference::Cut,
    }
}

fn number(here: &[u8], digits: &[u8], radix: u32) -> CharacterReference {
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    let Some(end) = digits.iter().position(|byte| !is_digit(byte)) else {
        return CharacterReference::Cut;
    };
    // `&#x` may still become a hexadecimal reference, and then begins with no decimal digit.
    if end == 0 {
        return CharacterReference::Itself;
    }
    let code = digits[..end].iter().try_fold(0_u32, |code, &byte| {
        code.checked_mul(radix)?.checked_add(char::from(byte).to_digit(radix)?)
    });
    let sign = code.filter(|&code| code > 0).and_then(char::from_u32);
    let length = here.len() - digits.len() + end + usize::from(digits[end] == b';');
    CharacterReference::Sign(sign.unwrap_or(char::REPLACEMENT_CHARACTER), length)
}

fn named(behind: &[u8]) -> CharacterReference {
    let Some(end) = behind.iter().position(|byte| !byte.is_ascii_alphanumeric()) else {
        return CharacterReference::Cut;
    };
    let (name, has_end) = (&behind[..end], behind[end] == b';');
    let known = NAMES.iter().find(|(known, _)| *known == name);
    match known {
        Some(&(_, sign)) if has_end => CharacterReference::Sign(char::from(sign), 1 + end + 1),
        Some(&(_, sign)) if SHORT.contains(&name) && behind[end] != b'=' => {
            CharacterReference::Sign(char::from(sign), 1 + end)
        }
        _ if has_end && end > 0 => CharacterReference::Unknown(1 + end + 1),
        _ => CharacterReference::Itself,
    }
}
