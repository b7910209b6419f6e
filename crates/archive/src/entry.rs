//! One record, parsed from a checked copy.

use pinion_http::content_coding::Coding;
use pinion_http::date::UnixSeconds;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::FromBytes;

use crate::damage::Fault;
use crate::layout::{
    MODIFIED_NONE, RECORD_HAS_VARIANT, RECORD_KEEPS_QUERY, RECORD_RULES_FIRST, RecordHeader,
    RepresentationRow, SHARED_NONE, STORAGE_BODIES_SECTION, STORAGE_EXTERNAL_FILE,
};
use crate::limits::{PATH_MAX_BYTES, REPRESENTATIONS_MAX, TARGET_MAX_BYTES};
use crate::shared_blocks::SharedId;

/// All flags of a record that have a meaning.
const RECORD_FLAGS: u8 = RECORD_KEEPS_QUERY | RECORD_RULES_FIRST | RECORD_HAS_VARIANT;

/// The kind of an entry. The numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Content in one or more representations; the target, if any, is its `Content-Location`.
    Resource,
    /// The target is the `Location`, the status a 3xx.
    Redirect,
    /// The target is the path key of the entry that responds, with the status of this one: the
    /// resource itself when that is 200, else its content.
    Rewrite,
    /// Content for the server's own use; to a client it does not exist.
    Private,
    /// The target names a handler.
    Handler,
    /// A kind this program does not know: 500.
    Unknown(u8),
}

impl EntryKind {
    /// Returns the number in the file.
    pub fn number(self) -> u8 {
        match self {
            EntryKind::Resource => 0,
            EntryKind::Redirect => 1,
            EntryKind::Rewrite => 2,
            EntryKind::Private => 3,
            EntryKind::Handler => 4,
            EntryKind::Unknown(number) => number,
        }
    }

    /// Returns the kind with a number.
    #[inline]
    pub fn from_number(number: u8) -> EntryKind {
        match number {
            0 => EntryKind::Resource,
            1 => EntryKind::Redirect,
            2 => EntryKind::Rewrite,
            3 => EntryKind::Private,
            4 => EntryKind::Handler,
            other => EntryKind::Unknown(other),
        }
    }

    /// Returns the word for listings.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Resource => "resource",
            EntryKind::Redirect => "redirect",
            EntryKind::Rewrite => "rewrite",
            EntryKind::Private => "private",
            EntryKind::Handler => "handler",
            EntryKind::Unknown(_) => "unknown",
        }
    }
}

/// An entry of the index, borrowed from the scratch its record was copied to.
#[derive(Clone, Copy)]
pub struct Entry<'s> {
    header: &'s RecordHeader,
    path: &'s [u8],
    target: &'s [u8],
    rows: &'s [RepresentationRow],
    offset: u64,
}

/// One stored form of an entry's content.
#[derive(Clone, Copy)]
pub struct Representation<'s> {
    pub(crate) row: &'s RepresentationRow,
    /// The beginning of the record that the row belongs to.
    pub(crate) record: u64,
    coding: Coding,
}

impl<'s> Entry<'s> {
    /// Returns the kind of the entry.
    #[inline]
    pub fn kind(&self) -> EntryKind {
        EntryKind::from_number(self.header.kind)
    }

    /// Returns the status of the response.
    #[inline]
    pub fn status(&self) -> u16 {
        self.header.status.get()
    }

    /// Returns the key: decoded path bytes with a leading slash, or an internal key
    /// ([`FALLBACK_PREFIX`](crate::layout::FALLBACK_PREFIX) and those beside it).
    #[inline]
    pub fn path(&self) -> &'s [u8] {
        self.path
    }

    /// Returns the `Content-Location` of a resource, the `Location` of a redirect, the key of a
    /// rewrite or the name of a handler; visible ASCII.
    #[inline]
    pub fn target(&self) -> Option<&'s [u8]> {
        Some(self.target).filter(|target| !target.is_empty())
    }

    /// Returns whether a redirect or rewrite carries the request's query over to its target.
    pub fn keeps_query(&self) -> bool {
        self.header.flags & RECORD_KEEPS_QUERY != 0
    }

    /// Returns whether something else may respond in its place: a rule, or a variant.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        self.header.flags & (RECORD_RULES_FIRST | RECORD_HAS_VARIANT) != 0
    }

    /// Returns whether a forced rule may apply to its path: the rules are walked before it
    /// responds.
    pub fn rules_first(&self) -> bool {
        self.header.flags & RECORD_RULES_FIRST != 0
    }

    /// Returns whether the entry [`VARIANT_PREFIX`](crate::layout::VARIANT_PREFIX) + path responds
    /// to clients that prefer JSON.
    pub fn has_variant(&self) -> bool {
        self.header.flags & RECORD_HAS_VARIANT != 0
    }

    /// Returns the time when the content last changed.
    #[inline]
    pub fn modified(&self) -> Option<UnixSeconds> {
        Some(self.header.modified.get()).filter(|&seconds| seconds != MODIFIED_NONE)
    }

    /// Returns the shared block of a response without a body.
    pub fn shared(&self) -> Option<SharedId> {
        Some(self.header.shared.get()).filter(|&id| id != SHARED_NONE).map(SharedId)
    }

    /// Returns the stored forms by rising number of their coding, so the identity comes first.
    /// Forms in a coding that this program does not know are left out.
    #[inline(always)]
    pub fn representations(&self) -> impl Iterator<Item = Representation<'s>> + Clone + use<'s> {
        let record = self.offset;
        self.rows.iter().filter_map(move |row| {
            Coding::from_number(row.coding).map(|coding| Representation { row, record, coding })
        })
    }

    /// Returns whether there may be more than one stored form.
    #[inline]
    pub fn has_choice(&self) -> bool {
        self.rows.len() > 1
    }

    /// Returns the representation at `rank` of [`representations`](Self::representations).
    #[inline(always)]
    pub fn representation(&self, rank: usize) -> Option<Representation<'s>> {
        self.representations().nth(rank)
    }

    /// Returns where its record begins in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length of the whole record, as its header has it.
    pub(crate) fn record_bytes(&self) -> u64 {
        u64::from(self.header.bytes.get())
    }

    /// Splits a record that begins at `offset` into its parts. Only lengths are looked at.
    #[inline]
    pub(crate) fn split(record: &'s [u8], offset: u64) -> Result<Entry<'s>, Fault> {
        let (header, rest) = RecordHeader::ref_from_prefix(record).map_err(|_| Fault::Length)?;
        let path_bytes = usize::from(header.path_bytes.get());
        let target_bytes = usize::from(header.target_bytes.get());
        let count = usize::from(header.representations.get());
        let text_bytes = (path_bytes + target_bytes).next_multiple_of(8);
        let expected = text_bytes + count * size_of::<RepresentationRow>();
        if rest.len() != expected {
            return Err(Fault::Length);
        }
        let (text, rows) = rest.split_at_checked(text_bytes).ok_or(Fault::Length)?;
        let (path, text) = text.split_at_checked(path_bytes).ok_or(Fault::Length)?;
        let target = text.get(..target_bytes).ok_or(Fault::Length)?;
        let rows = <[RepresentationRow]>::ref_from_bytes_with_elems(rows, count);
        let rows = rows.map_err(|_| Fault::Length)?;
        Ok(Entry { header, path, target, rows, offset })
    }

    /// Checks everything a reader will use, the rows of all representations included.
    pub(crate) fn validate_all(&self) -> Result<(), Fault> {
        self.validate()?;
        self.rows.iter().try_for_each(validate_row)
    }

    /// Checks the values: a response can be made from an entry that passes without further checks.
    /// The rows of representations are checked when one is chosen
    /// ([`Archive::body_location`](crate::Archive::body_location)), except for their order.
    #[inline]
    pub(crate) fn validate(&self) -> Result<(), Fault> {
        if self.path.len() > PATH_MAX_BYTES
            || self.target.len() > TARGET_MAX_BYTES
            || self.rows.len() > REPRESENTATIONS_MAX
        {
            return Err(Fault::Length);
        }
        if self.header.flags & !RECORD_FLAGS != 0 || self.header.reserved.get() != 0 {
            return Err(Fault::Reserved);
        }
        if !(200..=599).contains(&self.header.status.get()) {
            return Err(Fault::Status);
        }
        let in_a_field = matches!(self.kind(), EntryKind::Resource | EntryKind::Redirect);
        if in_a_field && !self.target.iter().all(u8::is_ascii_graphic) {
            return Err(Fault::Target);
        }
        let mut codings_below = 0;
        for row in self.rows {
            // The first one is the identity, number 0; each of the others is above the last.
            if (row.coding == 0) != (codings_below == 0) || row.coding < codings_below {
                return Err(Fault::Representations);
            }
            codings_below = row.coding.saturating_add(1);
        }
        let redirects = (300..=399).contains(&self.header.status.get());
        match self.kind() {
            EntryKind::Resource if self.rows.is_empty() => Err(Fault::Representations),
            EntryKind::Resource if redirects => Err(Fault::Status),
            EntryKind::Redirect if !redirects => Err(Fault::Status),
            EntryKind::Rewrite if redirects => Err(Fault::Status),
            EntryKind::Redirect | EntryKind::Rewrite | EntryKind::Handler
                if self.target.is_empty() =>
            {
                Err(Fault::Target)
            }
            _ => Ok(()),
        }
    }
}

impl core::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {} {}", self.kind().name(), self.status(), self.path.escape_ascii())
    }
}

impl<'s> Representation<'s> {
    /// Returns the content coding of the stored bytes.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Returns the length of the stored bytes.
    pub fn bytes(&self) -> u64 {
        self.row.bytes.get()
    }

    /// Returns the entity tag without its quotes; checked by
    /// [`Archive::body_location`](crate::Archive::body_location).
    pub fn etag(&self) -> &'s [u8; 22] {
        &self.row.etag
    }

    /// Returns the field lines that go with it.
    pub fn shared(&self) -> SharedId {
        SharedId(self.row.shared.get())
    }
}

/// Checks the values of a row, except the numbers that lead elsewhere.
#[inline]
pub(crate) fn validate_row(row: &RepresentationRow) -> Result<(), Fault> {
    if !is_tag(&row.etag) {
        return Err(Fault::Tag);
    }
    match row.storage {
        STORAGE_BODIES_SECTION if row.external.get() != 0 => Err(Fault::Reserved),
        STORAGE_BODIES_SECTION | STORAGE_EXTERNAL_FILE => Ok(()),
        _ => Err(Fault::Reserved),
    }
}

/// Returns the checksum of a record at `offset`.
#[inline]
pub(crate) fn record_checksum(record: &[u8], offset: u64) -> u32 {
    xxh3_64_with_seed(record.get(8..).unwrap_or_default(), offset) as u32
}

/// Returns whether all bytes are visible ASCII, and none is a quote. Looks at the first sixteen and
/// at the last sixteen, without an early return in between, so that the compiler can process
/// sixteen bytes at once.
#[inline]
fn is_tag(tag: &[u8; 22]) -> bool {
    let refused = |bytes: &[u8; 16]| {
        let refused = |&byte: &u8| (byte.wrapping_sub(b'!') > b'~' - b'!') | (byte == b'"');
        bytes.iter().fold(0, |found, byte| found | u8::from(refused(byte)))
    };
    let [first, last] = [tag.first_chunk(), tag.last_chunk()].map(|part| part.map_or(1, refused));
    first | last == 0
}
