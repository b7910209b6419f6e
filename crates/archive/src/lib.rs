//! The `.pinion` archive format: a site as one immutable file.
//!
//! **In:** the bytes of an archive (a mapping, a buffer), or an output to write one to.
//! **Out:** plain values: entries, shared field blocks, locations of bodies; a file.
//! Nothing here opens a file, reads a clock or logs.
//!
//! | Module | Holds |
//! |---|---|
//! | [`layout`] | the byte tables: every structure of the file, its sizes proven at compile time |
//! | [`limits`] | every bound of the format, with its reason |
//! | `open` | bytes → [`Layout`]: header, section table, bounds, shared blocks, rules, pages |
//! | `archive` | [`Archive`]: path → entry, entry → body; each lookup checks the parts it reads |
//! | `entry` | [`Entry`], [`Representation`]: one checked copy of a record |
//! | `rules`, `rule` | [`Rules`], [`Rule`]: redirects and rewrites by pattern, and [`NewRule`] |
//! | `field_rules`, `field_pattern` | [`FieldRules`]: changes of response fields by pattern |
//! | `path_pattern` | which paths a rule is about, and the captures of its placeholders |
//! | `shared_blocks`, `field_lines` | [`SharedBlock`]: fields many representations have in common |
//! | `shared_block_encodings` | these fields as HTTP/2 and HTTP/3 send them |
//! | `index_hash`, `byte_span` | arithmetic of both sides: path → bucket, ranges of the file |
//! | `error_pages` | [`ErrorPage`]: a site's pages in place of built-in ones |
//! | `entry_iterator` | every entry in file order, for listings |
//! | `compare` | [`Comparison`]: the differences of two archives, path by path |
//! | `body_digests` | [`BodyDigests`]: which content a stored body has |
//! | [`mod@verify`] | every hash of the file checked, damage named |
//! | `writer` | [`Writer`]: bodies stream out, records follow, the header comes last |
//! | `body_writer`, `record_writer` | its parts that stream: bodies, records |
//! | `shared_block_writer`, `index_writer` | the others: shared blocks, the index |
//! | `section_output` | its output: bytes in order, and the section table |
//! | `write_error` | the errors of writing an archive |
//! | `tagged_text` | the pieces that rules are stored in |
//! | `digest_index` | [`DigestIndex`]: bodies found by their digests |
//! | `previous_assets` | [`PreviousAssets`]: the assets of earlier releases, and their age |
//! | `code_section` | [`CodeSection`]: scripts, templates and their includes: run and never sent |
//! | `encoder_origins` | the encoder of a stored body: a later build may reuse it |
//! | `header_page` | [`SectionTable`]: the section table, of a file that is not mapped |
//! | `digest` | content identity: [`Digest`] and [`ETag`] |
//! | `damage` | the damage of a file: [`OpenError`], [`Damage`] |
//!
//! `docs/archive-format.md` says the same for readers in any language; a test compares the two.
//!
//! **Promises.** No input makes this crate panic. A file that was truncated or damaged by accident
//! gives the same responses as before or an error that names the damage, never another resource's
//! bytes; damage inside a body is found by [`verify()`], not by a lookup. Opening touches a number
//! of bytes that does not depend on the number of entries.
//!
//! ```
//! use pinion_archive::*;
//! use pinion_http::content_coding::Coding;
//!
//! let mut writer = Writer::new(std::io::Cursor::new(Vec::new()))?;
//! let shared = writer.shared(&NewShared {
//!     role: Role::Ordinary,
//!     status: 200,
//!     content_type: Some("text/plain"),
//!     fields: &[("Cache-Control", "no-cache")],
//!     not_modified: &[("Cache-Control", "no-cache")],
//! })?;
//! let digest = Digest::of(b"Hello\n");
//! let body = writer.body(&digest, b"Hello\n")?;
//! let etag = ETag::of(&digest, b"text/plain", Coding::Identity);
//! writer.entry(&NewEntry {
//!     kind: EntryKind::Resource,
//!     status: 200,
//!     path: b"/hello.txt",
//!     target: b"",
//!     keeps_query: false,
//!     rules_first: false,
//!     has_variant: false,
//!     modified: Some(784_111_777),
//!     shared: None,
//!     representations: &[NewRepresentation { coding: Coding::Identity, shared, body, etag }],
//! })?;
//! let (_, out) = writer.finish(&[])?;
//! let bytes = out.into_inner();
//!
//! let layout = Layout::open(&bytes)?;
//! let archive = layout.view(&bytes);
//! let mut scratch = Scratch::new();
//! let entry = archive.find(b"/hello.txt", &mut scratch)?.ok_or("not found")?;
//! let form = entry.representation(0).ok_or("no content")?;
//! assert_eq!(archive.body(&form)?, Some(&b"Hello\n"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod archive;
mod body_digests;
mod body_writer;
mod byte_span;
mod code_section;
mod compare;
mod damage;
mod digest;
mod digest_index;
mod encoder_origins;
mod entry;
mod entry_iterator;
mod error_pages;
mod field_lines;
mod field_pattern;
mod field_rules;
mod header_page;
mod index_hash;
mod index_writer;
pub mod layout;
pub mod limits;
mod open;
mod path_pattern;
mod previous_assets;
mod record_writer;
mod rule;
mod rules;
mod section_output;
mod shared_block_encodings;
mod shared_block_writer;
mod shared_blocks;
mod tagged_text;
pub mod verify;
mod write_error;
mod writer;

pub use archive::{Archive, BodyLocation, Scratch};
pub use body_digests::BodyDigests;
pub use body_writer::{BodyRef, BodyRoom, External};
pub use code_section::CodeSection;
pub use compare::{Aspects, CompareError, Comparison, Pair, PathChange};
pub use damage::{ArchivePart, Damage, Fault, OpenError, SectionFault};
pub use digest::{Digest, ETag};
pub use digest_index::DigestIndex;
pub use encoder_origins::NewOrigin;
pub use entry::{Entry, EntryKind, Representation};
pub use entry_iterator::Entries;
pub use error_pages::ErrorPage;
pub use field_lines::is_written_by_server;
pub use field_pattern::{FieldPattern, PatternCaptures, PatternPart};
pub use field_rules::{
    FieldChange, FieldRule, FieldRules, NewFieldChange, NewFieldRule, ValuePart,
};
pub use header_page::SectionTable;
pub use layout::SectionKind;
pub use open::{Layout, Section};
pub use path_pattern::{SegmentPart, SegmentPattern, path_matches};
pub use previous_assets::PreviousAssets;
pub use rule::{NewRule, PathPart, QueryValue, Rule, TargetPart};
pub use rules::Rules;
pub use shared_block_writer::NewShared;
pub use shared_blocks::{Role, SharedBlock, SharedId};
pub use verify::{Report, verify};
pub use write_error::WriteError;
pub use writer::{NewEntry, NewRepresentation, Summary, Writer};
