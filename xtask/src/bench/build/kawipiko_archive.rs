//! The archives of kawipiko, as far as their sizes can be compared with those of Pinion.
//!
//! They are cdb files: 256 pairs of table offset and length, then records (length of key, length of
//! data, key, data), then the tables. Contents are the records whose key begins with `d`; a record
//! `f:` and a path names the fields and the content of a file, by their keys.

use crate::process;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of the pairs at the front.
const RECORDS_AT: usize = 256 * 8;
/// `d` and a number in hexadecimal: a content.
const CONTENT_KEY_BYTES: usize = 8;

/// Returns the path of its archiver, which is in no distribution: a variable or the search path has
/// it.
pub(super) fn archiver() -> Option<PathBuf> {
    let named = std::env::var_os("KAWIPIKO_ARCHIVER").map(PathBuf::from);
    named.or_else(|| process::find("kawipiko-archiver"))
}

/// The content of an archive.
#[derive(Debug, Default)]
pub(super) struct Archive {
    /// Bytes of all contents.
    pub(super) content_bytes: u64,
    /// By path.
    pub(super) files: BTreeMap<String, File>,
}

/// The response that a client gets for a path.
#[derive(Debug, PartialEq)]
pub(super) struct File {
    /// The key of its content.
    pub(super) content: Vec<u8>,
    /// The length of the stored form.
    pub(super) bytes: u64,
}

impl Archive {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        Self::parse(&bytes).with_context(|| path.display().to_string())
    }

    fn parse(cdb: &[u8]) -> Result<Self> {
        let (mut contents, mut paths) = (BTreeMap::new(), Vec::new());
        for (key, data) in records(cdb)? {
            if key.len() == CONTENT_KEY_BYTES && key.starts_with(b"d") {
                contents.insert(key, data.len() as u64);
            } else if let Some(path) = key.strip_prefix(b"f:") {
                paths.push((path, data));
            }
        }
        if contents.is_empty() {
            bail!("no contents in it");
        }
        let mut files = BTreeMap::new();
        for (path, keys) in paths {
            let content = keys.last_chunk::<CONTENT_KEY_BYTES>().context("a file without keys")?;
            let bytes = contents.get(&content[..]).context("a file without a content")?;
            let path = String::from_utf8_lossy(path).into_owned();
            files.insert(path, File { content: content.to_vec(), bytes: *bytes });
        }
        Ok(Self { content_bytes: contents.values().sum(), files })
    }
}

/// Keys and data of all records.
fn records(cdb: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let word = |at: usize| -> Result<usize> {
        let bytes = cdb.get(at..).and_then(<[u8]>::first_chunk).context("it ends too early")?;
        Ok(u32::from_le_bytes(*bytes) as usize)
    };
    let mut end = cdb.len();
    for table in 0..256 {
        end = end.min(word(table * 8)?);
    }
    let (mut at, mut records) = (RECORDS_AT, Vec::new());
    while at < end {
        let (key_bytes, data_bytes) = (word(at)?, word(at + 4)?);
        let (key_at, data_at) = (at + 8, at + 8 + key_bytes);
        at = data_at + data_bytes;
        let key = cdb.get(key_at..data_at).context("a key beyond the end")?;
        records.push((key, cdb.get(data_at..at).context("data beyond the end")?));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], data: &[u8]) -> Vec<u8> {
        let length = |part: &[u8]| (part.len() as u32).to_le_bytes();
        [&length(key), &length(data), key, data].concat()
    }

    #[test]
    fn bytes_of_contents_are_counted_without_paths_and_fields() {
        let records = [
            record(b"f:/x", b"m0000001d0000001"),
            record(b"d0000001", b"12345"),
            record(b"m1", b"1"),
        ];
        let records = records.concat();
        let end = (RECORDS_AT + records.len()) as u32;
        let pair = [end.to_le_bytes(), [0; 4]].concat();
        let cdb = [pair.repeat(256), records, b"table".to_vec()].concat();
        let archive = Archive::parse(&cdb).unwrap();
        assert_eq!(archive.content_bytes, 5);
        let file = File { content: b"d0000001".to_vec(), bytes: 5 };
        assert_eq!(archive.files, BTreeMap::from([("/x".to_owned(), file)]));
        for short in [100, RECORDS_AT + 20, end as usize - 1] {
            assert!(Archive::parse(&cdb[..short]).is_err(), "{short} bytes");
        }
        assert!(Archive::parse(&pair.repeat(256)).is_err());
    }
}
