//! The `.pinion` archive format: a site as one immutable file.
//!
//! **In:** the bytes of an archive (a mapping, a buffer), or a sink to write one to.
//! **Out:** plain values: entries, shared field blocks, places of bodies; a file.
//! Nothing here opens a file, reads a clock or logs.
//!
//! | Module | Holds |
//! |---|---|
//! | [`layout`] | the byte tables: every structure of the file, its sizes proven at compile time |
//! | [`limits`] | every bound of the format, with its reason |
//! | `open` | bytes → [`Layout`]: header, section table, bounds, shared blocks, rules, pages |
//! | `archive` | [`Archive`]: path → entry, entry → body; each look-up checks the parts it reads |
//! | `entry` | [`Entry`], [`Representation`]: one checked copy of a record |
//! | `rules`, `rule` | [`Rules`], [`Rule`]: redirects and rewrites by pattern, and [`NewRule`] |
//! | `parts` | the pieces that rules are stored in: tags, and texts with their lengths |
//! | `field_rules`, `field_pattern` | [`FieldRules`]: changes of response fields by pattern |
//! | `path_pattern` | which paths a rule is about, and the captures of its placeholders |
//! | `shared`, `lines`, `rendered` | [`SharedBlock`]: fields many representations have in common |
//! | `index`, `span` | arithmetic of reader and writer alike: path → bucket, ranges of the file |
//! | `error_pages` | [`ErrorPage`]: a site's pages in place of built-in ones |
//! | `entries` | every entry in file order, for listings |
//! | `compare` | [`Comparison`]: the differences of two archives, path by path |
//! | `digests` | [`Digests`]: which content a stored body has |
//! | [`mod@verify`] | every hash of the file checked, damage named |
//! | `writer` | [`Writer`]: bodies stream out, records follow, the header comes last |
//! | `bodies`, `records` | its parts that stream: where bodies are, which keys there are |
//! | `blocks`, `table`, `sink` | the others: shared blocks, the index, the output |
//! | `write_error` | the errors of writing an archive |
//! | `by_digest` | [`ByDigest`]: bodies found by their digests |
//! | `previous` | [`Previous`]: the assets that earlier releases have left, and their age |
//! | `code` | [`Code`]: scripts, templates and the files they include: run and never sent |
//! | `origins` | the encoder of a stored body: a later build may reuse it |
//! | `outline` | [`Outline`]: the section table, of a file that is not mapped |
//! | `digest` | content identity: [`Digest`] and [`ETag`] |
//! | `damage` | the damage of a file: [`OpenError`], [`Damage`] |
//!
//! `docs/archive-format.md` says the same for readers in any language; a test compares the two.
//!
//! **Promises.** No input makes this crate panic. A file that was truncated or damaged by accident
//! gives the same responses as before or an error that names the damage, never another resource's
//! bytes; damage inside a body is found by [`verify()`], not by a look-up. Opening touches a number
//! of bytes that does not depend on the number of entries.
//!
//! ```
//! use pinion_archive::*;
//! use pinion_http::coding::Coding;
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
mod blocks;
mod bodies;
mod by_digest;
mod code;
mod compare;
mod damage;
mod digest;
mod digests;
mod entries;
mod entry;
mod error_pages;
mod field_pattern;
mod field_rules;
mod index;
pub mod layout;
pub mod limits;
mod lines;
mod open;
mod origins;
mod outline;
mod parts;
mod path_pattern;
mod previous;
mod records;
mod rendered;
mod rule;
mod rules;
mod shared;
mod sink;
mod span;
mod table;
pub mod verify;
mod write_error;
mod writer;

pub use archive::{Archive, BodyLocation, Scratch};
pub use blocks::NewShared;
pub use bodies::{BodyRef, BodyRoom, External};
pub use by_digest::ByDigest;
pub use code::Code;
pub use compare::{Aspects, CompareError, Comparison, Pair, PathChange};
pub use damage::{ArchivePart, Damage, Fault, OpenError, SectionFault};
pub use digest::{Digest, ETag};
pub use digests::Digests;
pub use entries::Entries;
pub use entry::{Entry, EntryKind, Representation};
pub use error_pages::ErrorPage;
pub use field_pattern::{FieldPattern, PatternCaptures, PatternPart};
pub use field_rules::{
    FieldChange, FieldRule, FieldRules, NewFieldChange, NewFieldRule, ValuePart,
};
pub use layout::SectionKind;
pub use lines::is_written_by_server;
pub use open::{Layout, Section};
pub use origins::NewOrigin;
pub use outline::Outline;
pub use path_pattern::{SegmentPart, SegmentPattern, path_matches};
pub use previous::Previous;
pub use rule::{NewRule, PathPart, QueryValue, Rule, TargetPart};
pub use rules::Rules;
pub use shared::{Role, SharedBlock, SharedId};
pub use verify::{Report, verify};
pub use write_error::WriteError;
pub use writer::{NewEntry, NewRepresentation, Summary, Writer};
