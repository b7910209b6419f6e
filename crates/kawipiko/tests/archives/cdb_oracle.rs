//! The content of a database, read a second time, plainly and slowly. The fuzz target `cdb` runs
//! this too.

use pinion_kawipiko::Archive;
use pinion_kawipiko::cdb::Cdb;

use crate::cdb_writer;

/// Reads `data` as a database, and, cut into records, as the records of an archive.
pub(crate) fn check(data: &[u8]) {
    check_database(data);
    let mut records = vec![cdb_writer::schema()];
    let mut rest = data;
    // Two lengths, then a key and its data; a kind in front of the key makes references likely.
    while let [key_bytes, data_bytes, behind @ ..] = rest {
        let (key, behind) = behind.split_at((*key_bytes as usize).min(behind.len()));
        let (data, behind) = behind.split_at((*data_bytes as usize).min(behind.len()));
        records.push((key.to_vec(), data.to_vec()));
        rest = behind;
    }
    let file = cdb_writer::database(&records);
    check_database(&file);
    let archive = Archive::open(&file).expect("it has the schema");
    let plain = |key: &[u8]| {
        let found = records.iter().find(|(other, _)| other == key);
        found.map(|(_, data)| data.as_slice())
    };
    for reference in archive.references().filter_map(Result::ok) {
        let key = format!("d{:07x}", reference.content_number());
        assert_eq!(archive.content(&reference).ok(), plain(key.as_bytes()));
        let key = format!("m{:07x}", reference.fields_number());
        if let Ok(fields) = archive.fields(&reference) {
            let block = plain(key.as_bytes()).expect("it was read");
            let least: usize = fields.iter().map(|_| 12).sum();
            assert!(block.len() >= least, "{fields:?} of {}", block.escape_ascii());
        }
    }
}

fn check_database(file: &[u8]) {
    let Ok(cdb) = Cdb::open(file) else { return };
    let mut expected = Vec::new();
    let end = records_end(file);
    let mut at = 2048;
    while at < end {
        match record(file, at, end) {
            Some((key, data)) => {
                expected.push(Some((key, data)));
                at += 8 + key.len() as u64 + data.len() as u64;
            }
            None => {
                expected.push(None);
                break;
            }
        }
    }
    let found = cdb.records().map(|record| record.ok().map(|record| (record.key, record.data)));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let keys = expected.iter().flatten().map(|(key, _)| *key);
    for key in keys.chain([&b"schema"[..], b"", b"f:/"]).take(100) {
        assert_eq!(cdb.get(key).ok(), get(file, key, end), "{}", key.escape_ascii());
    }
}

fn word(file: &[u8], at: u64) -> Option<u64> {
    let bytes = file.get(usize::try_from(at).ok()?..)?.get(..4)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value * 256 + u64::from(byte)))
}

/// Returns the position of the first table that has slots, where the records end.
fn records_end(file: &[u8]) -> u64 {
    let tables = (0..256).map(|table| (word(file, table * 8), word(file, table * 8 + 4)));
    tables.filter(|&(_, slots)| slots > Some(0)).filter_map(|(at, _)| at).min().unwrap_or(2048)
}

fn record(file: &[u8], at: u64, end: u64) -> Option<(&[u8], &[u8])> {
    let (key, data) = (word(file, at)?, word(file, at + 4)?);
    if at < 2048 || at + 8 + key + data > end {
        return None;
    }
    let part = |from: u64, bytes: u64| file.get(from as usize..(from + bytes) as usize);
    Some((part(at + 8, key)?, part(at + 8 + key, data)?))
}

/// Returns `None` if an invalid record is found.
fn get<'a>(file: &'a [u8], key: &[u8], end: u64) -> Option<Option<&'a [u8]>> {
    let mut hash: u64 = 5381;
    for &byte in key {
        hash = (((hash << 5) + hash) ^ u64::from(byte)) % (1 << 32);
    }
    let (table, slots) = (word(file, hash % 256 * 8)?, word(file, hash % 256 * 8 + 4)?);
    for step in 0..slots {
        let slot = table + (hash / 256 + step) % slots * 8;
        let at = word(file, slot + 4)?;
        if at == 0 {
            return Some(None);
        }
        if word(file, slot)? == hash {
            let (found, data) = record(file, at, end)?;
            if found == key {
                return Some(Some(data));
            }
        }
    }
    Some(None)
}
