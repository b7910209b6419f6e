//! The name of a release: the digest of its archive, as `pinion inspect` shows it.

use pinion_archive::Digest;
use std::ffi::OsStr;
use std::fmt;

/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;
/// Digits that are shown: with a thousand releases two begin alike once in 500 million folders.
const SHORT_DIGITS: usize = 12;
/// Digits that a person has to write at least.
pub(crate) const PREFIX_DIGITS_MIN: usize = 4;
/// The extension of a file in the folder `releases`.
const SUFFIX: &str = ".pinion";

/// 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(String);

impl Id {
    /// Reads a whole digest.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        (text.len() == DIGITS && is_hex(text)).then(|| Self(text.to_owned()))
    }

    /// Returns the release that a file of this name holds.
    pub(crate) fn of_file(name: &OsStr) -> Option<Self> {
        Self::parse(name.to_str()?.strip_suffix(SUFFIX)?)
    }

    /// Returns the name of its file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}{SUFFIX}", self.0)
    }

    /// Returns the whole digest.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns enough of it for people.
    pub(crate) fn short(&self) -> &str {
        self.0.get(..SHORT_DIGITS).unwrap_or(&self.0)
    }
}

impl From<Digest> for Id {
    fn from(digest: Digest) -> Self {
        Self(digest.to_string())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a text consists of lower-case hexadecimal digits.
pub(crate) fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_id_is_parsed_from_its_file_name() {
        let id = Id::from(Digest([0xa5; 32]));
        assert_eq!(Id::of_file(OsStr::new(&id.file_name())), Some(id.clone()));
        assert_eq!((id.short(), id.as_str().len()), ("a5a5a5a5a5a5", 64));
        let upper = id.as_str().to_uppercase();
        for other in ["", "a5.pinion", "current.pinion", id.as_str(), &format!("{upper}.pinion")] {
            assert_eq!(Id::of_file(OsStr::new(other)), None, "{other}");
        }
    }
}
