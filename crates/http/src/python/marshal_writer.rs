//! Writes values in the format of Python's module `marshal`, version 2 or later, which CPython and
//! PyPy read alike. It is the fastest way to hand values to Python: the reader is a function of the
//! interpreter itself.
//!
//! Strings are those of WSGI (PEP 3333): each byte is the character with its number (Latin-1). The
//! paths of ASGI are UTF-8. [`marshal_shared_values`](super::marshal_shared_values) makes
//! references of values that were written before.

/// Types of values (`Python/marshal.c`).
const NONE: u8 = b'N';
const TRUE: u8 = b'T';
const FALSE: u8 = b'F';
pub(super) const INT: u8 = b'i';
pub(super) const LONG: u8 = b'l';
pub(super) const BYTES: u8 = b's';
const UNICODE: u8 = b'u';
const ASCII: u8 = b'a';
pub(super) const SHORT_ASCII: u8 = b'z';
const ASCII_INTERNED: u8 = b'A';
pub(super) const SHORT_ASCII_INTERNED: u8 = b'Z';
pub(super) const SMALL_TUPLE: u8 = b')';
pub(super) const LIST: u8 = b'[';
const DICT: u8 = b'{';
const END_OF_DICT: u8 = b'0';
pub(super) const REFERENCE: u8 = b'r';

/// The types of text with a length of 32 bits.
pub(super) const TEXT_TYPES: [u8; 3] = [UNICODE, ASCII, ASCII_INTERNED];

/// Is added to the type of a value to which others can refer.
pub(super) const REFERRED: u8 = 0x80;

/// Bytes of the type and the length of a value.
pub(super) const PREFIX_BYTES: usize = 5;

/// Bytes of the type and the length of a short string or tuple.
pub(super) const SHORT_PREFIX_BYTES: usize = 2;

/// Bytes of a digit of a long integer.
pub(super) const DIGIT_BYTES: usize = 2;

/// Appends `None`.
#[inline]
pub fn write_none(out: &mut Vec<u8>) {
    out.push(NONE);
}

/// Appends `True` or `False`.
#[inline]
pub fn write_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { TRUE } else { FALSE });
}

/// Appends an integer. One of more than 31 bits has digits of 15 bits, the lowest one first.
#[inline]
pub fn write_int(out: &mut Vec<u8>, value: u32) {
    if i32::try_from(value).is_ok() {
        out.extend_from_slice(&prefix(INT, value));
        return;
    }
    out.extend_from_slice(&prefix(LONG, 3));
    for digit in [value & 0x7fff, value >> 15 & 0x7fff, value >> 30] {
        out.extend_from_slice(&(digit as u16).to_le_bytes());
    }
}

/// Appends `bytes`. There must be fewer than 2^31.
#[inline]
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(PREFIX_BYTES + bytes.len());
    out.extend_from_slice(&prefix(BYTES, length(bytes.len())));
    out.extend_from_slice(bytes);
}

/// Begins `bytes`; so many must follow. There must be fewer than 2^31.
#[inline]
pub fn begin_bytes(out: &mut Vec<u8>, bytes: usize) {
    out.extend_from_slice(&prefix(BYTES, length(bytes)));
}

/// Appends a `str` of text in UTF-8; invalid bytes become U+FFFD. There must be fewer than 2^29
/// bytes.
#[inline]
pub fn write_utf8(out: &mut Vec<u8>, text: &[u8]) {
    if text.is_ascii() {
        return write_str(out, text);
    }
    let text = String::from_utf8_lossy(text);
    out.extend_from_slice(&prefix(UNICODE, length(text.len())));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a `str` with a character for each byte. There must be fewer than 2^30.
#[inline]
pub fn write_str(out: &mut Vec<u8>, latin1: &[u8]) {
    if !latin1.is_ascii() {
        write_not_ascii(out, latin1);
    } else if let Ok(short) = u8::try_from(latin1.len()) {
        write_short(out, SHORT_ASCII, short, latin1);
    } else {
        write_long(out, ASCII, latin1);
    }
}

/// Appends a `str` that the reader interns: it is then the same object as the string in programs,
/// and its hash is known. CPython 3.12 and later never free an interned string, so a client must
/// not be able to choose it.
#[inline]
pub fn write_interned(out: &mut Vec<u8>, latin1: &[u8]) {
    if !latin1.is_ascii() {
        write_not_ascii(out, latin1);
    } else if let Ok(short) = u8::try_from(latin1.len()) {
        write_short(out, SHORT_ASCII_INTERNED, short, latin1);
    } else {
        write_long(out, ASCII_INTERNED, latin1);
    }
}

/// Appends a reference to the value with this number among those that can be referred to.
#[inline]
pub(super) fn write_reference(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&prefix(REFERENCE, number));
}

/// Begins a tuple; so many values must follow.
#[inline]
pub fn begin_tuple(out: &mut Vec<u8>, values: u8) {
    out.extend_from_slice(&[SMALL_TUPLE, values]);
}

/// Begins a list; so many values must follow. There must be fewer than 2^31.
#[inline]
pub fn begin_list(out: &mut Vec<u8>, values: u32) {
    out.extend_from_slice(&prefix(LIST, values));
}

/// Begins a dictionary. Keys and their values follow in turn, and then [`end_dict`].
#[inline]
pub fn begin_dict(out: &mut Vec<u8>) {
    out.push(DICT);
}

/// Ends a dictionary.
#[inline]
pub fn end_dict(out: &mut Vec<u8>) {
    out.push(END_OF_DICT);
}

#[inline]
fn write_short(out: &mut Vec<u8>, kind: u8, length: u8, ascii: &[u8]) {
    out.reserve(2 + ascii.len());
    out.extend_from_slice(&[kind, length]);
    out.extend_from_slice(ascii);
}

fn write_long(out: &mut Vec<u8>, kind: u8, ascii: &[u8]) {
    out.reserve(PREFIX_BYTES + ascii.len());
    out.extend_from_slice(&prefix(kind, length(ascii.len())));
    out.extend_from_slice(ascii);
}

/// Appends a string as UTF-8: a byte from 0x80 on is a character of two bytes.
fn write_not_ascii(out: &mut Vec<u8>, latin1: &[u8]) {
    let wide = latin1.iter().filter(|byte| !byte.is_ascii()).count();
    out.reserve(PREFIX_BYTES + latin1.len() + wide);
    out.extend_from_slice(&prefix(UNICODE, length(latin1.len() + wide)));
    for &byte in latin1 {
        if byte.is_ascii() {
            out.push(byte);
        } else {
            out.extend_from_slice(&[0xc0 | byte >> 6, 0x80 | byte & 0x3f]);
        }
    }
}

/// Returns a length as it is written; the format has 31 bits for it.
#[inline]
fn length(bytes: usize) -> u32 {
    debug_assert!(i32::try_from(bytes).is_ok(), "{bytes} bytes are too long for marshal");
    bytes as u32
}

/// Makes the front of a value: its type, and a number of 32 bits.
#[inline]
fn prefix(kind: u8, number: u32) -> [u8; PREFIX_BYTES] {
    let [n0, n1, n2, n3] = number.to_le_bytes();
    [kind, n0, n1, n2, n3]
}
