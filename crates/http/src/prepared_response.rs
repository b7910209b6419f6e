//! The parts of a ready response, the same for every protocol. The module has only types: the site
//! fills them, the wire machines encode them.

use crate::date::UnixSeconds;

/// A complete answer whose content is in memory or in the archive.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    /// The status code.
    pub status: u16,
    /// Field lines stored once for many resources.
    pub shared: SharedFields<'a>,
    /// The opaque tag, without quotes; always a strong one.
    pub etag: Option<&'a [u8]>,
    /// The date of `Last-Modified`.
    pub last_modified: Option<UnixSeconds>,
    /// The target of a redirect.
    pub location: Option<Location<'a>>,
    /// `Content-Location`, a path.
    pub content_location: Option<&'a [u8]>,
    /// `Content-Range` of a 206 or 416.
    pub content_range: Option<ContentRange>,
    /// `Content-Type`, only when `shared` has none (multipart/byteranges, error pages).
    pub content_type: Option<&'a [u8]>,
    /// `Allow` of a 405 or an `OPTIONS`.
    pub allow: Option<&'a [u8]>,
    /// `Content-Length`: the length of the content of a GET. `None` on 204 and 304.
    pub content_length: Option<u64>,
    /// The content. Producers fill it for HEAD too; the engine drops it then.
    pub body: PreparedBody<'a>,
}

impl Prepared<'static> {
    /// Creates a response with only a status; the start of the others.
    #[must_use]
    pub const fn empty(status: u16) -> Prepared<'static> {
        Prepared {
            status,
            shared: SharedFields::h1(b""),
            etag: None,
            last_modified: None,
            location: None,
            content_location: None,
            content_range: None,
            content_type: None,
            allow: None,
            content_length: None,
            body: PreparedBody::None,
        }
    }
}

impl Prepared<'_> {
    /// Returns whether it has fields that an ordinary file has not.
    #[inline]
    pub(crate) fn has_rare_fields(&self) -> bool {
        self.location.is_some()
            || self.content_location.is_some()
            || self.content_range.is_some()
            || self.content_type.is_some()
            || self.allow.is_some()
    }

    /// Bytes of the values of those fields, but for the numbers of `Content-Range`.
    #[cold]
    pub(crate) fn rare_bytes(&self) -> usize {
        let location = self
            .location
            .map_or(0, |location| location.path.len() + location.query.map_or(0, <[u8]>::len));
        let others = [self.content_location, self.content_type, self.allow];
        location + others.iter().flatten().map(|value| value.len()).sum::<usize>()
    }
}

/// Field lines shared by many answers, in each protocol's own form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedFields<'a> {
    /// Whole lines: `Name: value\r\n` each.
    pub h1: &'a [u8],
    /// The same fields in HPACK, from the static table and literals alone. Where it is empty and
    /// `h1` is not, the fields are converted to this form for every response.
    pub hpack: &'a [u8],
    /// The same fields in QPACK, without the prefix of a section.
    pub qpack: &'a [u8],
}

impl<'a> SharedFields<'a> {
    /// Makes fields that exist in the form of HTTP/1 only.
    #[must_use]
    pub const fn h1(lines: &'a [u8]) -> SharedFields<'a> {
        SharedFields { h1: lines, hpack: b"", qpack: b"" }
    }
}

/// The target of a redirect: the path, then `?` and the query of the request if there is one. Both
/// are in the form of the wire, escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// The path.
    pub path: &'a [u8],
    /// The query, without the question mark.
    pub query: Option<&'a [u8]>,
}

/// `Content-Range` (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes first-last/total`, both ends included.
    Bytes {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte.
        last: u64,
        /// Length of the whole representation.
        total: u64,
    },
    /// `bytes */total`, of a 416.
    Unsatisfied {
        /// Length of the whole representation.
        total: u64,
    },
}

/// The content of a ready answer.
#[derive(Clone, Copy, Debug)]
pub enum PreparedBody<'a> {
    /// There is no content.
    None,
    /// Bytes that are not in the archive: a built-in page.
    Bytes(&'a [u8]),
    /// Pieces, one after the other.
    Archive(&'a [Piece<'a>]),
}

/// A piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes in memory: the heading of a multipart part.
    Bytes(&'a [u8]),
    /// A slice of the archive.
    Archive(ArchiveRange),
    /// A slice of a file beside the archive.
    External(ExternalRange),
}

impl Piece<'_> {
    /// Returns the length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Archive(range) => range.bytes,
            Piece::External(range) => range.bytes,
        }
    }
}

/// A slice of the archive file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveRange {
    /// The offset from the start of the archive, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A slice of a file that was too large to copy. Size and time of the whole file are those it had
/// when the archive was made; if they changed, the response is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalRange {
    /// Which of the archive's external files.
    pub file: u32,
    /// The offset from the start of the file, in bytes.
    pub offset: u64,
    /// Length of the slice in bytes.
    pub bytes: u64,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Time of the last change, nanoseconds since 1970.
    pub modified_ns: i64,
}
