//! Files that lie in the folder in a coding: compressed pictures (`.svgz`), and those that a rule
//! gives a `Content-Encoding`, as Unity writes them (`game.wasm.br`).
//!
//! They are decoded when they are read. The archive has them as they are and in codings of its own,
//! under their path, with the type of their content: a client that does not accept the coding of
//! the file gets its content all the same.

use std::collections::HashMap;

use pinion_http::content_coding::Coding;

use crate::error::Reason;
use crate::limits::HELD_MAX_BYTES;
use crate::media_type::MediaType;
use crate::rules::headers::{FieldRule, HeaderChange, content_coding};
use crate::verify_coding::{DecodeError, decoded};
use crate::walk::found_files::SourceFile;

/// The files of a folder that are to be decoded.
#[derive(Debug, Default)]
pub(crate) struct PrecompressedFiles {
    /// The codings that rules give to files, by the numbers of these.
    by_rule: HashMap<u32, Coding>,
}

/// The reason why a file is to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenCoding {
    /// It is not.
    Nothing,
    /// Its name says that it is gzip inside. It need not be.
    ByName,
    /// A rule says which coding it is in.
    ByRule(Coding),
}

/// A content, and whether it was decoded.
pub(crate) struct OpenedContent {
    /// The content, decoded if `is_decoded`.
    pub(crate) content: Vec<u8>,
    pub(crate) is_decoded: bool,
    pub(crate) media: MediaType,
}

/// Endings of names that say which coding a content is in.
const CODING_SUFFIXES: [&[u8]; 6] = [b".br", b".gz", b".gzip", b".unityweb", b".zst", b".zstd"];

impl PrecompressedFiles {
    /// Finds the files that rules give a `Content-Encoding`.
    pub(crate) fn of(files: &[SourceFile], rules: &[FieldRule]) -> PrecompressedFiles {
        let is_about =
            |change: &&HeaderChange| change.name().eq_ignore_ascii_case("content-encoding");
        let about: Vec<_> = rules
            .iter()
            .filter(|rule| rule.changes.iter().any(|change| is_about(&change)))
            .collect();
        let mut by_rule = HashMap::new();
        if about.is_empty() {
            return PrecompressedFiles { by_rule };
        }
        for (number, file) in (0..).zip(files) {
            let mut given = None;
            let matching = about.iter().filter(|rule| rule.pattern.captured(&file.key).is_some());
            for change in matching.flat_map(|rule| rule.changes.iter().filter(is_about)) {
                given = match change {
                    HeaderChange::Set { value, .. } => content_coding(value),
                    HeaderChange::Remove { .. } => None,
                };
            }
            if let Some(coding) = given.filter(|coding| *coding != Coding::Identity) {
                by_rule.insert(number, coding);
            }
        }
        PrecompressedFiles { by_rule }
    }

    /// Returns why the file with this number and key is to be decoded.
    pub(crate) fn given(&self, number: usize, key: &[u8]) -> GivenCoding {
        let by_rule = u32::try_from(number).ok().and_then(|number| self.by_rule.get(&number));
        match by_rule {
            Some(&coding) => GivenCoding::ByRule(coding),
            None if has_suffix(key, b".svgz") => GivenCoding::ByName,
            None => GivenCoding::Nothing,
        }
    }
}

impl GivenCoding {
    /// Returns the coding that a rule gives; the identity without a rule.
    pub(crate) fn by_rule(self) -> Coding {
        match self {
            GivenCoding::ByRule(coding) => coding,
            GivenCoding::Nothing | GivenCoding::ByName => Coding::Identity,
        }
    }

    /// Decodes a content that was read, and finds its type.
    ///
    /// # Errors
    /// [`Reason::TooLargeToDecode`] for a file of a rule.
    pub(crate) fn open(self, key: &[u8], content: Vec<u8>) -> Result<OpenedContent, Reason> {
        let coding = match self {
            GivenCoding::Nothing => return Ok(OpenedContent::plain(key, content)),
            // A picture that is not compressed at all has the same name now and then.
            GivenCoding::ByName if !content.starts_with(b"\x1f\x8b") => {
                return Ok(OpenedContent::plain(inner_key(key), content));
            }
            GivenCoding::ByName => Coding::Gzip,
            GivenCoding::ByRule(coding) => coding,
        };
        match decoded(coding, &content, HELD_MAX_BYTES) {
            Ok(content) => {
                let media = MediaType::of(inner_key(key), &content);
                Ok(OpenedContent { content, is_decoded: true, media })
            }
            Err(DecodeError::TooLong) if self != GivenCoding::ByName => {
                Err(Reason::TooLargeToDecode)
            }
            Err(_) if self == GivenCoding::ByName => Ok(OpenedContent::plain(key, content)),
            Err(_) => Ok(OpenedContent::plain(inner_key(key), content)),
        }
    }
}

impl OpenedContent {
    fn plain(key: &[u8], content: Vec<u8>) -> OpenedContent {
        let media = MediaType::of(key, &content);
        OpenedContent { content, is_decoded: false, media }
    }
}

/// Returns a key with the extension of the decoded content: `/game.wasm` for `/game.wasm.br`,
/// `/a.svg` for `/a.svgz`.
pub(crate) fn inner_key(key: &[u8]) -> &[u8] {
    if has_suffix(key, b".svgz") {
        return key.get(..key.len() - 1).unwrap_or_default();
    }
    let suffix = CODING_SUFFIXES.iter().find(|suffix| has_suffix(key, suffix));
    suffix.and_then(|suffix| key.get(..key.len() - suffix.len())).unwrap_or(key)
}

/// Returns whether a key has this ending, in any case of its letters.
fn has_suffix(key: &[u8], suffix: &[u8]) -> bool {
    let start = key.len().checked_sub(suffix.len());
    start.and_then(|start| key.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_precompressed_files_are_removed() {
        for (key, inner) in [
            ("/a.svgz", "/a.svg"),
            ("/a.SVGZ", "/a.SVG"),
            ("/b/game.wasm.br", "/b/game.wasm"),
            ("/game.js.GZ", "/game.js"),
            ("/game.data.unityweb", "/game.data"),
            ("/plain.js", "/plain.js"),
            ("/br", "/br"),
            ("", ""),
        ] {
            assert_eq!(inner_key(key.as_bytes()), inner.as_bytes(), "{key}");
        }
    }
}
