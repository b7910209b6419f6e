//! The code of a site: scripts, templates and the files they include. It is no content: no entry
//! leads to it, and a server runs it and never sends it. It is read as a whole when it is started.
//!
//! One after the other, by rising path: the length of the path (2 bytes), two reserved bytes, the
//! length of the content (4 bytes), the path, the content.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::archive::Archive;
use crate::byte_span::slice;
use crate::damage::{ArchivePart, Damage, Fault};
use crate::digest::Digest;
use crate::layout::SectionKind;
use crate::limits::{CODE_FILE_MAX_BYTES, CODE_SECTION_MAX_BYTES, PATH_MAX_BYTES};
use crate::write_error::WriteError;

/// Bytes before each path.
const HEAD_BYTES: usize = 8;

/// The code of an archive, copied: the code that runs is the code that was hashed, even if the file
/// changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeSection {
    bytes: Box<[u8]>,
    /// The files, by rising path.
    rows: Vec<CodeFile>,
}

/// The position of one file in the section.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CodeFile {
    path: Range<usize>,
    content: Range<usize>,
}

impl Archive<'_> {
    /// Reads the section, which is copied and hashed; an archive without one has no code.
    ///
    /// # Errors
    /// [`Damage`] of the section.
    pub fn code(&self) -> Result<CodeSection, Damage> {
        let Some(section) = self.layout.section(SectionKind::CODE) else {
            return Ok(CodeSection::default());
        };
        let damage = |fault| Damage {
            part: ArchivePart::Section(section.kind),
            offset: section.offset,
            fault,
        };
        let bytes = slice(self.bytes, section.offset, section.bytes);
        // Copied before it is hashed: a mapped file can change between two reads.
        let bytes: Box<[u8]> = bytes.ok_or(damage(Fault::Outside))?.into();
        if Digest::of(&bytes) != section.digest {
            return Err(damage(Fault::Checksum));
        }
        let rows = parse(&bytes).map_err(damage)?;
        Ok(CodeSection { bytes, rows })
    }
}

impl CodeSection {
    /// Returns the paths and contents, by rising path.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.rows.iter().filter_map(|row| self.file(row))
    }

    /// Returns the content of a path.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<&[u8]> {
        let path_of = |row: &CodeFile| self.bytes.get(row.path.clone()).unwrap_or_default();
        let at = self.rows.binary_search_by(|row| path_of(row).cmp(path)).ok()?;
        self.file(self.rows.get(at)?).map(|(_, content)| content)
    }

    /// Returns the number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there is no code: the site is static.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn file(&self, row: &CodeFile) -> Option<(&[u8], &[u8])> {
        Some((self.bytes.get(row.path.clone())?, self.bytes.get(row.content.clone())?))
    }
}

/// Returns the positions of the files, or the fault of the section.
fn parse(bytes: &[u8]) -> Result<Vec<CodeFile>, Fault> {
    let mut rows: Vec<CodeFile> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let head = bytes.get(at..).and_then(|rest| rest.first_chunk::<HEAD_BYTES>());
        let &[low, high, r0, r1, b0, b1, b2, b3] = head.ok_or(Fault::Length)?;
        if [r0, r1] != [0, 0] {
            return Err(Fault::Reserved);
        }
        let path_bytes = usize::from(u16::from_le_bytes([low, high]));
        let content_bytes = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let path = at + HEAD_BYTES..at + HEAD_BYTES + path_bytes;
        let content = path.end..path.end.checked_add(content_bytes).ok_or(Fault::Length)?;
        let is_inside = content.end <= bytes.len();
        if !is_inside || !is_in_bounds(path_bytes, content_bytes) {
            return Err(Fault::Length);
        }
        let name = bytes.get(path.clone()).unwrap_or_default();
        let last = rows.last().and_then(|last| bytes.get(last.path.clone()));
        if name.first() != Some(&b'/') || last.is_some_and(|last| last >= name) {
            return Err(Fault::Syntax);
        }
        at = content.end;
        rows.push(CodeFile { path, content });
    }
    Ok(rows)
}

fn is_in_bounds(path_bytes: usize, content_bytes: usize) -> bool {
    path_bytes <= PATH_MAX_BYTES && content_bytes as u64 <= CODE_FILE_MAX_BYTES
}

/// The section as it grows.
#[derive(Default)]
pub(crate) struct NewCode {
    files: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// The bytes of the section so far.
    bytes: u64,
}

impl NewCode {
    /// Takes a file.
    pub(crate) fn add(&mut self, path: &[u8], content: &[u8]) -> Result<(), WriteError> {
        if path.first() != Some(&b'/') {
            return Err(WriteError::NotAPath(path.into()));
        }
        let bytes = self.bytes + (HEAD_BYTES + path.len() + content.len()) as u64;
        if !is_in_bounds(path.len(), content.len()) || bytes > CODE_SECTION_MAX_BYTES {
            return Err(WriteError::TooMuchCode(path.into()));
        }
        if self.files.insert(path.into(), content.into()).is_some() {
            return Err(WriteError::Duplicate(path.into()));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the bytes of the section; empty without code.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, content) in &self.files {
            // Both are within their bounds, which are far below these.
            bytes.extend_from_slice(&(path.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
            bytes.extend_from_slice(path);
            bytes.extend_from_slice(content);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<CodeSection, Fault> {
        Ok(CodeSection { bytes: bytes.into(), rows: parse(bytes)? })
    }

    fn section(files: &[(&str, &str)]) -> Vec<u8> {
        let mut new = NewCode::default();
        for (path, content) in files {
            new.add(path.as_bytes(), content.as_bytes()).expect("within bounds");
        }
        new.bytes()
    }

    #[test]
    fn malformed_code_sections_are_refused() {
        let one = section(&[("/a", "xyz")]);
        assert_eq!(read(&one).expect("read").find(b"/a"), Some(&b"xyz"[..]));
        for cut in 1..one.len() {
            assert_eq!(read(&one[..cut]), Err(Fault::Length), "{cut}");
        }
        assert_eq!(read(&[&one[..], &one].concat()), Err(Fault::Syntax), "twice");
        let other = section(&[("/b", "")]);
        assert_eq!(read(&[other, one].concat()), Err(Fault::Syntax), "falling");
        assert_eq!(read(b"\x02\0\0\0\0\0\0\0aa"), Err(Fault::Syntax), "no path");
        assert_eq!(read(b"\0\0\0\0\0\0\0\0"), Err(Fault::Syntax), "no path");
        assert_eq!(read(b"\x02\0\0\x01\0\0\0\0/a"), Err(Fault::Reserved));
        assert_eq!(read(b"\x02\0\0\0\xff\xff\xff\xff/a"), Err(Fault::Length));
    }

    #[test]
    fn the_writer_refuses_paths_and_code_beyond_the_limits() {
        let mut new = NewCode::default();
        let add = |new: &mut NewCode, path: &[u8], bytes: u64| {
            new.add(path, &vec![0; usize::try_from(bytes).expect("a size")])
        };
        assert!(matches!(add(&mut new, b"a", 0), Err(WriteError::NotAPath(_))));
        let long = [b"/".as_slice(), &[b'a'; PATH_MAX_BYTES]].concat();
        assert!(matches!(add(&mut new, &long, 0), Err(WriteError::TooMuchCode(_))));
        let large = CODE_FILE_MAX_BYTES + 1;
        assert!(matches!(add(&mut new, b"/a", large), Err(WriteError::TooMuchCode(_))));
        add(&mut new, b"/a", 1).expect("within bounds");
        assert!(matches!(add(&mut new, b"/a", 1), Err(WriteError::Duplicate(_))));
        let most = CODE_SECTION_MAX_BYTES / CODE_FILE_MAX_BYTES;
        let added = (0..most).map(|n| add(&mut new, format!("/{n}").as_bytes(), large - 1));
        let refused: Vec<bool> = added.map(|added| added.is_err()).collect();
        assert_eq!(refused.iter().position(|&refused| refused), Some(refused.len() - 1));
    }

    proptest! {
        #[test]
        fn code_sections_round_trip(
            files in prop::collection::btree_map("/{1,2}[a-c]{0,4}", "[x\\PC]{0,20}", 0..8),
        ) {
            let list: Vec<_> = files.iter().map(|(p, c)| (p.as_str(), c.as_str())).collect();
            let code = read(&section(&list)).expect("read");
            let found: Vec<_> = code.iter().collect();
            let expected: Vec<_> = list.iter().map(|(p, c)| (p.as_bytes(), c.as_bytes())).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!((code.len(), code.is_empty()), (files.len(), files.is_empty()));
            for (path, content) in expected {
                prop_assert_eq!(code.find(path), Some(content));
                let longer = [path, b"-"].concat();
                prop_assert_eq!(code.find(&longer), None);
            }
        }

        /// Whatever the bytes, what is read of them is in order and nothing is left over.
        #[test]
        fn any_bytes_are_read_or_refused(
            parts in prop::collection::vec(
                prop_oneof![
                    "[a-c]{0,3}".prop_map(|name| [
                        &[name.len() as u8 + 1, 0, 0, 0, 1, 0, 0, 0, b'/'], name.as_bytes(), b"x",
                    ].concat()),
                    prop::collection::vec(any::<u8>(), 0..4),
                ],
                0..6,
            ),
        ) {
            let bytes = parts.concat();
            if let Ok(code) = read(&bytes) {
                let paths: Vec<_> = code.iter().map(|(path, _)| path).collect();
                prop_assert!(paths.is_sorted_by(|one, next| one < next));
                let total: usize = code.iter().map(|(p, c)| HEAD_BYTES + p.len() + c.len()).sum();
                prop_assert_eq!(total, bytes.len());
            }
        }
    }
}
