//! Shared blocks: the field lines that many representations have in common (type, coding, Vary,
//! Cache-Control, security and user fields), stored once per site in a full and a 304 form.
//!
//! They are read when the archive is opened: hashed, validated and copied, so that no lookup ever
//! reads fields from a file that may have changed since.

use pinion_http::prepared_response::SharedFields;
use zerocopy::FromBytes;

use crate::damage::{ArchivePart, Damage, Fault};
use crate::field_lines;
use crate::layout::SharedHeader;
use crate::limits::SHARED_VARIANT_MAX_BYTES;
use crate::shared_block_encodings::{BlockLines, EncodedBlock, EncodedFields};

/// Number of a shared block in its archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedId(pub u32);

/// The purpose for which the server uses a block without being asked by an entry. The numbers never
/// change; a reader takes an unknown one for [`Role::Ordinary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Role {
    /// The block is only for the entries that name it.
    Ordinary = 0,
    /// The block of responses that the server makes itself (error pages, the response to OPTIONS):
    /// all fields except `Content-Type`. Its status is of no meaning.
    Generated = 1,
    /// The block of the 308 from `/x/` to `/x` and back, when only the other one exists.
    SlashRedirect = 2,
}

impl Role {
    fn from_number(number: u16) -> Role {
        match number {
            1 => Role::Generated,
            2 => Role::SlashRedirect,
            _ => Role::Ordinary,
        }
    }
}

/// One shared block, borrowed from the [`Layout`](crate::Layout).
#[derive(Clone, Copy, Debug)]
pub struct SharedBlock<'a> {
    /// Status of the responses it belongs to.
    pub status: u16,
    /// The purpose for which the server uses it without being asked by an entry.
    pub role: Role,
    /// Whole field lines (`Name: value` CRLF) of a 200, 206 or any other full response; the
    /// `Content-Type` line, if there is one, comes first.
    pub full: &'a [u8],
    /// Whole field lines of a 304.
    pub not_modified: &'a [u8],
    /// Length of the `Content-Type` line at the start of `full` with its CRLF, or 0.
    pub type_line_bytes: usize,
    /// The block of the same fields before rules for fields have changed them; `None` if no rule
    /// has.
    pub plain: Option<SharedId>,
    forms: EncodedBlock<'a>,
}

impl<'a> SharedBlock<'a> {
    /// A block without fields.
    pub const EMPTY: SharedBlock<'static> = SharedBlock {
        status: 0,
        role: Role::Ordinary,
        full: b"",
        not_modified: b"",
        type_line_bytes: 0,
        plain: None,
        forms: EncodedBlock::NONE,
    };

    /// Returns a block of lines that are not stored: the fields for every protocol are made of the
    /// lines of HTTP/1 for each response. `full` begins with a `Content-Type` line of that length,
    /// or with none if it is 0.
    #[must_use]
    pub fn of_lines(full: &'a [u8], not_modified: &'a [u8], type_line_bytes: usize) -> Self {
        SharedBlock { full, not_modified, type_line_bytes, ..SharedBlock::EMPTY }
    }

    /// Returns the fields of a full response, for every protocol.
    #[inline(always)]
    pub fn full_fields(&self) -> SharedFields<'a> {
        self.forms.full(self.full)
    }

    /// Returns the fields of a full response without `Content-Type`, as a multipart response needs
    /// them.
    pub fn fields_without_type(&self) -> SharedFields<'a> {
        self.forms.without_type(self.without_type())
    }

    /// Returns the fields of a 304, for every protocol.
    #[inline(always)]
    pub fn not_modified_fields(&self) -> SharedFields<'a> {
        self.forms.not_modified(self.not_modified)
    }

    /// Returns the `Content-Type` line with its CRLF, empty when there is none.
    pub fn type_line(&self) -> &'a [u8] {
        self.full.get(..self.type_line_bytes).unwrap_or_default()
    }

    /// Returns the full form without its `Content-Type` line.
    pub fn without_type(&self) -> &'a [u8] {
        self.full.get(self.type_line_bytes..).unwrap_or_default()
    }

    /// Returns the fields of a full response as name and value, `Content-Type` first.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        // Well-formed lines, so each has its colon and space; see `field_lines`.
        self.full.split(|&byte| byte == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r")?;
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((line.get(..colon)?, line.get(colon + 2..)?))
        })
    }

    /// Returns the media type as the `Content-Type` line has it, empty when there is none.
    pub fn media_type(&self) -> &'a [u8] {
        let line = self.type_line();
        line.get(b"content-type: ".len()..line.len().saturating_sub(2)).unwrap_or_default()
    }
}

/// All shared blocks of an archive, owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTable {
    bytes: Box<[u8]>,
    blocks: Box<[BlockPlaces]>,
    generated: Option<SharedId>,
    slash_redirect: Option<SharedId>,
    rendered: EncodedFields,
}

/// The positions of the parts of one block in the table's bytes.
#[derive(Clone, Copy, Debug)]
struct BlockPlaces {
    status: u16,
    role: Role,
    full: (u32, u32),
    not_modified: (u32, u32),
    type_line_bytes: u32,
    plain: Option<SharedId>,
}

impl SharedTable {
    /// Validates a copy of the section. `offset` is where it begins in the file.
    pub(crate) fn parse(bytes: Box<[u8]>, offset: u64) -> Result<SharedTable, Damage> {
        let mut table = SharedTable::default();
        let mut blocks = Vec::new();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let damage =
                |fault| Damage { part: ArchivePart::Shared, offset: offset + at as u64, fault };
            let (block, length) = BlockPlaces::parse(rest, at).map_err(damage)?;
            if block.plain.is_some_and(|plain| plain.0 as usize >= blocks.len()) {
                return Err(damage(Fault::SharedNumber));
            }
            let id = Some(SharedId(blocks.len() as u32));
            match block.role {
                Role::Generated => table.generated = table.generated.or(id),
                Role::SlashRedirect => table.slash_redirect = table.slash_redirect.or(id),
                Role::Ordinary => {}
            }
            blocks.push(block);
            at += length;
        }
        table.bytes = bytes;
        table.blocks = blocks.into();
        Ok(table)
    }

    /// Makes the forms for HTTP/2 and HTTP/3, which a writer has no use for.
    pub(crate) fn render(mut self) -> SharedTable {
        let blocks = (0..self.len() as u32).filter_map(|id| self.get(SharedId(id)));
        self.rendered = EncodedFields::new(blocks.map(|block| BlockLines {
            type_line: block.type_line(),
            without_type: block.without_type(),
            not_modified: block.not_modified,
        }));
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: SharedId) -> Option<SharedBlock<'_>> {
        let index = usize::try_from(id.0).ok()?;
        let block = self.blocks.get(index)?;
        let variant = |(start, end): (u32, u32)| self.bytes.get(start as usize..end as usize);
        Some(SharedBlock {
            status: block.status,
            role: block.role,
            full: variant(block.full)?,
            not_modified: variant(block.not_modified)?,
            type_line_bytes: block.type_line_bytes as usize,
            plain: block.plain,
            forms: self.rendered.get(index),
        })
    }

    pub(crate) fn with_role(&self, role: Role) -> Option<SharedBlock<'_>> {
        let id = match role {
            Role::Generated => self.generated,
            Role::SlashRedirect => self.slash_redirect,
            Role::Ordinary => None,
        };
        self.get(id?)
    }
}

/// Checks a block that is to be written, except the number of another one in it.
pub(crate) fn validate(block: &[u8]) -> Result<(), Fault> {
    BlockPlaces::parse(block, 0).map(|_| ())
}

impl BlockPlaces {
    /// Returns the block at the start of `rest`, which begins at byte `at` of the section, and its
    /// length. The section is at most [`SHARED_SECTION_MAX_BYTES`](crate::limits) long, so offsets
    /// in it fit into 32 bits.
    fn parse(rest: &[u8], at: usize) -> Result<(BlockPlaces, usize), Fault> {
        let (header, _) = SharedHeader::ref_from_prefix(rest).map_err(|_| Fault::Length)?;
        let length = header.bytes.get() as usize;
        let block = rest.get(..length).ok_or(Fault::Outside)?;
        let lengths = [
            header.h1_full_bytes,
            header.h1_not_modified_bytes,
            header.hpack_full_bytes,
            header.hpack_not_modified_bytes,
            header.qpack_full_bytes,
            header.qpack_not_modified_bytes,
        ]
        .map(|variant| variant.get() as usize);
        if lengths.iter().any(|&variant| variant > SHARED_VARIANT_MAX_BYTES) {
            return Err(Fault::Length);
        }
        let used = size_of::<SharedHeader>() + lengths.iter().sum::<usize>();
        if length != used.next_multiple_of(8) {
            return Err(Fault::Length);
        }
        let padding = block.get(used..).ok_or(Fault::Length)?;
        if padding.iter().any(|&byte| byte != 0) {
            return Err(Fault::Reserved);
        }
        let full_start = size_of::<SharedHeader>();
        let full_end = full_start + lengths[0];
        let not_modified_end = full_end + lengths[1];
        let full = block.get(full_start..full_end).ok_or(Fault::Length)?;
        let not_modified = block.get(full_end..not_modified_end).ok_or(Fault::Length)?;
        let type_line_bytes = header.type_line_bytes.get();
        if !field_lines::well_formed(full)
            || !field_lines::well_formed(not_modified)
            || field_lines::type_line_bytes(full) as u64 != u64::from(type_line_bytes)
        {
            return Err(Fault::Syntax);
        }
        let position = |offset: usize| (at + offset) as u32;
        let block = BlockPlaces {
            status: header.status.get(),
            role: Role::from_number(header.role.get()),
            full: (position(full_start), position(full_end)),
            not_modified: (position(full_end), position(not_modified_end)),
            type_line_bytes,
            plain: header.plain.get().checked_sub(1).map(SharedId),
        };
        Ok((block, length))
    }
}
