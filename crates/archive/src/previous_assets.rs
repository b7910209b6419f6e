//! The entries that are not of the site itself but of earlier releases, and their ages: read by
//! later builds and by tools. A server never looks at them.
//!
//! The section lists them one after the other, by rising path: the age (2 bytes), the length of the
//! path (2 bytes), the path. An entry of that path is in the index as any other.

use std::collections::BTreeMap;

use crate::archive::Archive;
use crate::byte_span::slice;
use crate::damage::{ArchivePart, Damage, Fault};
use crate::digest::Digest;
use crate::layout::SectionKind;
use crate::limits::PATH_MAX_BYTES;

/// Bytes before each path.
const HEAD_BYTES: usize = 4;

/// The entries that an archive has from earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreviousAssets<'a>(Vec<(&'a [u8], u16)>);

impl<'a> Archive<'a> {
    /// Reads the section, which is hashed once; an archive without one has no such entries.
    ///
    /// # Errors
    /// [`Damage`] of the section.
    pub fn previous(&self) -> Result<PreviousAssets<'a>, Damage> {
        let Some(section) = self.layout.section(SectionKind::PREVIOUS) else {
            return Ok(PreviousAssets::default());
        };
        let damage = |fault| Damage {
            part: ArchivePart::Section(section.kind),
            offset: section.offset,
            fault,
        };
        let bytes = slice(self.bytes, section.offset, section.bytes);
        let bytes = bytes.ok_or(damage(Fault::Outside))?;
        if Digest::of(bytes) != section.digest {
            return Err(damage(Fault::Checksum));
        }
        parse(bytes).ok_or(damage(Fault::Length))
    }
}

impl<'a> PreviousAssets<'a> {
    /// Returns the number of builds that have carried an entry on, at least 1; `None` for one of
    /// the site itself.
    pub fn age(&self, path: &[u8]) -> Option<u16> {
        let at = self.0.binary_search_by_key(&path, |(path, _)| path).ok()?;
        self.0.get(at).map(|(_, age)| *age)
    }

    /// Returns the number of these entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the paths and ages, by rising path.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], u16)> {
        self.0.iter().copied()
    }
}

fn parse(mut bytes: &[u8]) -> Option<PreviousAssets<'_>> {
    let mut rows: Vec<(&[u8], u16)> = Vec::new();
    while !bytes.is_empty() {
        let (&[age_low, age_high, low, high], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let length = usize::from(u16::from_le_bytes([low, high]));
        let (path, rest) = rest.split_at_checked(length)?;
        let age = u16::from_le_bytes([age_low, age_high]);
        let rises = rows.last().is_none_or(|(last, _)| *last < path);
        if !rises || age == 0 || path.first() != Some(&b'/') {
            return None;
        }
        rows.push((path, age));
        bytes = rest;
    }
    Some(PreviousAssets(rows))
}

/// The section as it grows.
#[derive(Default)]
pub(crate) struct NewPrevious(BTreeMap<Box<[u8]>, u16>);

impl NewPrevious {
    /// Records a path, which an entry was added for.
    pub(crate) fn add(&mut self, path: &[u8], age: u16) {
        debug_assert!(path.len() <= PATH_MAX_BYTES && age > 0);
        self.0.insert(path.into(), age);
    }

    /// Returns the bytes of the section; empty without such entries.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, age) in &self.0 {
            bytes.extend_from_slice(&age.to_le_bytes());
            // An entry of a longer path was refused.
            bytes.extend_from_slice(&(path.len() as u16).to_le_bytes());
            bytes.extend_from_slice(path);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_assets_round_trip() {
        let mut new = NewPrevious::default();
        for (path, age) in [("/b.css", 1), ("/a/long.js", 300), ("/a", 7)] {
            new.add(path.as_bytes(), age);
        }
        let bytes = new.bytes();
        let read = parse(&bytes).expect("read");
        let rows: Vec<_> = read.iter().collect();
        assert_eq!(rows, [(&b"/a"[..], 7), (b"/a/long.js", 300), (b"/b.css", 1)]);
        assert_eq!((read.age(b"/a"), read.age(b"/c"), read.len()), (Some(7), None, 3));
        assert!(parse(b"").expect("none").is_empty());
    }

    #[test]
    fn malformed_previous_assets_are_refused() {
        let one = b"\x01\0\x02\0/a";
        assert!(parse(one).is_some());
        for cut in 1..one.len() {
            assert!(parse(&one[..cut]).is_none(), "{cut}");
        }
        assert!(parse(&[&one[..], one].concat()).is_none(), "twice");
        assert!(parse(b"\0\0\x02\0/a").is_none(), "no age");
        assert!(parse(b"\x01\0\x02\0aa").is_none(), "no path");
    }
}
