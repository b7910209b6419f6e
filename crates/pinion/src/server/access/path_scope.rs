//! Decides which requests a path covers, in every spelling.
//!
//! A request names a resource in many ways: with escapes, with empty and dot segments, as a page
//! with or without its extension, as the index of its folder. Servers that requests are forwarded
//! to accept further ones. A scope covers every spelling that one of them could take for its path
//! or for one below it. It covers too much rather than too little, because a covered request is
//! only checked.

use pinion_http::request_target::{decode_path, decode_repeatedly};

/// A path, with all paths below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathScope {
    /// The path in lower case, without a slash at its end; empty for the whole site.
    path: Box<[u8]>,
    /// The page that the path names, if it names one by the name of its file.
    page: Option<Box<[u8]>>,
}

/// The path of a request, in all the ways in which it can be read.
pub(crate) struct PathReadings<'p> {
    /// The path as it stands, and the page that it names, if there is only one way to read it.
    plain: Option<(&'p [u8], &'p [u8])>,
    /// The other readings, in lower case.
    others: Vec<Vec<u8>>,
}

/// Extensions that a URL may leave out, as the builder of archives has them
/// (`build/src/path_aliases.rs`).
const PAGE_SUFFIXES: [&[u8]; 7] =
    [b".html", b".htm", b".xhtml", b".xht", b".txt", b".json", b".xml"];

/// Names of the index of a folder, without their extensions.
const INDEX_NAMES: [&[u8]; 2] = [b"index", b"_index"];

impl PathScope {
    /// Makes the scope of a path, which is written as in a URL.
    pub(crate) fn new(path: &str) -> Self {
        let path = loosely_read(path.as_bytes(), Parents::LeadUp);
        let page = page_of(&path);
        let is_named_by_file = page.len() != path.len();
        let page = is_named_by_file.then(|| page.into());
        Self { path: path.into(), page }
    }

    /// Returns how long the path is: the longest one is the most specific.
    pub(crate) fn bytes(&self) -> usize {
        self.path.len()
    }

    /// Returns whether one of the readings of a path is this one or below it.
    pub(crate) fn covers(&self, path: &PathReadings<'_>) -> bool {
        let covers = |(path, page)| self.covers_reading(path, page);
        path.plain.is_some_and(covers)
            || path.others.iter().any(|path| self.covers_reading(path, page_of(path)))
    }

    fn covers_reading(&self, path: &[u8], page: &[u8]) -> bool {
        if is_at_or_below(&self.path, path) {
            return true;
        }
        match &self.page {
            Some(own) => page == &**own,
            None => page.len() != path.len() && is_at_or_below(&self.path, page),
        }
    }
}

impl<'p> PathReadings<'p> {
    /// Reads the path of a request as the client has sent it.
    pub(crate) fn of_sent(path: &'p [u8]) -> Self {
        if is_plain(path) {
            return Self { plain: Some((path, page_of(path))), others: Vec::new() };
        }
        let mut decoded = Vec::new();
        let strictly = match decode_path(path, &mut decoded) {
            Ok(path) => path.to_ascii_lowercase(),
            // No resource has such a name, but its folders have pages for missing resources. A NUL
            // is in the place of an encoded slash.
            Err(_) => decoded.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect(),
        };
        let mut others = vec![strictly.to_ascii_lowercase(), path.to_ascii_lowercase()];
        others.extend(loose_readings(path));
        Self { plain: None, others }
    }

    /// Reads a path that is decoded, such as the key of a file.
    pub(crate) fn of_decoded(path: &'p [u8]) -> Self {
        if is_plain(path) {
            return Self { plain: Some((path, page_of(path))), others: Vec::new() };
        }
        let mut others = vec![path.to_ascii_lowercase()];
        others.extend(loose_readings(path));
        Self { plain: None, others }
    }
}

/// Returns whether `path` is `scope` or below it. Neither ends with a slash that counts.
fn is_at_or_below(scope: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(scope).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

/// Returns whether there is only one way to read a path: it has lower case, no escapes, no empty
/// segments, and no dots at the ends of segments. Most paths are like this.
fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    for &byte in path {
        let is_plain = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => true,
            b'.' => before != b'/' && before != b'.',
            b'/' => before != b'/' && before != b'.',
            _ => false,
        };
        if !is_plain {
            return false;
        }
        before = byte;
    }
    path.first() == Some(&b'/') && before != b'.'
}

/// The meaning of a segment `..` to a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parents {
    /// The folder above, in every spelling.
    LeadUp,
    /// A name like any other, as for a server that decodes less, or trims nothing.
    AreNames,
}

/// Returns the paths that lenient servers read.
fn loose_readings(path: &[u8]) -> [Vec<u8>; 2] {
    [Parents::LeadUp, Parents::AreNames].map(|parents| loosely_read(path, parents))
}

/// Reads a path as the loosest server does: it is decoded until nothing is left to decode, a
/// backslash and an escaped slash are slashes, a segment ends at a semicolon or a NUL, dots and
/// spaces at the end of a segment do not count, nor do empty segments, and `..` leads up to the
/// root at most if it does so at all. The result is in lower case and has no slash at its end.
fn loosely_read(path: &[u8], parents: Parents) -> Vec<u8> {
    let decoded = decode_repeatedly(path);
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        let end = segment.iter().position(|byte| matches!(byte, b';' | 0));
        let name = segment.get(..end.unwrap_or(segment.len())).unwrap_or_default().trim_ascii();
        let ends = name.iter().rposition(|byte| !matches!(byte, b'.' | b' '));
        match name {
            b".." if parents == Parents::LeadUp => drop(segments.pop()),
            b".." => segments.push(name),
            _ => segments.extend(ends.and_then(|last| name.get(..=last))),
        }
    }
    let mut read = Vec::with_capacity(decoded.len());
    for segment in segments {
        read.push(b'/');
        read.extend(segment.iter().map(u8::to_ascii_lowercase));
    }
    read
}

/// Returns the page that a path in lower case names: without the extension of a page, the name of
/// an index, and slashes at the end.
fn page_of(path: &[u8]) -> &[u8] {
    let path = without_slashes(path);
    let suffix = PAGE_SUFFIXES.iter().find_map(|suffix| path.strip_suffix(*suffix));
    let stem = suffix.filter(|stem| !stem.ends_with(b"/")).unwrap_or(path);
    let folders = INDEX_NAMES.iter().filter_map(|name| stem.strip_suffix(*name));
    match folders.into_iter().find(|folder| folder.ends_with(b"/")) {
        Some(folder) => without_slashes(folder),
        None => stem,
    }
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let last = path.iter().rposition(|byte| *byte != b'/');
    last.and_then(|last| path.get(..=last)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
