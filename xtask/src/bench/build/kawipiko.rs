//! kawipiko's archives, as far as their size can be compared with ours.
//!
//! They are cdb files: 256 pairs of table offset and length, then records (length of key, length of
//! data, key, data), then the tables. Contents are the records whose key begins with `d`.

use crate::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of the pairs at the front.
const RECORDS_AT: usize = 256 * 8;
/// `d` and a number in hexadecimal: a content.
const CONTENT_KEY_BYTES: usize = 8;

/// Its archiver is in no distribution: a variable or the search path says where it is.
pub(super) fn archiver() -> Option<PathBuf> {
    let named = std::env::var_os("KAWIPIKO_ARCHIVER").map(PathBuf::from);
    named.or_else(|| process::find("kawipiko-archiver"))
}

/// Bytes of all contents in an archive.
pub(super) fn content_bytes(archive: &Path) -> Result<u64> {
    let bytes = fs::read(archive).with_context(|| archive.display().to_string())?;
    contents(&bytes).with_context(|| archive.display().to_string())
}

fn contents(cdb: &[u8]) -> Result<u64> {
    let word = |at: usize| -> Result<usize> {
        let bytes = cdb.get(at..).and_then(<[u8]>::first_chunk).context("it ends too early")?;
        Ok(u32::from_le_bytes(*bytes) as usize)
    };
    let mut end = cdb.len();
    for table in 0..256 {
        end = end.min(word(table * 8)?);
    }
    let (mut at, mut sum) = (RECORDS_AT, 0);
    while at < end {
        let (key_bytes, data_bytes) = (word(at)?, word(at + 4)?);
        let key = cdb.get(at + 8..at + 8 + key_bytes).context("a key beyond the end")?;
        if key_bytes == CONTENT_KEY_BYTES && key.starts_with(b"d") {
            sum += data_bytes as u64;
        }
        at += 8 + key_bytes + data_bytes;
    }
    if sum == 0 {
        bail!("no contents in it");
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], data: &[u8]) -> Vec<u8> {
        let length = |part: &[u8]| (part.len() as u32).to_le_bytes();
        [&length(key), &length(data), key, data].concat()
    }

    #[test]
    fn contents_are_told_from_paths_and_fields() {
        let records =
            [record(b"f:/x", b"m0000001"), record(b"d0000001", b"12345"), record(b"m1", b"1")];
        let records = records.concat();
        let end = (RECORDS_AT + records.len()) as u32;
        let pair = [end.to_le_bytes(), [0; 4]].concat();
        let cdb = [pair.repeat(256), records, b"table".to_vec()].concat();
        assert_eq!(contents(&cdb).unwrap(), 5);
        assert!(contents(&cdb[..100]).is_err());
        assert!(contents(&pair.repeat(256)).is_err());
    }
}
