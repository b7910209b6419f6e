//! The records as they are written, and the data from which the index is made.

use std::io::{Seek, Write};

use zerocopy::{FromBytes, IntoBytes};

use crate::damage::Fault;
use crate::entry::{Entry, record_checksum};
use crate::layout::{
    MODIFIED_NONE, RECORD_HAS_VARIANT, RECORD_KEEPS_QUERY, RECORD_RULES_FIRST, RecordHeader,
    RepresentationRow, SHARED_NONE, STORAGE_BODIES_SECTION, STORAGE_EXTERNAL_FILE, SectionKind,
};
use crate::limits::{PATH_MAX_BYTES, REPRESENTATIONS_MAX, TARGET_MAX_BYTES};
use crate::section_output::SectionOutput;
use crate::write_error::WriteError;
use crate::writer::{NewEntry, NewRepresentation};

/// Records are written when so many bytes of them have come together.
const WAITING_BYTES: usize = 64 * 1024;

/// The records so far. Until the section has begun they wait in memory; from then on they are
/// written, and a key and 16 bytes stay of each.
#[derive(Default)]
pub(crate) struct RecordWriter {
    /// Whole records, one after the other, their checksums not yet filled in.
    waiting: Vec<u8>,
    /// The offset at which the section began.
    start: Option<u64>,
    /// The length of the records that were written.
    written: u64,
    hasher: blake3::Hasher,
    keys: RecordKeys,
}

/// The keys of all records, in their order.
#[derive(Default)]
pub(crate) struct RecordKeys {
    text: Vec<u8>,
    rows: Vec<KeyRow>,
}

struct KeyRow {
    /// The end of the key in the text.
    end: u64,
    /// The beginning of its record in the section.
    record: u64,
}

impl RecordWriter {
    /// Adds a record. `location` gives the offset and length of a representation's body.
    pub(crate) fn add(
        &mut self,
        prefix: &[u8],
        entry: &NewEntry<'_>,
        location: impl Fn(&NewRepresentation) -> (u64, u64),
    ) -> Result<(), Fault> {
        let start = self.waiting.len();
        let encoded = encode(&mut self.waiting, prefix, entry, location);
        if encoded.is_err() {
            self.waiting.truncate(start);
            return encoded;
        }
        self.keys.text.extend_from_slice(prefix);
        self.keys.text.extend_from_slice(entry.path);
        let (end, record) = (self.keys.text.len() as u64, self.written + start as u64);
        self.keys.rows.push(KeyRow { end, record });
        Ok(())
    }

    pub(crate) fn count(&self) -> u64 {
        self.keys.count()
    }

    /// Begins the section, unless it has begun.
    pub(crate) fn begin<W: Write + Seek>(
        &mut self,
        output: &mut SectionOutput<W>,
    ) -> Result<(), WriteError> {
        if self.start.is_none() {
            self.start = Some(output.begin_section()?);
        }
        Ok(())
    }

    /// Writes the waiting bytes, if the section has begun and there are enough to be worth a write.
    pub(crate) fn advance<W: Write + Seek>(
        &mut self,
        output: &mut SectionOutput<W>,
    ) -> Result<(), WriteError> {
        match self.start {
            Some(start) if self.waiting.len() >= WAITING_BYTES => self.write(output, start),
            _ => Ok(()),
        }
    }

    /// Ends the section. Returns the offset where it begins.
    pub(crate) fn end<W: Write + Seek>(
        mut self,
        output: &mut SectionOutput<W>,
    ) -> Result<(u64, RecordKeys), WriteError> {
        self.begin(output)?;
        let start = self.start.unwrap_or_default();
        self.write(output, start)?;
        output.end_section(SectionKind::RECORDS, true, *self.hasher.finalize().as_bytes());
        Ok((start, self.keys))
    }

    fn write<W: Write + Seek>(
        &mut self,
        output: &mut SectionOutput<W>,
        start: u64,
    ) -> Result<(), WriteError> {
        seal(&mut self.waiting, start + self.written)?;
        self.hasher.update(&self.waiting);
        output.write(&self.waiting)?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

impl RecordKeys {
    pub(crate) fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns each key, and where its record begins in the section.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let key = self.text(start, row.end);
            start = row.end;
            (key, row.record)
        })
    }

    /// Returns the key of the record that begins there.
    pub(crate) fn of_record(&self, record: u64) -> Option<&[u8]> {
        let number = self.rows.binary_search_by_key(&record, |row| row.record).ok()?;
        let before = number.checked_sub(1).and_then(|before| self.rows.get(before));
        let start = before.map_or(0, |row| row.end);
        self.rows.get(number).map(|row| self.text(start, row.end))
    }

    fn text(&self, start: u64, end: u64) -> &[u8] {
        let range = usize::try_from(start).unwrap_or(usize::MAX)
            ..usize::try_from(end).unwrap_or(usize::MAX);
        self.text.get(range).unwrap_or_default()
    }
}

/// Appends a record, without its checksum, which depends on where it will be.
fn encode(
    records: &mut Vec<u8>,
    prefix: &[u8],
    entry: &NewEntry<'_>,
    location: impl Fn(&NewRepresentation) -> (u64, u64),
) -> Result<(), Fault> {
    let path_bytes = prefix.len() + entry.path.len();
    if path_bytes > PATH_MAX_BYTES
        || entry.target.len() > TARGET_MAX_BYTES
        || entry.representations.len() > REPRESENTATIONS_MAX
    {
        return Err(Fault::Length);
    }
    let text_bytes = (path_bytes + entry.target.len()).next_multiple_of(8);
    let length = size_of::<RecordHeader>()
        + text_bytes
        + size_of::<RepresentationRow>() * entry.representations.len();
    let header = RecordHeader {
        checksum: 0.into(),
        bytes: (length as u32).into(),
        kind: entry.kind.number(),
        flags: flags(entry),
        status: entry.status.into(),
        path_bytes: (path_bytes as u16).into(),
        target_bytes: (entry.target.len() as u16).into(),
        modified: entry.modified.unwrap_or(MODIFIED_NONE).into(),
        shared: entry.shared.map_or(SHARED_NONE, |id| id.0).into(),
        representations: (entry.representations.len() as u16).into(),
        reserved: 0.into(),
    };
    let start = records.len();
    records.extend_from_slice(header.as_bytes());
    records.extend_from_slice(prefix);
    records.extend_from_slice(entry.path);
    records.extend_from_slice(entry.target);
    let rows_start = start + size_of::<RecordHeader>() + text_bytes;
    records.resize(rows_start, 0);
    for representation in entry.representations {
        records.extend_from_slice(row(representation, location(representation)).as_bytes());
    }
    let rows = records.get_mut(rows_start..).unwrap_or_default();
    if let Ok(rows) = <[RepresentationRow]>::mut_from_bytes(rows) {
        rows.sort_by_key(|row| row.coding);
    }
    let record = records.get(start..).unwrap_or_default();
    Entry::split(record, 0).and_then(|entry| entry.validate_all())
}

fn flags(entry: &NewEntry<'_>) -> u8 {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    flag(entry.keeps_query, RECORD_KEEPS_QUERY)
        | flag(entry.rules_first, RECORD_RULES_FIRST)
        | flag(entry.has_variant, RECORD_HAS_VARIANT)
}

fn row(representation: &NewRepresentation, (offset, bytes): (u64, u64)) -> RepresentationRow {
    let external = representation.body.external();
    RepresentationRow {
        offset: offset.into(),
        bytes: bytes.into(),
        etag: representation.etag.0,
        coding: representation.coding.number(),
        storage: if external.is_some() { STORAGE_EXTERNAL_FILE } else { STORAGE_BODIES_SECTION },
        shared: representation.shared.0.into(),
        external: external.unwrap_or(0).into(),
    }
}

/// Fills in the checksums of records that begin at `start`.
fn seal(records: &mut [u8], start: u64) -> Result<(), WriteError> {
    let mut at = 0;
    while let Some(length) = record_at(records, at).map(<[u8]>::len) {
        let Some(record) = records.get_mut(at..at + length) else {
            return Err(WriteError::TooLarge);
        };
        let checksum = record_checksum(record, start + at as u64);
        if let Some(field) = record.first_chunk_mut::<4>() {
            *field = checksum.to_le_bytes();
        }
        at += length;
    }
    Ok(())
}

/// Returns the record that begins at `at`, `None` at the end.
fn record_at(records: &[u8], at: usize) -> Option<&[u8]> {
    let rest = records.get(at..)?;
    let (header, _) = RecordHeader::ref_from_prefix(rest).ok()?;
    rest.get(..header.bytes.get() as usize)
}
