//! A small site, and a client for it.

use std::io::Cursor;

use pinion_archive::{
    Archive, BodyRef, Digest, ETag, EntryKind, External, FieldPattern, Layout, NewEntry,
    NewFieldChange, NewFieldRule, NewRepresentation, NewRule, NewShared, PatternPart, Role,
    SharedId, ValuePart, Writer,
};
use pinion_http::content_coding::Coding;
use pinion_http::date::UnixSeconds;
use pinion_http::error_page;
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::limits::Limits;
use pinion_http::prepared_response::{Piece, PreparedBody};
use pinion_site::{Pieces, RequestBuffers, respond};

use crate::compressed_fields_law::check_response;
use crate::lookup_trace::check_trace;

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub(crate) const MODIFIED: UnixSeconds = 784_111_777;

/// A day later: the time of every request.
pub(crate) const NOW: UnixSeconds = MODIFIED + 86_400;

pub(crate) const HOME: &[u8] = b"<!doctype html><title>Home</title>";
pub(crate) const HOME_GZIP: &[u8] = b"gzip bytes of home";
pub(crate) const HOME_BR: &[u8] = b"br bytes";
pub(crate) const TEXT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
pub(crate) const NOT_FOUND: &[u8] = b"<!doctype html><title>Nothing here</title>";
pub(crate) const DOCS_NOT_FOUND: &[u8] = b"<!doctype html><title>No such chapter</title>";
pub(crate) const EXTERNAL_BYTES: u64 = 5_000_000_000;

/// The archive that a test makes.
pub(crate) struct Maker {
    writer: Writer<Cursor<Vec<u8>>>,
}

impl Maker {
    pub(crate) fn new() -> Maker {
        Maker { writer: Writer::new(Cursor::new(Vec::new())).expect("memory") }
    }

    pub(crate) fn shared(&mut self, role: Role, status: u16, media_type: &str) -> SharedId {
        let cache: &[(&str, &str)] = match role {
            Role::Generated => &[("Cache-Control", "no-store"), ("X-Generated", "yes")],
            Role::SlashRedirect => &[("Cache-Control", "max-age=60"), ("X-Slash", "yes")],
            Role::Ordinary => &[("Cache-Control", "max-age=0"), ("Vary", "Accept-Encoding")],
        };
        let content_type = Some(media_type).filter(|media_type| !media_type.is_empty());
        let block = NewShared { role, status, content_type, fields: cache, not_modified: cache };
        self.writer.shared(&block).expect("well-formed")
    }

    /// Returns a block of these fields alone.
    pub(crate) fn shared_with(
        &mut self,
        status: u16,
        media_type: &str,
        fields: &[(&str, &str)],
    ) -> SharedId {
        let (role, content_type) = (Role::Ordinary, Some(media_type));
        let block = NewShared { role, status, content_type, fields, not_modified: &[] };
        self.writer.shared(&block).expect("well-formed")
    }

    /// Returns a block like that of [`shared`](Self::shared) that also names the coding.
    pub(crate) fn coded(&mut self, coding: Coding) -> SharedId {
        let fields = &[
            ("Content-Encoding", coding.token()),
            ("Cache-Control", "max-age=0"),
            ("Vary", "Accept-Encoding"),
        ];
        let block = NewShared {
            role: Role::Ordinary,
            status: 200,
            content_type: Some("text/html"),
            fields,
            not_modified: &fields[1..],
        };
        self.writer.shared(&block).expect("well-formed")
    }

    pub(crate) fn form(
        &mut self,
        coding: Coding,
        shared: SharedId,
        content: &[u8],
    ) -> NewRepresentation {
        let digest = Digest::of(content);
        let body = self.writer.body(&digest, content).expect("memory");
        Maker::form_of(coding, shared, digest, body)
    }

    fn form_of(
        coding: Coding,
        shared: SharedId,
        digest: Digest,
        body: BodyRef,
    ) -> NewRepresentation {
        NewRepresentation { coding, shared, body, etag: ETag::of(&digest, b"type", coding) }
    }

    pub(crate) fn external(&mut self, shared: SharedId) -> NewRepresentation {
        let external = External { bytes: EXTERNAL_BYTES, modified_ns: 77 };
        let body = self.writer.external(external).expect("few of them");
        Maker::form_of(Coding::Identity, shared, Digest([7; 32]), body)
    }

    pub(crate) fn entry(&mut self, entry: &NewEntry<'_>) {
        self.writer.entry(entry).expect("a valid entry");
    }

    pub(crate) fn fallback(&mut self, entry: &NewEntry<'_>) {
        self.writer.fallback(entry).expect("a valid entry");
    }

    pub(crate) fn single_page(&mut self, entry: &NewEntry<'_>) {
        self.writer.single_page(entry).expect("a valid entry");
    }

    pub(crate) fn error_page(&mut self, entry: &NewEntry<'_>) {
        self.writer.error_page(entry).expect("a valid entry");
    }

    pub(crate) fn variant(&mut self, entry: &NewEntry<'_>) {
        self.writer.variant(entry).expect("a valid entry");
    }

    pub(crate) fn rule(&mut self, rule: &NewRule<'_>) {
        self.writer.rule(rule).expect("a valid rule");
    }

    /// Adds a rule for fields: `/*` if the pattern is empty, else a folder and all below it.
    pub(crate) fn field_rule(&mut self, folder: &str, name: &str, value: Option<&str>) {
        let mut parts = vec![PatternPart::Stars];
        if !folder.is_empty() {
            parts.insert(0, PatternPart::Literal(folder.as_bytes()));
        }
        let encoded = FieldPattern::encode(&parts).expect("a pattern");
        let pattern = FieldPattern::of(&encoded);
        let literal = value.map(|value| [ValuePart::Literal(value.as_bytes())]);
        let value = literal.as_ref().map(|parts| &parts[..]);
        let changes = [NewFieldChange { name: name.as_bytes(), value }];
        self.writer.field_rule(&NewFieldRule { pattern, changes: &changes }).expect("valid");
    }

    pub(crate) fn without_slash_redirects(&mut self) {
        self.writer.without_slash_redirects();
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.writer.finish(&[]).expect("well-formed").1.into_inner()
    }
}

pub(crate) fn resource<'a>(path: &'a str, forms: &'a [NewRepresentation]) -> NewEntry<'a> {
    NewEntry {
        kind: EntryKind::Resource,
        status: 200,
        path: path.as_bytes(),
        target: b"",
        keeps_query: false,
        rules_first: false,
        has_variant: false,
        modified: Some(MODIFIED),
        shared: None,
        representations: forms,
    }
}

/// Returns an archive with an entry of each kind.
pub(crate) fn archive() -> Vec<u8> {
    let mut m = Maker::new();
    m.shared(Role::Generated, 0, "");
    m.shared(Role::SlashRedirect, 308, "");
    let html = m.shared(Role::Ordinary, 200, "text/html");
    let plain = m.shared(Role::Ordinary, 200, "text/plain");
    let (gzip, br) = (m.coded(Coding::Gzip), m.coded(Coding::Brotli));
    let missing = m.shared(Role::Ordinary, 404, "text/html");
    let home = [
        m.form(Coding::Identity, html, HOME),
        m.form(Coding::Gzip, gzip, HOME_GZIP),
        m.form(Coding::Brotli, br, HOME_BR),
    ];
    let text = [m.form(Coding::Identity, plain, TEXT)];
    let empty = [m.form(Coding::Identity, plain, b"")];
    let moved = [m.form(Coding::Identity, html, b"moved")];
    let large = [m.external(plain)];
    m.entry(&NewEntry { target: b"/index.html", ..resource("/", &home) });
    m.entry(&resource("/index.html", &home));
    m.entry(&resource("/text.txt", &text));
    m.entry(&NewEntry { modified: None, ..resource("/undated", &text) });
    m.entry(&NewEntry { modified: Some(NOW + 10), ..resource("/future", &text) });
    m.entry(&resource("/empty", &empty));
    m.entry(&resource("/docs/", &text));
    m.entry(&resource("/a b/ü", &text));
    m.entry(&resource("/large", &large));
    let other = |kind, path, target| NewEntry { kind, target, ..resource(path, &[]) };
    let redirect = |status, path, target| NewEntry {
        status,
        keeps_query: true,
        shared: Some(html),
        ..other(EntryKind::Redirect, path, target)
    };
    m.entry(&redirect(301, "/old", b"/new"));
    m.entry(&redirect(302, "/search", b"https://example.org/?a=1#top"));
    m.entry(&NewEntry { keeps_query: false, ..redirect(303, "/fixed", b"/new") });
    m.entry(&NewEntry { representations: &moved, ..redirect(307, "/body", b"/new") });
    m.entry(&other(EntryKind::Rewrite, "/app", b"/index.html"));
    m.entry(&other(EntryKind::Rewrite, "/loop", b"/loop"));
    m.entry(&other(EntryKind::Rewrite, "/nowhere", b"/missing"));
    m.entry(&NewEntry { kind: EntryKind::Private, ..resource("/secret", &text) });
    m.entry(&NewEntry { kind: EntryKind::Private, ..resource("/hidden/", &text) });
    m.entry(&other(EntryKind::Handler, "/hook", b"hook.lua"));
    m.entry(&other(EntryKind::Unknown(99), "/novel", b""));
    let page = [m.form(Coding::Identity, missing, NOT_FOUND)];
    let chapter = [
        m.form(Coding::Identity, missing, DOCS_NOT_FOUND),
        m.form(Coding::Gzip, gzip, b"gzip of it"),
    ];
    m.fallback(&NewEntry { status: 404, ..resource("/", &page) });
    m.fallback(&NewEntry { status: 404, ..resource("/docs/", &chapter) });
    m.finish()
}

/// A response as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Ranges of external files, as (file, offset, bytes); they are not in `body`.
    pub(crate) external: Vec<(u32, u64, u64)>,
    pub(crate) damaged: bool,
}

impl Response {
    /// Returns the value of a field that comes at most once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value)
        });
        let first = values.next();
        assert_eq!(values.next(), None, "{name} twice in\n{}", self.head);
        first
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.field("Content-Length").map(|value| value.parse().expect("a number"))
    }
}

/// Sends an archive a request with a request line and fields, without the blank line.
pub(crate) fn ask_archive(bytes: &[u8], request: &str) -> Response {
    let layout = Layout::open(bytes).expect("opens");
    ask_opened(&layout, bytes, request)
}

/// Sends a request to the site of [`archive`].
pub(crate) fn ask(request: &str) -> Response {
    ask_archive(&archive(), request)
}

/// Sends a GET of a path without any fields.
pub(crate) fn get(path: &str) -> Response {
    ask(&format!("GET {path} HTTP/1.1"))
}

/// Sends a GET of a path with one field line.
pub(crate) fn get_with(path: &str, field: &str) -> Response {
    ask(&format!("GET {path} HTTP/1.1\r\n{field}"))
}

pub(crate) fn ask_opened(layout: &Layout, bytes: &[u8], request: &str) -> Response {
    ask_host(layout, bytes, request, "example.org")
}

/// Returns whether an archive has these field lines unchanged. An error that gets the content of a
/// page by a rule has other field lines than the page.
fn is_brought(archive: &Archive<'_>, lines: &[u8]) -> bool {
    let mut blocks = (0..).map_while(|id| archive.shared(SharedId(id)).ok());
    blocks.any(|block| [block.full, block.without_type(), block.not_modified].contains(&lines))
}

/// Returns whether field lines are those of an error that has the content of a page
/// (docs/rules.md).
fn is_of_error(lines: &[u8]) -> bool {
    let lines = std::str::from_utf8(lines).expect("UTF-8").to_ascii_lowercase();
    let of = |name: &str| lines.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    of("cache-control:") == ["cache-control: no-store"]
        && ["expires:", "accept-ranges:"].iter().all(|name| of(name).is_empty())
}

/// Returns whether field lines are those of an error that caches may store (docs/resolution.md).
fn varies_by_accept(lines: &[u8]) -> bool {
    let lines = std::str::from_utf8(lines).expect("UTF-8");
    let mut values = lines.lines().filter_map(|line| line.strip_prefix("Vary: "));
    values.any(|value| value.split(", ").any(|member| member == "Accept"))
}

pub(crate) fn ask_host(layout: &Layout, bytes: &[u8], request: &str, host: &str) -> Response {
    let input = format!("{request}\r\nHost: {host}\r\n\r\n").into_bytes();
    let mut storage = HeadStorage::new();
    let parsed = head_parser::parse(&input, 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("{request}: {parsed:?}") };
    let mut work = RequestBuffers::new();
    let mut response = {
        let mut pieces = Pieces::new();
        let archive = layout.view(bytes);
        let prepared = respond(&archive, &head, NOW, &mut work, &mut pieces);
        let mut out = Vec::new();
        response_encoder::prepared(&mut out, &prepared, ConnectionFields::Stay, b"\r\n");
        check_response(&prepared);
        check_trace(&archive, &head, &prepared);
        let h1 = prepared.shared.h1;
        let has_field_rules = !archive.field_rules().is_empty();
        let made = (prepared.status >= 400 || has_field_rules) && !is_brought(&archive, h1);
        let is_error = is_of_error(h1) || varies_by_accept(h1);
        assert!(!made || has_field_rules || is_error, "{}", h1.escape_ascii());
        let cold = h1.is_empty() || h1 == error_page::BUILT_IN_FIELDS || made;
        let forms = [prepared.shared.hpack, prepared.shared.qpack].map(<[u8]>::is_empty);
        assert_eq!(forms, [cold; 2], "what the archive brings is rendered when it is opened");
        let mut response = Response {
            status: prepared.status,
            head: String::from_utf8(out).expect("a head in UTF-8"),
            body: Vec::new(),
            external: Vec::new(),
            damaged: false,
        };
        read_body(bytes, &prepared.body, &mut response);
        let sent = response.body.len() as u64
            + response.external.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
        let length = prepared.content_length;
        assert_eq!(length.unwrap_or(0), sent, "Content-Length of\n{}", response.head);
        assert_eq!(length.is_none(), matches!(prepared.status, 204 | 304), "{}", response.head);
        response
    };
    response.damaged = work.damage().is_some();
    response
}

fn read_body(archive: &[u8], body: &PreparedBody<'_>, response: &mut Response) {
    match body {
        PreparedBody::None => {}
        PreparedBody::Bytes(bytes) => response.body.extend_from_slice(bytes),
        PreparedBody::Archive(pieces) => {
            for piece in *pieces {
                assert!(piece.bytes() > 0, "no piece is empty");
                match piece {
                    Piece::Bytes(bytes) => response.body.extend_from_slice(bytes),
                    Piece::Archive(range) => {
                        let (start, bytes) = (range.offset as usize, range.bytes as usize);
                        response.body.extend_from_slice(&archive[start..start + bytes]);
                    }
                    Piece::External(range) => {
                        assert_eq!((range.size, range.modified_ns), (EXTERNAL_BYTES, 77));
                        response.external.push((range.file, range.offset, range.bytes));
                    }
                }
            }
        }
    }
}
