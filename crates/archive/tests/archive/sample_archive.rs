//! Sample archives with every kind of data, and functions that read an archive back into values
//! that tests compare.

use std::io::Cursor;

use pinion_archive::layout::{SINGLE_PAGE_KEY, VARIANT_PREFIX};
use pinion_archive::{
    Archive, BodyLocation, BodyRef, Damage, Digest, ETag, Entry, EntryKind, External, FieldPattern,
    FieldRule, Layout, NewEntry, NewFieldChange, NewFieldRule, NewRepresentation, NewRule,
    NewShared, PathPart, PatternPart, QueryValue, Representation, Role, Rule, Scratch, SharedId,
    TargetPart, ValuePart, Writer, verify,
};
use pinion_http::content_coding::Coding;

pub(crate) type MemoryWriter = Writer<Cursor<Vec<u8>>>;

pub(crate) fn writer() -> MemoryWriter {
    Writer::new(Cursor::new(Vec::new())).expect("writes to memory do not fail")
}

pub(crate) fn finish(writer: MemoryWriter) -> Vec<u8> {
    writer.finish(&[("tool", "test")]).expect("a well-formed archive").1.into_inner()
}

pub(crate) fn add_shared_block(writer: &mut MemoryWriter, media_type: &str) -> SharedId {
    let block = NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: Some(media_type),
        fields: &[("Cache-Control", "max-age=0, must-revalidate"), ("Vary", "Accept-Encoding")],
        not_modified: &[("Cache-Control", "max-age=0, must-revalidate")],
    };
    writer.shared(&block).expect("well-formed fields")
}

pub(crate) fn body(writer: &mut MemoryWriter, body: &[u8]) -> (Digest, BodyRef) {
    let digest = Digest::of(body);
    (digest, writer.body(&digest, body).expect("writes to memory do not fail"))
}

/// The media type for which [`representation`] computes entity tags. The tag of an error page is
/// checked with its media type when an archive is opened, so error pages need this type.
pub(crate) const TAGGED_TYPE: &str = "type";

pub(crate) fn representation(
    coding: Coding,
    shared: SharedId,
    body: (Digest, BodyRef),
) -> NewRepresentation {
    NewRepresentation {
        coding,
        shared,
        body: body.1,
        etag: ETag::of(&body.0, TAGGED_TYPE.as_bytes(), coding),
    }
}

pub(crate) fn resource<'a>(
    path: &'a [u8],
    representations: &'a [NewRepresentation],
) -> NewEntry<'a> {
    NewEntry {
        kind: EntryKind::Resource,
        status: 200,
        path,
        target: b"",
        keeps_query: false,
        rules_first: false,
        has_variant: false,
        modified: Some(1_700_000_000),
        shared: None,
        representations,
    }
}

/// The paths of [`site`] that have an entry.
pub(crate) const PATHS: [&[u8]; 9] = [
    b"/",
    b"/index.html",
    b"/style.css",
    b"/copy.css",
    b"/old",
    b"/app/x",
    b"/secret.priv.txt",
    b"/hook",
    b"/big.bin",
];

/// Returns an archive with every kind of entry, fallback pages and redirect rules.
pub(crate) fn site() -> Vec<u8> {
    let mut w = writer();
    let html = add_shared_block(&mut w, "text/html; charset=utf-8");
    let css = add_shared_block(&mut w, "text/css");
    let plain = |role, fields| NewShared {
        role,
        status: 308,
        content_type: None,
        fields,
        not_modified: &[],
    };
    w.shared(&plain(Role::Generated, &[("Cache-Control", "no-store")])).expect("well-formed");
    let moved = w.shared(&plain(Role::SlashRedirect, &[("X-Moved", "yes")])).expect("well-formed");
    let page = body(&mut w, b"<!doctype html><title>Home</title>");
    let packed = body(&mut w, b"\x1f\x8bpacked");
    let sheet = body(&mut w, b"body{margin:0}");
    let missing = body(&mut w, b"<!doctype html><title>Not here</title>");
    let external = External { bytes: 5_000_000_000, modified_ns: 1_700_000_000_123_456_789 };
    let external = (Digest([7; 32]), w.external(external).expect("few of them"));

    let home =
        [representation(Coding::Identity, html, page), representation(Coding::Gzip, html, packed)];
    let sheet = [representation(Coding::Identity, css, sheet)];
    let missing = [representation(Coding::Identity, html, missing)];
    let big = [representation(Coding::Identity, css, external)];
    let mut add = |entry: NewEntry<'_>| w.entry(&entry).expect("a valid entry");
    add(NewEntry { target: b"/index.html", ..resource(b"/", &home) });
    add(resource(b"/index.html", &home));
    let style = resource(b"/style.css", &sheet);
    add(NewEntry { modified: None, has_variant: true, ..style });
    add(NewEntry { rules_first: true, ..resource(b"/copy.css", &sheet) });
    let other =
        |kind, status, path, target| NewEntry { kind, status, target, ..resource(path, &[]) };
    let redirect = other(EntryKind::Redirect, 301, b"/old", b"/new?a=b");
    add(NewEntry { keeps_query: true, shared: Some(moved), ..redirect });
    add(other(EntryKind::Rewrite, 200, b"/app/x", b"/index.html"));
    add(NewEntry { kind: EntryKind::Private, ..resource(b"/secret.priv.txt", &sheet) });
    add(other(EntryKind::Handler, 200, b"/hook", b"hook.lua"));
    add(resource(b"/big.bin", &big));
    w.fallback(&NewEntry { status: 404, ..resource(b"/", &missing) }).expect("valid");
    w.fallback(&NewEntry { status: 404, ..resource(b"/docs/", &missing) }).expect("valid");
    w.fallback(&resource(b"/tiles/", &missing)).expect("valid");
    w.variant(&resource(b"/style.css", &sheet)).expect("valid");
    w.single_page(&resource(b"", &home)).expect("valid");
    for rule in RULES {
        w.rule(rule).expect("valid");
    }
    finish(w)
}

/// The code of [`site_with_code_and_field_rules`].
pub(crate) const CODE: [(&str, &str); 3] =
    [("//lib/db.lua", "return {}\n"), ("//main.lua", "x = 1\n"), ("/a.dyn.html", "")];

/// Returns an archive with the data that [`site`] does not have: error pages, assets of earlier
/// releases, code and field rules.
pub(crate) fn site_with_code_and_field_rules() -> Vec<u8> {
    let mut w = writer();
    let plain = add_shared_block(&mut w, TAGGED_TYPE);
    let packed = body(&mut w, b"\x1f\x8bpacked");
    for (status, content) in [(400, &b"four"[..]), (503, b"a page of 503"), (599, b"")] {
        let content = body(&mut w, content);
        let representations = [
            representation(Coding::Identity, plain, content),
            representation(Coding::Gzip, plain, packed),
        ];
        w.error_page(&NewEntry { status, ..resource(b"", &representations) }).expect("valid");
    }
    let asset = body(&mut w, b"body{margin:0}");
    let asset = [representation(Coding::Identity, plain, asset)];
    for (path, age) in [(&b"/app.1a2b3c4d.css"[..], 1), (b"/app.5e6f7a8b.css", 300)] {
        w.entry(&resource(path, &asset)).expect("valid");
        w.previous(path, age);
    }
    w.entry(&resource(b"/app.9c0d1e2f.css", &asset)).expect("valid");
    for (path, content) in CODE {
        w.code(path.as_bytes(), content.as_bytes()).expect("valid");
    }
    add_field_rules(&mut w);
    finish(w)
}

/// Adds a field rule with all possible parts, and one for every path.
fn add_field_rules(w: &mut MemoryWriter) {
    let parts = [
        PatternPart::Literal(b"/tiles/"),
        PatternPart::Capture,
        PatternPart::Literal(b"."),
        PatternPart::Star,
        PatternPart::Stars,
    ];
    let value = [ValuePart::Literal(b"</"), ValuePart::Capture(1), ValuePart::Capture(0)];
    let link = NewFieldChange { name: b"Link", value: Some(&value) };
    let no_frames = NewFieldChange { name: b"X-Frame-Options", value: None };
    for (parts, changes) in
        [(&parts[..], &[link, no_frames][..]), (&[PatternPart::Stars], &[no_frames])]
    {
        let encoded = FieldPattern::encode(parts).expect("a pattern");
        let pattern = FieldPattern::of(&encoded);
        w.field_rule(&NewFieldRule { pattern, changes }).expect("valid");
    }
    let block = NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: None,
        fields: &[],
        not_modified: &[],
    };
    let plain = w.shared(&block).expect("well-formed");
    let changed = NewShared { fields: &[("X-A", "1")], ..block };
    w.shared_by_rules(&changed, plain).expect("well-formed");
}

/// Describes the field rules of an archive, and for each shared block the block from which field
/// rules have made it.
pub(crate) fn field_rules_of(archive: &Archive<'_>) -> Vec<String> {
    let describe = |rule: FieldRule<'_>| {
        let parts: Vec<_> = rule.pattern().parts().collect();
        let change = |change: pinion_archive::FieldChange<'_>| {
            let value = change.value().map(Iterator::collect::<Vec<_>>);
            format!("{} {value:?}", change.name().escape_ascii())
        };
        format!("{parts:?} {:?}", rule.changes().map(change).collect::<Vec<_>>())
    };
    let mut blocks = (0..).map_while(|id| archive.shared(SharedId(id)).ok());
    let plain = format!("{:?}", blocks.by_ref().map(|block| block.plain).collect::<Vec<_>>());
    archive.field_rules().iter().map(describe).chain([plain]).collect()
}

/// Returns the fields and the body of the error page of a status.
pub(crate) fn error_page_of(archive: &Archive<'_>, status: u16) -> Option<(Vec<u8>, Vec<u8>)> {
    archive.error_page(status).map(|page| (page.shared.full.to_vec(), page.body.to_vec()))
}

/// Returns the paths and ages of the assets of earlier releases.
pub(crate) fn previous_of(archive: &Archive<'_>) -> Result<Vec<(Vec<u8>, u16)>, Damage> {
    Ok(archive.previous()?.iter().map(|(path, age)| (path.to_vec(), age)).collect())
}

/// The path and the content of a file of code.
pub(crate) type CodeFile = (Vec<u8>, Vec<u8>);

/// Returns all files of code.
pub(crate) fn code_of(archive: &Archive<'_>) -> Result<Vec<CodeFile>, Damage> {
    let code = archive.code()?;
    Ok(code.iter().map(|(path, content)| (path.to_vec(), content.to_vec())).collect())
}

/// The redirect rules of [`site`]: one with patterns, which is tried in order, and one with a fixed
/// path, which is found by its path.
pub(crate) const RULES: &[NewRule<'static>] = &[
    NewRule {
        force: true,
        host: Some(b"*.example.org"),
        path: &[PathPart::Literal(b"blog"), PathPart::Capture, PathPart::Rest { prefix: b"p" }],
        query: &[(b"k", QueryValue::Is(b"v")), (b"id", QueryValue::Capture)],
        target: &[TargetPart::Literal(b"https://example.com/"), TargetPart::Capture(2)],
        keeps_query: true,
        ..NewRule::EMPTY
    },
    NewRule {
        status: 410,
        path: &[PathPart::Literal(b"gone")],
        target: &[TargetPart::Literal(b"/index.html")],
        ..NewRule::EMPTY
    },
];

/// Describes the redirect rules of an archive.
pub(crate) fn rules_of(archive: &Archive<'_>) -> Vec<String> {
    let describe = |rule: Rule<'_>| {
        let flags = (rule.number(), rule.status(), rule.is_forced(), rule.keeps_query());
        let path: Vec<_> = rule.path().collect();
        let query: Vec<_> = rule.query().collect();
        let target: Vec<_> = rule.target().collect();
        format!("{flags:?} {:?} {path:?} {query:?} {target:?}", rule.host())
    };
    archive.rules().iter().map(describe).collect()
}

/// The result of a lookup in an archive, without borrowed data.
pub(crate) type LookupResult = Result<Option<DescribedEntry>, Damage>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescribedEntry {
    pub(crate) kind: EntryKind,
    pub(crate) status: u16,
    pub(crate) path: Vec<u8>,
    pub(crate) target: Option<Vec<u8>>,
    pub(crate) keeps_query: bool,
    pub(crate) modified: Option<i64>,
    pub(crate) shared: Option<Vec<u8>>,
    pub(crate) representations: Vec<DescribedRepresentation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescribedRepresentation {
    pub(crate) coding: Coding,
    pub(crate) etag: [u8; 22],
    pub(crate) fields: Vec<u8>,
    pub(crate) location: BodyLocation,
}

pub(crate) fn look_up(archive: &Archive<'_>, key: &[u8]) -> LookupResult {
    let mut scratch = Scratch::new();
    match archive.find(key, &mut scratch)? {
        Some(entry) => describe(archive, &entry).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn look_up_fallback(archive: &Archive<'_>, path: &[u8]) -> LookupResult {
    let mut scratch = Scratch::new();
    archive.load_fallback(path, &mut scratch)?;
    scratch.entry().map(|entry| describe(archive, &entry)).transpose()
}

pub(crate) fn describe(archive: &Archive<'_>, entry: &Entry<'_>) -> Result<DescribedEntry, Damage> {
    let fields =
        |id| archive.shared(id).map(|block| [block.full, b"|", block.not_modified].concat());
    let representation = |representation: Representation<'_>| {
        Ok(DescribedRepresentation {
            coding: representation.coding(),
            etag: *representation.etag(),
            fields: fields(representation.shared())?,
            location: archive.body_location(&representation)?,
        })
    };
    Ok(DescribedEntry {
        kind: entry.kind(),
        status: entry.status(),
        path: entry.path().to_vec(),
        target: entry.target().map(<[u8]>::to_vec),
        keeps_query: entry.keeps_query(),
        modified: entry.modified(),
        shared: entry.shared().map(fields).transpose()?,
        representations: entry.representations().map(representation).collect::<Result<_, _>>()?,
    })
}

/// Looks up every path of an archive of [`site`], a path without an entry, paths that get a
/// fallback page, a variant and the single page.
pub(crate) fn describe_site(archive: &Archive<'_>) -> Vec<LookupResult> {
    let mut results: Vec<LookupResult> = PATHS.iter().map(|path| look_up(archive, path)).collect();
    results.push(look_up(archive, b"/nothing"));
    results.push(look_up_fallback(archive, b"/nothing"));
    results.push(look_up_fallback(archive, b"/docs/nothing/at/all"));
    results.push(look_up_fallback(archive, b"/tiles/1/2.png"));
    results.push(look_up(archive, &[VARIANT_PREFIX, b"/style.css"].concat()));
    results.push(look_up(archive, SINGLE_PAGE_KEY));
    results
}

pub(crate) fn describe_site_in(layout: &Layout, bytes: &[u8]) -> Vec<LookupResult> {
    describe_site(&layout.view(bytes))
}

/// Returns whether `verify` finds no damage.
pub(crate) fn is_sound(bytes: &[u8]) -> bool {
    verify(bytes, &mut |_, _| {}).expect("opens").is_sound()
}
