//! Writes an archive: bodies stream out as they come, then the entries; the index data is kept (48
//! bytes for a body, 16 and the path for an entry) and follows at the end, the header page last.
//! The bytes depend on the calls and on nothing else.
//!
//! An output that was not finished is not an archive: its header page is zeros.

use std::io::{self, Read, Seek, Write};

use pinion_http::content_coding::Coding;
use pinion_http::date::UnixSeconds;
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::IntoBytes;

use crate::archive::external_checksum;
use crate::body_writer::{BodyNumber, BodyRef, BodyRoom, BodyWriter, External};
use crate::code_section::NewCode;
use crate::damage::Fault;
use crate::digest::{Digest, ETag};
use crate::encoder_origins::{NewOrigin, OriginTable};
use crate::entry::EntryKind;
use crate::error_pages;
use crate::field_rules::{self, NewFieldRule};
use crate::index_writer::{self, SiteFacts};
use crate::layout::{
    ExternalRow, FALLBACK_PREFIX, FILE_PREFIX, FORMAT_VERSION, FileHeader, HEADER_PAGE_BYTES,
    INDEX_ERROR_PAGES, INDEX_NO_ETAGS, INDEX_NO_SLASH_REDIRECTS, INDEX_SINGLE_PAGE, MAGIC,
    SINGLE_PAGE_KEY, SectionKind, SectionRow, VARIANT_PREFIX,
};
use crate::limits::{
    ERROR_PAGE_MAX_BYTES, FALLBACK_DEPTH_MAX, FIELD_RULES_SECTION_MAX_BYTES, META_MAX_BYTES,
    RULES_MAX, RULES_SECTION_MAX_BYTES,
};
use crate::previous_assets::NewPrevious;
use crate::record_writer::RecordWriter;
use crate::rule::{self, NewRule};
use crate::section_output::{SectionOutput, write_section};
use crate::shared_block_writer::{NewShared, SharedWriter};
use crate::shared_blocks::SharedId;
use crate::write_error::WriteError;

/// Writes one archive.
pub struct Writer<W: Write + Seek> {
    output: SectionOutput<W>,
    bodies: BodyWriter,
    externals: Vec<External>,
    origins: OriginTable,
    previous: NewPrevious,
    code: NewCode,
    shared: SharedWriter,
    records: RecordWriter,
    site_facts: SiteFacts,
    rules: Vec<u8>,
    rule_count: usize,
    field_rules: Vec<u8>,
    field_rule_count: usize,
}

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Status of the response: 200 for a resource, 3xx for a redirect; of a rewrite that of the
    /// response.
    pub status: u16,
    /// The key: decoded path bytes, beginning with a slash.
    pub path: &'a [u8],
    /// `Content-Location` of a resource, `Location` of a redirect, key of a rewrite, name of a
    /// handler. Escaped, visible ASCII where it goes into a field. Empty for none.
    pub target: &'a [u8],
    /// Whether a redirect or rewrite carries the query over.
    pub keeps_query: bool,
    /// Whether a forced rule may apply to the path: the rules are walked before the entry responds.
    pub rules_first: bool,
    /// Whether a [`variant`](Writer::variant) responds to clients that prefer JSON.
    pub has_variant: bool,
    /// The time when the content last changed.
    pub modified: Option<UnixSeconds>,
    /// Shared block of a response without a body (a redirect's); None otherwise.
    pub shared: Option<SharedId>,
    /// The stored forms, one per coding, the identity among them unless there are none.
    pub representations: &'a [NewRepresentation],
}

/// One stored form of an entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRepresentation {
    /// Coding of the stored bytes.
    pub coding: Coding,
    /// Field lines that go with it.
    pub shared: SharedId,
    /// The stored bytes.
    pub body: BodyRef,
    /// Entity tag, see [`ETag::of`].
    pub etag: ETag,
}

/// The result of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The digest of the archive, see [`Layout::digest`](crate::Layout::digest).
    pub digest: Digest,
    /// Length of the file.
    pub total_bytes: u64,
    /// Entries of all kinds.
    pub entries: u64,
    /// Bodies stored.
    pub bodies: u64,
    /// Their bytes, without padding.
    pub body_bytes: u64,
    /// Bodies that were stored already.
    pub repeated_bodies: u64,
    /// Bytes that did not have to be stored again.
    pub repeated_bytes: u64,
    /// Files that stayed outside.
    pub externals: u64,
    /// Shared blocks.
    pub shared_blocks: u64,
    /// Rules that are walked.
    pub rules: u64,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins an empty archive on `out`, which is positioned at its start and empty.
    pub fn new(out: W) -> Result<Writer<W>, WriteError> {
        let mut output = SectionOutput::new(out);
        output.write(&[0; HEADER_PAGE_BYTES])?;
        output.begin_section()?;
        Ok(Writer {
            output,
            bodies: BodyWriter::default(),
            externals: Vec::new(),
            origins: OriginTable::default(),
            previous: NewPrevious::default(),
            code: NewCode::default(),
            shared: SharedWriter::default(),
            records: RecordWriter::default(),
            site_facts: SiteFacts::default(),
            rules: Vec::new(),
            rule_count: 0,
            field_rules: Vec::new(),
            field_rule_count: 0,
        })
    }

    /// Makes room in memory for that many bodies, where their number is about known.
    pub fn expect_bodies(&mut self, bodies: usize) {
        self.bodies.reserve_rows(bodies);
    }

    /// Returns the body with that digest if it is stored already.
    pub fn known(&self, digest: &Digest) -> Option<BodyRef> {
        self.bodies.known(digest)
    }

    /// Stores a body unless it is stored already. `digest` is [`Digest::of`] these bytes; the
    /// caller computes it, on as many threads as it likes.
    pub fn body(&mut self, digest: &Digest, body: &[u8]) -> Result<BodyRef, WriteError> {
        debug_assert_eq!(*digest, Digest::of(body));
        self.bodies.store(&mut self.output, digest, body)
    }

    /// Works like [`body`](Self::body) for content that should not be held in memory: reads exactly
    /// `bytes` bytes that have that digest. After an error the archive can be continued; it keeps
    /// the bytes read so far as a gap.
    pub fn body_from(
        &mut self,
        digest: &Digest,
        bytes: u64,
        from: &mut dyn Read,
    ) -> Result<BodyRef, WriteError> {
        self.bodies.store_from(&mut self.output, digest, bytes, from)
    }

    /// Makes room for a body that the caller copies into the output by other means than this
    /// writer's: its bytes from the offset that is returned on, and nothing else. A body that is
    /// stored already, or has no bytes, needs no room. Until it is copied the archive is a damaged
    /// one.
    pub fn reserve(
        &mut self,
        digest: &Digest,
        bytes: u64,
    ) -> Result<(BodyRef, Option<BodyRoom>), WriteError> {
        self.bodies.reserve(&mut self.output, digest, bytes)
    }

    /// Registers a file that stays outside; the number in [`BodyRef::external`] counts these calls
    /// from 0, and is the one the reader gives with a location.
    pub fn external(&mut self, external: External) -> Result<BodyRef, WriteError> {
        let number = u32::try_from(self.externals.len()).map_err(|_| WriteError::TooLarge)?;
        self.externals.push(external);
        Ok(BodyRef(BodyNumber::External(number)))
    }

    /// Returns the length of a body of this archive.
    pub fn bytes_of(&self, body: BodyRef) -> u64 {
        location(&self.bodies, &self.externals, body).1
    }

    /// Returns the digest of a body that is stored in this archive; zeros for an external one.
    pub fn digest_of(&self, body: BodyRef) -> Digest {
        match body.0 {
            BodyNumber::Empty => Digest::of(b""),
            BodyNumber::Stored(number) => self.bodies.digest(number).unwrap_or_default(),
            BodyNumber::External(_) => Digest::default(),
        }
    }

    /// Records the encoder that was tried on a content, and its result. Neither is external, and a
    /// content without bytes has no origins. A second note about the same content, method, level
    /// and edition changes nothing.
    pub fn origin(&mut self, origin: &NewOrigin) {
        self.origins.add(origin);
    }

    /// Records that the entry of a path is not of the site itself: `age` builds have carried it on,
    /// this one included.
    pub fn previous(&mut self, path: &[u8], age: u16) {
        self.previous.add(path, age);
    }

    /// Adds a file of code, which no request ever gets. Its path begins with a slash and is new.
    ///
    /// # Errors
    /// [`WriteError::NotAPath`], [`WriteError::Duplicate`], and [`WriteError::TooMuchCode`] for
    /// code that a reader would refuse.
    pub fn code(&mut self, path: &[u8], content: &[u8]) -> Result<(), WriteError> {
        self.code.add(path, content)
    }

    /// Stores a shared block, or finds the equal one.
    pub fn shared(&mut self, shared: &NewShared<'_>) -> Result<SharedId, WriteError> {
        self.shared.store(shared, None)
    }

    /// Stores the block that rules for fields have made of `plain`, or finds the equal one.
    pub fn shared_by_rules(
        &mut self,
        shared: &NewShared<'_>,
        plain: SharedId,
    ) -> Result<SharedId, WriteError> {
        self.shared.store(shared, Some(plain))
    }

    /// Ends the bodies: no new one can be stored. From now on entries are written as they come, and
    /// little more than the path stays in memory of each; before, all of it does.
    pub fn end_bodies(&mut self) -> Result<(), WriteError> {
        if !self.bodies.ended {
            self.bodies.ended = true;
            self.output.end_section(SectionKind::BODIES, true, [0; 32]);
        }
        self.records.begin(&mut self.output)
    }

    /// Adds an entry. Its path must be new; this is noticed by [`finish`](Self::finish).
    pub fn entry(&mut self, entry: &NewEntry<'_>) -> Result<(), WriteError> {
        if entry.path.first() != Some(&b'/') {
            return Err(WriteError::NotAPath(entry.path.into()));
        }
        self.record(b"", entry)
    }

    /// Adds the page that responds for paths without an entry in and below a directory, with status
    /// 200 or 404. `path` is the directory, with a slash on both ends.
    pub fn fallback(&mut self, entry: &NewEntry<'_>) -> Result<(), WriteError> {
        if entry.path.first() != Some(&b'/') || entry.path.last() != Some(&b'/') {
            return Err(WriteError::NotAPath(entry.path.into()));
        }
        let depth = entry.path.iter().filter(|&&byte| byte == b'/').count() - 1;
        if depth > FALLBACK_DEPTH_MAX {
            return Err(WriteError::FallbackTooDeep(entry.path.into()));
        }
        if !matches!(entry.status, 200 | 404) {
            return Err(WriteError::Entry { path: entry.path.into(), fault: Fault::Status });
        }
        self.record(FALLBACK_PREFIX, entry)?;
        self.site_facts.fallback_depths |= 1 << depth;
        Ok(())
    }

    /// Adds the page that responds to navigations to paths without an entry, with status 200. The
    /// entry's path is of no meaning.
    pub fn single_page(&mut self, entry: &NewEntry<'_>) -> Result<(), WriteError> {
        self.record(b"", &NewEntry { path: SINGLE_PAGE_KEY, ..*entry })?;
        self.site_facts.flags |= INDEX_SINGLE_PAGE;
        Ok(())
    }

    /// Disables the redirects of paths without an entry to their other slash form.
    pub fn without_slash_redirects(&mut self) {
        self.site_facts.flags |= INDEX_NO_SLASH_REDIRECTS;
    }

    /// Leaves the entity tags of representations out of responses.
    pub fn without_etags(&mut self) {
        self.site_facts.flags |= INDEX_NO_ETAGS;
    }

    /// Adds the page that is sent in place of the built-in one of its status, 400 to 599. The
    /// entry's path is of no meaning, and of its representations only the identity is used.
    pub fn error_page(&mut self, entry: &NewEntry<'_>) -> Result<(), WriteError> {
        let path = error_pages::key(entry.status);
        let refuse = |fault| WriteError::Entry { path: path.as_slice().into(), fault };
        if !error_pages::STATUSES.contains(&entry.status) {
            return Err(refuse(Fault::Status));
        }
        let mut bodies = entry.representations.iter().map(|form| self.bytes_of(form.body));
        if bodies.any(|bytes| bytes > ERROR_PAGE_MAX_BYTES) {
            return Err(refuse(Fault::Length));
        }
        self.record(b"", &NewEntry { path: &path, ..*entry })?;
        self.site_facts.flags |= INDEX_ERROR_PAGES;
        Ok(())
    }

    /// Adds the entry for clients that prefer JSON at the same path as an entry with
    /// [`NewEntry::has_variant`].
    pub fn variant(&mut self, entry: &NewEntry<'_>) -> Result<(), WriteError> {
        if entry.path.first() != Some(&b'/') {
            return Err(WriteError::NotAPath(entry.path.into()));
        }
        self.record(VARIANT_PREFIX, entry)
    }

    /// Adds a file that was read and is not published, under the path it had. Its kind is
    /// [private](EntryKind::Private), for any kind in the entry.
    pub fn file(&mut self, entry: &NewEntry<'_>) -> Result<(), WriteError> {
        if entry.path.first() != Some(&b'/') {
            return Err(WriteError::NotAPath(entry.path.into()));
        }
        self.record(FILE_PREFIX, &NewEntry { kind: EntryKind::Private, ..*entry })
    }

    /// Adds a rule after those before it: the first one that matches applies.
    pub fn rule(&mut self, rule: &NewRule<'_>) -> Result<(), WriteError> {
        let number = self.rule_count;
        let bytes = rule::encode(rule).map_err(|fault| WriteError::Rule { number, fault })?;
        let total = (self.rules.len() + bytes.len()) as u64;
        if number == RULES_MAX || total > RULES_SECTION_MAX_BYTES {
            return Err(WriteError::TooManyRules);
        }
        self.rules.extend_from_slice(&bytes);
        self.rule_count += 1;
        Ok(())
    }

    /// Adds a rule for fields after those before it. The fields that are stored with entries must
    /// have been changed by it already.
    pub fn field_rule(&mut self, rule: &NewFieldRule<'_>) -> Result<(), WriteError> {
        let number = self.field_rule_count;
        let bytes = field_rules::encode(rule);
        let bytes = bytes.map_err(|fault| WriteError::FieldRule { number, fault })?;
        let total = (self.field_rules.len() + bytes.len()) as u64;
        if number == RULES_MAX || total > FIELD_RULES_SECTION_MAX_BYTES {
            return Err(WriteError::TooManyFieldRules);
        }
        self.field_rules.extend_from_slice(&bytes);
        self.field_rule_count += 1;
        Ok(())
    }

    /// Writes the remaining parts and returns the output, flushed but not synced. `meta` are facts
    /// about the build, as `(key, value)`: nothing that differs between two builds of the same
    /// input.
    pub fn finish(mut self, meta: &[(&str, &str)]) -> Result<(Summary, W), WriteError> {
        let facts = meta_lines(meta)?;
        self.end_bodies()?;
        let mut summary = self.summary();
        let output = &mut self.output;
        let (records, keys) = self.records.end(output)?;
        write_section(output, SectionKind::SHARED, true, &[self.shared.bytes()])?;
        write_section(output, SectionKind::META, false, &[facts.as_bytes()])?;
        index_writer::write(output, &keys, records, self.site_facts)?;
        drop(keys);
        if !self.externals.is_empty() {
            write_externals(output, &self.externals)?;
        }
        if !self.rules.is_empty() {
            write_section(output, SectionKind::RULES, true, &[&self.rules])?;
        }
        write_section(output, SectionKind::DIGESTS, true, &[self.bodies.digests().as_bytes()])?;
        let previous = self.previous.bytes();
        if !previous.is_empty() {
            write_section(output, SectionKind::PREVIOUS, false, &[&previous])?;
        }
        let origins = self.origins.into_rows();
        if !origins.is_empty() {
            write_section(output, SectionKind::ORIGINS, false, &[origins.as_bytes()])?;
        }
        let code = self.code.bytes();
        if !code.is_empty() {
            write_section(output, SectionKind::CODE, true, &[&code])?;
        }
        if !self.field_rules.is_empty() {
            write_section(output, SectionKind::FIELD_RULES, true, &[&self.field_rules])?;
        }
        summary.total_bytes = self.output.position();
        summary.digest = Digest::of_archive(self.output.rows());
        let page = header_page(self.output.rows(), summary.total_bytes);
        Ok((summary, self.output.finish(&page)?))
    }

    fn summary(&self) -> Summary {
        Summary {
            digest: Digest::default(),
            total_bytes: 0,
            entries: self.records.count(),
            bodies: self.bodies.stored,
            body_bytes: self.bodies.stored_bytes,
            repeated_bodies: self.bodies.repeated,
            repeated_bytes: self.bodies.repeated_bytes,
            externals: self.externals.len() as u64,
            shared_blocks: self.shared.len() as u64,
            rules: self.rule_count as u64,
        }
    }

    fn record(&mut self, prefix: &[u8], entry: &NewEntry<'_>) -> Result<(), WriteError> {
        let refuse = |fault| WriteError::Entry { path: entry.path.into(), fault };
        let blocks = self.shared.len();
        let named = entry.representations.iter().map(|representation| representation.shared);
        if named.chain(entry.shared).any(|id| id.0 as usize >= blocks) {
            return Err(refuse(Fault::SharedNumber));
        }
        let Self { bodies, externals, .. } = self;
        let location = |form: &NewRepresentation| location(bodies, externals, form.body);
        self.records.add(prefix, entry, location).map_err(refuse)?;
        self.records.advance(&mut self.output)
    }
}

/// Returns the offset and the length of a body.
fn location(bodies: &BodyWriter, externals: &[External], body: BodyRef) -> (u64, u64) {
    match body.0 {
        BodyNumber::Empty => (bodies.empty(), 0),
        BodyNumber::Stored(number) => bodies.location(number).unwrap_or_default(),
        BodyNumber::External(number) => {
            let external = externals.get(number as usize);
            (0, external.map_or(0, |external| external.bytes))
        }
    }
}

fn meta_lines(meta: &[(&str, &str)]) -> Result<String, WriteError> {
    let mut lines = String::new();
    for (key, value) in meta {
        let forbidden = |text: &str| text.contains(|c: char| c.is_control());
        if key.is_empty() || key.contains('=') || forbidden(key) || forbidden(value) {
            return Err(WriteError::Meta((*key).to_owned()));
        }
        for part in [key, "=", value, "\n"] {
            lines.push_str(part);
        }
        if lines.len() as u64 > META_MAX_BYTES {
            return Err(WriteError::Meta((*key).to_owned()));
        }
    }
    Ok(lines)
}

fn write_externals<W: Write + Seek>(
    output: &mut SectionOutput<W>,
    externals: &[External],
) -> io::Result<()> {
    let mut offset = output.begin_section()?;
    let mut rows = Vec::with_capacity(externals.len());
    for external in externals {
        let mut row = ExternalRow {
            bytes: external.bytes.into(),
            modified_ns: external.modified_ns.into(),
            reserved: [0; 8],
            checksum: 0.into(),
        };
        row.checksum = external_checksum(&row, offset).into();
        rows.push(row);
        offset += size_of::<ExternalRow>() as u64;
    }
    write_section(output, SectionKind::EXTERNALS, true, &[rows.as_bytes()])
}

fn header_page(rows: &[SectionRow], total_bytes: u64) -> Vec<u8> {
    let mut header = FileHeader {
        magic: MAGIC,
        version: FORMAT_VERSION.into(),
        sections: (rows.len() as u32).into(),
        total_bytes: total_bytes.into(),
        checksum: 0.into(),
        reserved: [0; 96],
    };
    let page = |header: &FileHeader| {
        let mut page = header.as_bytes().to_vec();
        page.extend_from_slice(rows.as_bytes());
        page.resize(HEADER_PAGE_BYTES, 0);
        page
    };
    header.checksum = xxh3_64(&page(&header)).into();
    page(&header)
}
