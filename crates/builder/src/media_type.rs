//! Name and content → media type.
//!
//! A known extension decides, for any content. Otherwise the first bytes do, in the spirit of
//! WHATWG MIME Sniffing: text that begins like HTML is HTML, then XML, JSON objects and plain text;
//! then the signatures of binary formats; then any other text; then `application/octet-stream`.
//!
//! Types whose charset a client would otherwise guess (`text/…`) get `charset=utf-8` if the content
//! is UTF-8, and no charset if it is not: then the document itself, or the client's guess, is more
//! likely to be right than we are. Content with an ESC byte is taken for ISO-2022, which looks like
//! ASCII. XML and JSON declare their own charset and get none.

mod extension_table;
mod uncoded_types;

use std::borrow::Cow;
use std::collections::HashMap;

use pinion_http::media_type::needs_charset;

use extension_table::BY_EXTENSION;
pub(crate) use uncoded_types::is_packed;

use crate::precompressed::inner_key;

/// A media type as `Content-Type` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MediaType {
    /// The type without parameters.
    pub(crate) essence: &'static str,
    /// Whether `charset=utf-8` follows.
    pub(crate) utf8: bool,
}

impl MediaType {
    /// Returns the type of held content.
    pub(crate) fn of(key: &[u8], content: &[u8]) -> MediaType {
        let essence = essence(key, content);
        let utf8 = has_charset(essence) && {
            let mut check = Utf8Check::default();
            check.update(content);
            check.finish()
        };
        MediaType { essence, utf8 }
    }

    /// Returns the field value.
    pub(crate) fn field(&self) -> Cow<'static, str> {
        if self.utf8 {
            Cow::Owned(format!("{}; charset=utf-8", self.essence))
        } else {
            Cow::Borrowed(self.essence)
        }
    }
}

/// The type of `.ts` and `.mts`, unless they are [`TRANSPORT_STREAM`].
const TYPESCRIPT: &str = "text/typescript";

/// The other meaning of these extensions.
const TRANSPORT_STREAM: &str = "video/mp2t";

/// Returns the type by name, or by the first [`SNIFF_BYTES`](crate::limits::SNIFF_BYTES) of the
/// content.
pub(crate) fn essence(key: &[u8], content: &[u8]) -> &'static str {
    let head = content.get(..crate::limits::SNIFF_BYTES).unwrap_or(content);
    match by_extension(key) {
        Some(TYPESCRIPT) if is_transport_stream(head) => TRANSPORT_STREAM,
        Some(by_name) => by_name,
        None => sniffed(head),
    }
}

/// Returns whether a file of this name can have a type.
pub(crate) fn may_be(key: &[u8], essence: &str) -> bool {
    let of = |key| match by_extension(key) {
        Some(TYPESCRIPT) => essence == TYPESCRIPT || essence == TRANSPORT_STREAM,
        by_name => by_name.is_none_or(|by_name| by_name == essence),
    };
    of(key) || of(inner_key(key))
}

/// Returns whether content is an MPEG transport stream (ISO/IEC 13818-1 §2.4.3): packets of 188
/// bytes that begin with 0x47, or of 192 with a time in front of each.
fn is_transport_stream(head: &[u8]) -> bool {
    const SYNC: u8 = 0x47;
    let is_in_packets = |packet: usize, offset: usize| {
        let starts = (offset..head.len()).step_by(packet);
        head.len() >= packet && starts.into_iter().all(|at| head.get(at) == Some(&SYNC))
    };
    // A text that begins with G is no stream.
    head.iter().any(|&byte| is_binary(byte)) && (is_in_packets(188, 0) || is_in_packets(192, 4))
}

/// Returns the field value for a file of this name, if its extension decides it, without reading
/// the file. Text is taken for UTF-8.
#[must_use]
pub fn file_type(name: &str) -> Option<String> {
    let essence = by_extension(name.as_bytes())?;
    Some(MediaType { essence, utf8: has_charset(essence) }.field().into_owned())
}

/// Returns an extension of files that have this type, parameters aside.
pub(crate) fn extension(media_type: &[u8]) -> &'static str {
    let essence = media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    match essence {
        // Types with several, of which the first in the table is not the usual one.
        b"text/html" => "html",
        b"text/plain" => "txt",
        _ => {
            let known = |row: &&(&str, &str)| row.1.as_bytes() == essence;
            BY_EXTENSION.iter().find(known).map_or("bin", |&(extension, _)| extension)
        }
    }
}

/// Returns every type that an extension can have, by its text.
pub(crate) fn essences() -> HashMap<&'static [u8], &'static str> {
    BY_EXTENSION.iter().map(|&(_, essence)| (essence.as_bytes(), essence)).collect()
}

/// Returns whether the type says `charset=utf-8` when the content is UTF-8.
pub(crate) fn has_charset(essence: &str) -> bool {
    needs_charset(essence.as_bytes())
}

/// Returns the type of the last extension, without regard to case.
pub(crate) fn by_extension(key: &[u8]) -> Option<&'static str> {
    let name = key.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let extension = name.get(dot + 1..)?.to_ascii_lowercase();
    let row = BY_EXTENSION.binary_search_by(|(known, _)| known.as_bytes().cmp(&extension)).ok()?;
    BY_EXTENSION.get(row).map(|&(_, essence)| essence)
}

fn sniffed(head: &[u8]) -> &'static str {
    let has_binary = head.iter().any(|&byte| is_binary(byte));
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        return "text/plain"; // UTF-16, and the byte order mark says so better than a field
    }
    if !has_binary && is_utf8_so_far(head) {
        return sniffed_text(head);
    }
    if let Some((_, essence)) = RANGED_SIGNATURES.iter().find(|(begin, _)| head.starts_with(begin))
    {
        return essence;
    }
    match infer::get(head).filter(|found| found.matcher_type() != infer::MatcherType::Text) {
        Some(found) => found.mime_type(),
        None if has_binary => "application/octet-stream",
        None => "text/plain",
    }
}

/// The signatures of formats that clients read in ranges.
const RANGED_SIGNATURES: [(&[u8], &str); 4] = [
    (b"ARROW1", "application/vnd.apache.arrow.file"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"PMTiles", "application/vnd.pmtiles"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
];

/// The first tags of HTML documents, without `<`, as WHATWG MIME Sniffing §7.1 lists them.
const HTML_TAGS: [&[u8]; 17] = [
    b"!doctype html",
    b"html",
    b"head",
    b"script",
    b"iframe",
    b"h1",
    b"div",
    b"font",
    b"table",
    b"a",
    b"style",
    b"title",
    b"b",
    b"body",
    b"br",
    b"p",
    b"!--",
];

fn sniffed_text(head: &[u8]) -> &'static str {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if let Some(tag) = text.strip_prefix(b"<") {
        let is_html = HTML_TAGS.iter().any(|name| {
            tag.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
                && matches!(tag.get(name.len()), Some(b' ' | b'>'))
        });
        if is_html {
            return "text/html";
        }
        if tag.starts_with(b"?xml") {
            return "application/xml";
        }
    }
    // Files such as `/.well-known/apple-app-site-association` have no extension, but must have
    // this type.
    let is_object =
        text.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""));
    if is_object { "application/json" } else { "text/plain" }
}

/// Returns whether a byte is a "binary data byte" of WHATWG MIME Sniffing §5.
fn is_binary(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)
}

/// Returns whether a beginning is UTF-8, but for a character that is cut off at its end.
fn is_utf8_so_far(head: &[u8]) -> bool {
    std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true)
}

/// Checks whether a stream is UTF-8, and not a coding with ESC sequences (see the text about ESC at
/// the top of this module).
#[derive(Debug, Default)]
pub(crate) struct Utf8Check {
    failed: bool,
    /// A character that the last piece ended in.
    open: Vec<u8>,
}

impl Utf8Check {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        if self.failed {
            return;
        }
        let joined;
        let mut text = piece;
        if !self.open.is_empty() {
            joined = [self.open.as_slice(), piece].concat();
            text = &joined;
        }
        let rest = match std::str::from_utf8(text) {
            Ok(_) => Vec::new(),
            Err(error) if error.error_len().is_none() => {
                text.get(error.valid_up_to()..).unwrap_or_default().to_vec()
            }
            Err(_) => {
                self.failed = true;
                return;
            }
        };
        self.failed = memchr::memchr(0x1b, piece).is_some();
        self.open = rest;
    }

    pub(crate) fn finish(self) -> bool {
        !self.failed && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests;
