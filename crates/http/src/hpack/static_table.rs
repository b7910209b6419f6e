//! Tables that never change (RFC 7541 Appendix A, RFC 9204 Appendix A).

use crate::field_section::SHORT_BYTES;

/// A static table: names and values of all entries one after the other, and where they stand.
pub(crate) struct StaticTable {
    text: &'static [u8],
    entries: &'static [StaticEntry],
}

/// The position of an entry in the text.
#[derive(Clone, Copy)]
pub(crate) struct StaticEntry {
    start: u16,
    name_bytes: u8,
    value_bytes: u8,
}

impl StaticTable {
    /// Creates the table of a text and entries, made of the same rows; see [`text_of`],
    /// [`entries_of`].
    pub(crate) const fn new(text: &'static [u8], entries: &'static [StaticEntry]) -> StaticTable {
        StaticTable { text, entries }
    }

    /// Returns how many entries there are.
    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Copies name and value of an entry to the front of `room`, as far as there is any, and
    /// returns their lengths. Places count from 0.
    #[inline(always)]
    pub(crate) fn copy(&self, place: usize, room: &mut [u8]) -> Option<(usize, usize)> {
        let entry = self.entries.get(place)?;
        let from = self.text.get(usize::from(entry.start)..).unwrap_or_default();
        let (name, value) = (usize::from(entry.name_bytes), usize::from(entry.value_bytes));
        if name + value <= SHORT_BYTES
            && let (Some(from), Some(room)) = (from.first_chunk(), room.first_chunk_mut())
        {
            let (from, room): (&[u8; SHORT_BYTES], &mut [u8; SHORT_BYTES]) = (from, room);
            *room = *from;
        } else if let (Some(from), Some(room)) =
            (from.get(..name + value), room.get_mut(..name + value))
        {
            room.copy_from_slice(from);
        }
        Some((name, value))
    }

    /// Returns name and value of an entry. Places count from 0.
    pub(crate) fn get(&self, place: usize) -> Option<(&'static [u8], &'static [u8])> {
        let entry = self.entries.get(place)?;
        let middle = usize::from(entry.start) + usize::from(entry.name_bytes);
        let name = self.text.get(usize::from(entry.start)..middle)?;
        Some((name, self.text.get(middle..middle + usize::from(entry.value_bytes))?))
    }

    /// Returns the place of the entry with this name, in any case, and this value; and of the first
    /// one with the name.
    pub(crate) fn find(&self, name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
        let mut named = None;
        for (place, entry) in self.entries.iter().enumerate() {
            if usize::from(entry.name_bytes) != name.len() {
                continue;
            }
            let Some((known, known_value)) = self.get(place) else { continue };
            if known.eq_ignore_ascii_case(name) {
                named = named.or(Some(place));
                if known_value == value {
                    return (Some(place), named);
                }
            }
        }
        (None, named)
    }
}

/// Rows as people write them: name and value.
pub(crate) type Row = (&'static str, &'static str);

/// Returns the size of a text of these rows: the length that they need, and enough behind them that
/// the copy of a short one is always within.
pub(crate) const fn text_bytes(rows: &[Row]) -> usize {
    let mut bytes = SHORT_BYTES;
    let mut at = 0;
    while at < rows.len() {
        bytes += rows[at].0.len() + rows[at].1.len();
        at += 1;
    }
    bytes
}

/// Returns the text of the rows.
pub(crate) const fn text_of<const BYTES: usize>(rows: &[Row]) -> [u8; BYTES] {
    let mut text = [0; BYTES];
    let mut end = 0;
    let mut at = 0;
    while at < rows.len() {
        end = append(&mut text, end, rows[at].0.as_bytes());
        end = append(&mut text, end, rows[at].1.as_bytes());
        at += 1;
    }
    text
}

const fn append<const BYTES: usize>(text: &mut [u8; BYTES], end: usize, part: &[u8]) -> usize {
    let mut at = 0;
    while at < part.len() {
        text[end + at] = part[at];
        at += 1;
    }
    end + part.len()
}

/// Returns the positions of the rows in their text.
pub(crate) const fn entries_of<const COUNT: usize>(rows: &[Row]) -> [StaticEntry; COUNT] {
    let mut entries = [StaticEntry { start: 0, name_bytes: 0, value_bytes: 0 }; COUNT];
    let mut start = 0;
    let mut at = 0;
    while at < COUNT {
        let (name, value) = (rows[at].0.len(), rows[at].1.len());
        assert!(
            name <= u8::MAX as usize && value <= u8::MAX as usize && start <= u16::MAX as usize
        );
        entries[at] =
            StaticEntry { start: start as u16, name_bytes: name as u8, value_bytes: value as u8 };
        start += name + value;
        at += 1;
    }
    entries
}

/// RFC 7541 Appendix A. The first row has index 1.
pub(crate) static HPACK: StaticTable = StaticTable::new(&HPACK_TEXT, &HPACK_ENTRIES);

static HPACK_TEXT: [u8; text_bytes(&HPACK_ROWS)] = text_of(&HPACK_ROWS);
static HPACK_ENTRIES: [StaticEntry; HPACK_ROWS.len()] = entries_of(&HPACK_ROWS);

const HPACK_ROWS: [Row; 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
