//! An archive: references by path, and their fields and content by number.

use crate::cdb::{Cdb, CdbError, CdbRecord};
use crate::field_block::{self, KawipikoField};
use std::fmt;

/// The required value of the record `schema`.
pub const SCHEMA: &[u8] = b"kawipiko-2022a";

/// A number as a key: a letter and seven hexadecimal digits.
pub(crate) const NUMBER_BYTES: usize = 8;

/// An archive in memory.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    cdb: Cdb<'a>,
}

/// The response to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The kind of response.
    pub kind: Kind,
    /// The host that it is for, as a request names it; none means any host.
    pub host: Option<&'a [u8]>,
    /// The path. It begins with a slash, or is empty where a host stands alone. `/*` at its end
    /// matches every path below that has no reference of its own.
    pub path: &'a [u8],
    fields: &'a [u8; NUMBER_BYTES],
    content: &'a [u8; NUMBER_BYTES],
}

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A file.
    File,
    /// A redirect; its content is empty.
    Redirect,
    /// The entries of a folder, as JSON; found only where there is neither file nor redirect.
    Listing,
}

/// The reason why a file is not read as an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The file is not even a database.
    #[error(transparent)]
    Cdb(#[from] CdbError),
    /// The file is a database of another kind.
    #[error("a cdb file, but not an archive of kawipiko: it has no schema")]
    NoSchema,
    /// The archive has another version.
    #[error(
        "an archive of another version of kawipiko: its schema is {:?}, not {:?}",
        .0, ShownBytes(SCHEMA)
    )]
    Schema(String),
}

/// An error of one record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {record}: {fault}")]
pub struct Damage {
    /// Its key, escaped.
    pub record: String,
    /// The reason why it cannot be used.
    pub fault: RecordFault,
}

/// The reason why a record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The database is damaged here.
    #[error(transparent)]
    Cdb(#[from] CdbError),
    /// A path does not begin with a slash.
    #[error("not a path")]
    Path,
    /// A reference is no pair of numbers.
    #[error("not the numbers of a block of fields and of a content")]
    Reference,
    /// A reference leads here, and there is no record.
    #[error("missing")]
    Missing,
    /// A block of fields ends within a field.
    #[error("ends within a field")]
    CutShort,
    /// A field name is no known number.
    #[error("a field name that is none")]
    Name,
    /// A field value is neither a known number nor written out.
    #[error("a field value that is none")]
    Value,
    /// There are more than [`FIELDS_MAX`](crate::limits::FIELDS_MAX) fields.
    #[error("more than {} fields", crate::limits::FIELDS_MAX)]
    TooManyFields,
    /// A value has more than [`LITERAL_MAX_BYTES`](crate::limits::LITERAL_MAX_BYTES).
    #[error("a value of more than {} bytes", crate::limits::LITERAL_MAX_BYTES)]
    LongValue,
}

/// The references of an archive, in the order of its records.
pub struct References<'a>(Box<dyn Iterator<Item = Result<CdbRecord<'a>, CdbError>> + 'a>);

impl<'a> Archive<'a> {
    /// Opens an archive, and checks its schema.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the file is no archive, or one of another version.
    pub fn open(bytes: &'a [u8]) -> Result<Archive<'a>, OpenError> {
        let cdb = Cdb::open(bytes)?;
        match cdb.get(b"schema")? {
            Some(SCHEMA) => Ok(Archive { cdb }),
            Some(other) => Err(OpenError::Schema(ShownBytes(other).to_string())),
            None => Err(OpenError::NoSchema),
        }
    }

    /// Returns every reference. The lists of paths that an archive may have beside them contain no
    /// further information.
    pub fn references(&self) -> References<'a> {
        References(Box::new(self.cdb.records()))
    }

    /// Returns the fields of a reference, in the order of the archive. The first may be `!Status`.
    ///
    /// # Errors
    /// Returns the [`Damage`] of the block.
    pub fn fields(&self, reference: &Reference<'a>) -> Result<Vec<KawipikoField<'a>>, Damage> {
        let key = reference.fields;
        let block = self.needed(key)?;
        field_block::parse(block).map_err(|fault| damage(key, fault))
    }

    /// Returns the stored bytes of a reference, in the coding that its fields name.
    ///
    /// # Errors
    /// Returns [`Damage`] when they are missing.
    pub fn content(&self, reference: &Reference<'a>) -> Result<&'a [u8], Damage> {
        self.needed(reference.content)
    }

    fn needed(&self, key: &[u8]) -> Result<&'a [u8], Damage> {
        match self.cdb.get(key) {
            Ok(Some(data)) => Ok(data),
            Ok(None) => Err(damage(key, RecordFault::Missing)),
            Err(error) => Err(damage(key, error.into())),
        }
    }
}

impl<'a> Iterator for References<'a> {
    type Item = Result<Reference<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find_map(|record| match record {
            Ok(record) => reference(&record).transpose(),
            Err(error) => Some(Err(damage(b"", error.into()))),
        })
    }
}

impl fmt::Debug for References<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("References")
    }
}

impl Reference<'_> {
    /// Returns the number of its block of fields: references with the same number have the same
    /// fields.
    pub fn fields_number(&self) -> u32 {
        number(self.fields)
    }

    /// Returns the number of its content.
    pub fn content_number(&self) -> u32 {
        number(self.content)
    }
}

/// Returns the reference in a record, if there is one.
fn reference<'a>(record: &CdbRecord<'a>) -> Result<Option<Reference<'a>>, Damage> {
    let (kind, place) = match record.key {
        [b'f', b':', place @ ..] => (Kind::File, place),
        [b'r', b':', place @ ..] => (Kind::Redirect, place),
        [b'l', b':', place @ ..] => (Kind::Listing, place),
        _ => return Ok(None),
    };
    let fault = |fault| damage(record.key, fault);
    let (host, path) = match place.strip_prefix(b"://") {
        Some(rest) => {
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            (Some(host), path)
        }
        None if place.first() == Some(&b'/') => (None, place),
        None => return Err(fault(RecordFault::Path)),
    };
    let numbers = record.data.split_at_checked(NUMBER_BYTES);
    let (fields, content) = numbers.ok_or(fault(RecordFault::Reference))?;
    let fields = fields.first_chunk().filter(|number| is_number(number, b'm'));
    let content = <&[u8; NUMBER_BYTES]>::try_from(content).ok();
    match (fields, content.filter(|number| is_number(number, b'd'))) {
        (Some(fields), Some(content)) => Ok(Some(Reference { kind, host, path, fields, content })),
        _ => Err(fault(RecordFault::Reference)),
    }
}

pub(crate) fn is_number(number: &[u8; NUMBER_BYTES], letter: u8) -> bool {
    let [first, digits @ ..] = number;
    *first == letter && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the number in the seven digits after the letter.
pub(crate) fn number(number: &[u8; NUMBER_BYTES]) -> u32 {
    number[1..].iter().fold(0, |value, &digit| {
        let digit = match digit {
            b'a'..=b'f' => digit - b'a' + 10,
            _ => digit.wrapping_sub(b'0') & 0xf,
        };
        value << 4 | u32::from(digit)
    })
}

fn damage(key: &[u8], fault: RecordFault) -> Damage {
    Damage { record: ShownBytes(key).to_string(), fault }
}

/// Bytes in a form that people can read.
struct ShownBytes<'a>(&'a [u8]);

impl fmt::Display for ShownBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for ShownBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
