//! What a build can be told.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use pinion_http::coding::Coding;
use pinion_http::date::UnixSeconds;

use crate::keys::Conventions;
use crate::limits::EXTERNAL_MIN_BYTES;

/// How a folder becomes an archive. All but `threads`, `keep_going`, `force`, `report` and `now` is
/// input: it decides the bytes (and see the crate's promises for `now`).
#[derive(Clone, Debug)]
pub struct Options {
    /// Codings to try, each at most once. The identity is always stored.
    pub codings: Vec<CodingLevel>,
    /// Globs of names to leave out. One without a slash is compared with the name, at any depth;
    /// one with a slash with the path below the source. `*` and `?` do not match a slash, `**`
    /// does. A folder that matches is not entered.
    pub exclude: Vec<String>,
    /// Builds without the files that have a problem; otherwise they fail the build at its end.
    pub keep_going: bool,
    /// Lets an archive file replace a file that is no archive. Folders, pipes, sockets and devices
    /// are never replaced.
    pub force: bool,
    /// Workers; `None` is one per core.
    pub threads: Option<NonZeroUsize>,
    /// The current time, only asked whether a modification time lies in the future.
    pub now: UnixSeconds,
    /// `SOURCE_DATE_EPOCH`: later modification times become this one.
    pub source_date_epoch: Option<UnixSeconds>,
    /// `Cache-Control` of everything that has no fingerprint in its name; `None` is the default.
    pub cache_control: Option<String>,
    /// Whether an index file answers for its folder (`/dir/`).
    pub index: bool,
    /// Whether a page answers without its extension too (`/name`).
    pub clean_urls: bool,
    /// Whether the slash form that does not exist leads to the one that does.
    pub slash_redirects: bool,
    /// Whether responses carry an `ETag`.
    pub etags: bool,
    /// Whether responses carry a `Cache-Control` unless `_headers` gives one.
    pub cache_control_field: bool,
    /// The file that answers navigations to what does not exist, by its path below the source.
    pub single_page: Option<String>,
    /// Whether responses carry `X-Content-Type-Options`, `Referrer-Policy` and `X-Frame-Options`.
    pub security_fields: bool,
    /// Whether the summary has a [`Report`](crate::Report).
    pub report: bool,
    /// Files larger than this stay outside the archive, as open files; `None`: all go in.
    pub external_min_bytes: Option<u64>,
}

impl Options {
    /// The defaults of `pinion build`: gzip and brotli at the levels above which time grows several
    /// times as fast as size falls. A release that may take its time asks for `gzip:12,br:11`.
    #[must_use]
    pub fn new(now: UnixSeconds) -> Options {
        Options {
            codings: vec![Coding::Gzip, Coding::Brotli].into_iter().map(default_level).collect(),
            exclude: Vec::new(),
            keep_going: false,
            force: false,
            threads: None,
            now,
            source_date_epoch: None,
            cache_control: None,
            index: true,
            clean_urls: true,
            slash_redirects: true,
            etags: true,
            cache_control_field: true,
            single_page: None,
            security_fields: true,
            report: false,
            external_min_bytes: None,
        }
    }

    /// For serving a folder at once: fast codings, large files stay where they are.
    #[must_use]
    pub fn serving(now: UnixSeconds) -> Options {
        Options {
            codings: vec![
                CodingLevel { coding: Coding::Gzip, level: 1 },
                CodingLevel { coding: Coding::Brotli, level: 4 },
            ],
            external_min_bytes: Some(EXTERNAL_MIN_BYTES),
            ..Options::new(now)
        }
    }
}

impl Options {
    pub(crate) fn conventions(&self) -> Conventions {
        Conventions { index: self.index, clean_urls: self.clean_urls }
    }
}

/// A coding and how hard it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingLevel {
    /// The coding, never the identity.
    pub coding: Coding,
    /// gzip 1 to 12 (libdeflate's scale; 6 is 7 for content of middle length), br 0 to 11, zstd 1
    /// to 22.
    pub level: u8,
}

impl fmt::Display for CodingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.coding.token(), self.level)
    }
}

/// Why a text does not name codings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// Not a coding that can be stored.
    #[error("{0:?} is not a coding: use gzip, br or zstd")]
    Unknown(String),
    /// Not a level of that coding.
    #[error("{coding} has the levels {lowest} to {highest}, not {level:?}")]
    Level {
        /// Its token.
        coding: &'static str,
        /// What was asked for.
        level: String,
        /// Lowest level.
        lowest: u8,
        /// Highest level.
        highest: u8,
    },
    /// A coding named twice.
    #[error("{0} is named twice")]
    Twice(&'static str),
}

impl FromStr for CodingLevel {
    type Err = CodingError;

    /// `gzip`, `br:11`.
    fn from_str(text: &str) -> Result<CodingLevel, CodingError> {
        let (token, level) = match text.split_once(':') {
            Some((token, level)) => (token, Some(level)),
            None => (text, None),
        };
        let coding = Coding::from_token(token.as_bytes())
            .filter(|&coding| coding != Coding::Identity)
            .ok_or_else(|| CodingError::Unknown(token.to_owned()))?;
        let Some(level) = level else { return Ok(default_level(coding)) };
        let (lowest, highest) = levels(coding);
        level
            .parse()
            .ok()
            .filter(|level| (lowest..=highest).contains(level))
            .map(|level| CodingLevel { coding, level })
            .ok_or_else(|| CodingError::Level {
                coding: coding.token(),
                level: level.to_owned(),
                lowest,
                highest,
            })
    }
}

/// The codings of a list such as `gzip,br:11`. An empty list, and `identity`, is none.
pub fn parse_codings(text: &str) -> Result<Vec<CodingLevel>, CodingError> {
    let mut codings: Vec<CodingLevel> = Vec::new();
    for member in text.split(',').map(str::trim) {
        if member.is_empty() || member == Coding::Identity.token() {
            continue;
        }
        let new: CodingLevel = member.parse()?;
        if codings.iter().any(|known| known.coding == new.coding) {
            return Err(CodingError::Twice(new.coding.token()));
        }
        codings.push(new);
    }
    Ok(codings)
}

/// Lowest and highest level of a coding.
fn levels(coding: Coding) -> (u8, u8) {
    match coding {
        Coding::Identity => (0, 0),
        Coding::Gzip => (1, 12),
        Coding::Brotli => (0, 11),
        Coding::Zstd => (1, 22),
    }
}

/// What a little more work would hardly make smaller (docs/decisions/0003, 0007).
fn default_level(coding: Coding) -> CodingLevel {
    let level = match coding {
        Coding::Identity => 0,
        Coding::Gzip => 6,
        Coding::Brotli => 6,
        Coding::Zstd => 9,
    };
    CodingLevel { coding, level }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_codings() {
        let text = |codings: &[CodingLevel]| {
            codings.iter().map(CodingLevel::to_string).collect::<Vec<_>>().join(",")
        };
        assert_eq!(text(&parse_codings("gzip:12, BR:11,zstd:1").unwrap()), "gzip:12,br:11,zstd:1");
        assert_eq!(parse_codings("gzip,br"), Ok(Options::new(0).codings));
        assert_eq!(text(&parse_codings("gzip,br,zstd").unwrap()), "gzip:6,br:6,zstd:9");
        for none in ["", "identity", " , "] {
            assert_eq!(parse_codings(none), Ok(Vec::new()));
        }
    }

    #[test]
    fn bad_codings_are_named() {
        for (text, message) in [
            ("deflate", "\"deflate\" is not a coding: use gzip, br or zstd"),
            ("gzip:0", "gzip has the levels 1 to 12, not \"0\""),
            ("br:12", "br has the levels 0 to 11, not \"12\""),
            ("zstd:-1", "zstd has the levels 1 to 22, not \"-1\""),
            ("br:", "br has the levels 0 to 11, not \"\""),
            ("identity:1", "\"identity\" is not a coding: use gzip, br or zstd"),
            ("br,gzip,br:3", "br is named twice"),
        ] {
            assert_eq!(parse_codings(text).unwrap_err().to_string(), message);
        }
    }
}
