//! The codings that are tried, and their levels: the words of `--codings`, `--level` and
//! `--codings-for`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use pinion_http::content_coding::Coding;

use crate::walk::name_globs::glob_of;

/// An encoder. The numbers stand in archives and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Method {
    /// gzip by libdeflate.
    Gzip = 1,
    /// gzip by zopfli: a little smaller still, and by far the slowest (docs/decisions/0012).
    Zopfli = 2,
    /// Brotli.
    Brotli = 3,
    /// Zstandard.
    Zstd = 4,
}

impl Method {
    /// All of them, in the order of their numbers.
    pub const ALL: [Method; 4] = [Method::Gzip, Method::Zopfli, Method::Brotli, Method::Zstd];

    /// Returns the coding that comes out.
    #[must_use]
    pub const fn coding(self) -> Coding {
        match self {
            Method::Gzip | Method::Zopfli => Coding::Gzip,
            Method::Brotli => Coding::Brotli,
            Method::Zstd => Coding::Zstd,
        }
    }

    /// Returns the word for it on a command line: the coding's token, or `zopfli`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Method::Zopfli => "zopfli",
            _ => self.coding().token(),
        }
    }

    /// Returns its levels: libdeflate's and zstd's scales, brotli's qualities, zopfli's iterations.
    #[must_use]
    pub const fn levels(self) -> RangeInclusive<u8> {
        match self {
            Method::Gzip => 1..=12,
            Method::Zopfli => 1..=30,
            Method::Brotli => 0..=11,
            Method::Zstd => 1..=22,
        }
    }

    /// Changes whenever the same content at the same level gives other bytes than before, or is
    /// kept where it was not: with another encoder, another version of it, other limits. A body
    /// of another edition is never reused. A test compares the bytes with those of the edition.
    pub(crate) const fn edition(self) -> u8 {
        match self {
            Method::Gzip | Method::Zopfli | Method::Brotli => 1,
            // 2: content over 4 MiB is encoded in pieces.
            Method::Zstd => 2,
        }
    }
}

/// The effort where no level is named (docs/decisions/0003, 0012).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodingEffort {
    /// A user waits for the first page.
    Fast,
    /// The level beyond which a little more work would hardly make files smaller.
    #[default]
    Best,
    /// A release that may take its time.
    Max,
}

impl CodingEffort {
    /// Returns the codings where none are named.
    #[must_use]
    pub fn codings(self) -> Vec<CodingLevel> {
        [Method::Gzip, Method::Brotli].map(|method| self.of(method)).into()
    }

    fn of(self, method: Method) -> CodingLevel {
        let level = match (method, self) {
            (Method::Gzip, CodingEffort::Fast) => 1,
            (Method::Gzip, CodingEffort::Best) => 6,
            (Method::Gzip, CodingEffort::Max) => 12,
            (Method::Zopfli, CodingEffort::Fast) => 5,
            (Method::Zopfli, CodingEffort::Best | CodingEffort::Max) => 15,
            (Method::Brotli, CodingEffort::Fast) => 4,
            (Method::Brotli, CodingEffort::Best) => 6,
            (Method::Brotli, CodingEffort::Max) => 11,
            (Method::Zstd, CodingEffort::Fast) => 3,
            (Method::Zstd, CodingEffort::Best) => 9,
            (Method::Zstd, CodingEffort::Max) => 19,
        };
        CodingLevel { method, level }
    }
}

/// A method and how hard it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodingLevel {
    /// The encoder.
    pub method: Method,
    /// One of [`Method::levels`]. gzip's 6 is libdeflate's 7 for content of middle length.
    pub level: u8,
}

/// The work of each method by level: hundredths of a second of CPU time for 66 MB of pages
/// (docs/decisions/0003), those of zopfli from a smaller input (docs/decisions/0012). A level that
/// was not measured counts as the one below it.
const WORK: [(Method, &[(u8, u64)]); 4] = [
    (
        Method::Gzip,
        &[
            (1, 25),
            (2, 37),
            (3, 42),
            (4, 45),
            (5, 51),
            (6, 62),
            (7, 98),
            (8, 132),
            (9, 160),
            (10, 607),
            (11, 1101),
            (12, 1590),
        ],
    ),
    (Method::Zopfli, &[(1, 21_900), (5, 34_000), (15, 57_900), (30, 88_000)]),
    (
        Method::Brotli,
        &[
            (0, 21),
            (1, 35),
            (2, 64),
            (3, 73),
            (4, 96),
            (5, 151),
            (6, 176),
            (7, 222),
            (8, 237),
            (9, 288),
            (10, 4301),
            (11, 10_599),
        ],
    ),
    (
        Method::Zstd,
        &[
            (3, 23),
            (6, 75),
            (7, 83),
            (8, 103),
            (9, 104),
            (10, 128),
            (11, 233),
            (12, 331),
            (15, 711),
            (19, 3818),
        ],
    ),
];

impl CodingLevel {
    /// Returns the coding that comes out.
    #[must_use]
    pub const fn coding(self) -> Coding {
        self.method.coding()
    }

    /// Returns the work of a byte, compared with other codings.
    pub(crate) fn work(self) -> u64 {
        let rows = WORK.iter().find(|(method, _)| *method == self.method).map_or(&[][..], |r| r.1);
        let measured = rows.iter().rev().find(|(level, _)| *level <= self.level);
        measured.or(rows.first()).map_or(1, |(_, work)| *work)
    }
}

impl fmt::Display for CodingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.method.name(), self.level)
    }
}

/// A coding as it was named: `br`, `br:11`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedCoding {
    /// The encoder.
    pub method: Method,
    /// The level, if one was named.
    pub level: Option<u8>,
}

impl NamedCoding {
    /// Returns its own level, or that of `level`.
    #[must_use]
    pub fn at(self, level: CodingEffort) -> CodingLevel {
        match self.level {
            Some(named) => CodingLevel { method: self.method, level: named },
            None => level.of(self.method),
        }
    }
}

impl FromStr for NamedCoding {
    type Err = CodingError;

    fn from_str(text: &str) -> Result<NamedCoding, CodingError> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let method = Method::ALL.into_iter().find(|method| is_name(name, *method));
        let method = method.ok_or_else(|| CodingError::Unknown(name.to_owned()))?;
        let Some(level) = level else { return Ok(NamedCoding { method, level: None }) };
        match level.parse().ok().filter(|level| method.levels().contains(level)) {
            Some(level) => Ok(NamedCoding { method, level: Some(level) }),
            None => Err(CodingError::Level { method, level: level.to_owned() }),
        }
    }
}

fn is_name(name: &str, method: Method) -> bool {
    name.eq_ignore_ascii_case(method.name())
        || (method == Method::Gzip && Coding::from_token(name.as_bytes()) == Some(Coding::Gzip))
}

/// Returns the codings of a list such as `gzip,br:11`. An empty list, and `identity`, is none.
///
/// # Errors
/// The first member that is no coding, or makes the same coding as another one.
pub fn parse_codings(text: &str) -> Result<Vec<NamedCoding>, CodingError> {
    let mut codings: Vec<NamedCoding> = Vec::new();
    for member in text.split(',').map(str::trim) {
        if member.is_empty() || member == Coding::Identity.token() {
            continue;
        }
        let new: NamedCoding = member.parse()?;
        let same = |known: &&NamedCoding| known.method.coding() == new.method.coding();
        if let Some(known) = codings.iter().find(same) {
            return Err(if known.method == new.method {
                CodingError::Twice(new.method)
            } else {
                CodingError::SameCoding(known.method, new.method)
            });
        }
        codings.push(new);
    }
    Ok(codings)
}

/// Returns the codings of a list at a level: `gzip:6,br:6` of `gzip,br` at [`CodingEffort::Best`].
///
/// # Errors
/// The errors of [`parse_codings`].
pub fn codings_at(text: &str, level: CodingEffort) -> Result<Vec<CodingLevel>, CodingError> {
    Ok(parse_codings(text)?.into_iter().map(|named| named.at(level)).collect())
}

/// Other codings for some of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodingsFor {
    /// The names they are for; read like those of [`Options::exclude`](crate::Options::exclude).
    pub glob: String,
    /// The codings to try, also of types that are packed already. Empty: the identity alone.
    pub codings: Vec<CodingLevel>,
}

impl CodingsFor {
    /// Reads `*.svg=br:11`: the text after the last `=` is a list of codings.
    ///
    /// # Errors
    /// The errors of [`parse_codings`], and when there is no `=`, or nothing before it or after it.
    pub fn parse(text: &str, level: CodingEffort) -> Result<CodingsFor, CodingError> {
        match text.rsplit_once('=') {
            Some((glob, list)) if !glob.is_empty() && !list.trim().is_empty() => {
                glob_of(glob).map_err(CodingError::Glob)?;
                Ok(CodingsFor { glob: glob.to_owned(), codings: codings_at(list, level)? })
            }
            _ => Err(CodingError::NoList(text.to_owned())),
        }
    }
}

impl fmt::Display for CodingsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.glob, list(&self.codings))
    }
}

/// Returns a list as [`codings_at`] reads it.
pub(crate) fn list(codings: &[CodingLevel]) -> String {
    match codings {
        [] => Coding::Identity.token().to_owned(),
        _ => codings.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}

/// The reason why a text does not name codings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// Not a coding that can be stored.
    #[error("{0:?} is not a coding: use gzip, zopfli, br or zstd")]
    Unknown(String),
    /// Not a level of that method.
    #[error(
        "{} has the levels {} to {}, not {level:?}",
        method.name(), method.levels().start(), method.levels().end()
    )]
    Level {
        /// The encoder.
        method: Method,
        /// The requested level.
        level: String,
    },
    /// A coding named twice.
    #[error("{} is named twice", .0.name())]
    Twice(Method),
    /// Two methods for one coding.
    #[error("{} and {} both make {}: name one", .0.name(), .1.name(), .0.coding().token())]
    SameCoding(Method, Method),
    /// An override without a glob or without codings.
    #[error("{0:?} is not GLOB=LIST: write '*.svg=br:11', or '*.bin=identity' for none")]
    NoList(String),
    /// A glob that is none.
    #[error("{0}")]
    Glob(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coding_lists_are_parsed_with_default_levels() {
        let text = |text: &str, level| list(&codings_at(text, level).unwrap());
        assert_eq!(text("gzip:12, BR:11,zstd:1", CodingEffort::Fast), "gzip:12,br:11,zstd:1");
        assert_eq!(text("gzip,br", CodingEffort::Best), list(&CodingEffort::Best.codings()));
        assert_eq!(text("x-gzip,br,zstd", CodingEffort::Best), "gzip:6,br:6,zstd:9");
        assert_eq!(text("gzip,br:7,zstd", CodingEffort::Fast), "gzip:1,br:7,zstd:3");
        assert_eq!(text("gzip,br,zstd", CodingEffort::Max), "gzip:12,br:11,zstd:19");
        assert_eq!(text("zopfli", CodingEffort::Best), "zopfli:15");
        for none in ["", "identity", " , "] {
            assert_eq!(text(none, CodingEffort::Best), "identity");
        }
    }

    #[test]
    fn errors_name_the_invalid_coding() {
        for (text, message) in [
            ("deflate", "\"deflate\" is not a coding: use gzip, zopfli, br or zstd"),
            ("gzip:0", "gzip has the levels 1 to 12, not \"0\""),
            ("zopfli:31", "zopfli has the levels 1 to 30, not \"31\""),
            ("br:12", "br has the levels 0 to 11, not \"12\""),
            ("zstd:-1", "zstd has the levels 1 to 22, not \"-1\""),
            ("br:", "br has the levels 0 to 11, not \"\""),
            ("identity:1", "\"identity\" is not a coding: use gzip, zopfli, br or zstd"),
            ("br,gzip,br:3", "br is named twice"),
            ("gzip,zopfli", "gzip and zopfli both make gzip: name one"),
        ] {
            assert_eq!(parse_codings(text).unwrap_err().to_string(), message);
        }
    }

    /// Every level of the table is one of its method, and more work at each step.
    #[test]
    fn levels_are_within_their_scales() {
        for method in Method::ALL {
            let [fast, best, max] =
                [CodingEffort::Fast, CodingEffort::Best, CodingEffort::Max].map(|l| l.of(method));
            assert!(fast.level < best.level && best.level <= max.level, "{method:?}");
            assert!([fast, best, max].iter().all(|at| method.levels().contains(&at.level)));
        }
        assert_eq!(list(&CodingEffort::Fast.codings()), "gzip:1,br:4");
        assert_eq!(list(&CodingEffort::Max.codings()), "gzip:12,br:11");
    }

    /// gzip takes its content at once, so the bar stands still for its part of a file.
    #[test]
    fn gzip_is_at_most_a_third_of_the_work_of_a_level() {
        for level in [CodingEffort::Fast, CodingEffort::Best, CodingEffort::Max] {
            let all: u64 = level.codings().iter().map(|choice| choice.work()).sum();
            let gzip = level.of(Method::Gzip).work();
            assert!(gzip > 0 && gzip * 3 <= all, "{level:?}: {gzip} of {all}");
        }
    }

    #[test]
    fn higher_levels_are_more_work() {
        for (method, rows) in WORK {
            assert!(rows.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1), "{method:?}");
            assert!(rows.iter().all(|(level, _)| method.levels().contains(level)), "{method:?}");
            let works: Vec<u64> =
                method.levels().map(|level| CodingLevel { method, level }.work()).collect();
            assert!(works.is_sorted(), "{method:?}: {works:?}");
        }
    }

    #[test]
    fn codings_for_names_files_and_codings() {
        let parse = |text: &str| CodingsFor::parse(text, CodingEffort::Best);
        let svg = parse("art/*.svg=zopfli:30,br").unwrap();
        assert_eq!((svg.glob.as_str(), svg.codings.len()), ("art/*.svg", 2));
        assert_eq!(svg.to_string(), "art/*.svg=zopfli:30,br:6");
        assert_eq!(parse("a=b=identity").unwrap().to_string(), "a=b=identity");
        for text in ["*.svg", "=br", "*.svg=", "*.svg= "] {
            assert!(matches!(parse(text), Err(CodingError::NoList(_))), "{text}");
        }
        assert!(matches!(parse("*.svg=lzma"), Err(CodingError::Unknown(_))));
        assert!(matches!(parse("a[=br"), Err(CodingError::Glob(_))));
    }
}
