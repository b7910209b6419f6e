//! The laws of a build with any archive of an earlier release.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use pinion_archive::{
    Archive, Damage, Digest, ETag, Entry, EntryKind, External, Layout, NewEntry, NewRepresentation,
    NewShared, Role, Scratch, SharedId, Writer, verify,
};
use pinion_builder::{BuildError, Earlier, Globs, Options, build_file_after};
use pinion_http::content_coding::Coding;

use crate::fuzz_edits::{correct_checksums, edit};

/// Flag in the first byte of an input: the checksums are corrected.
const SEALED: u8 = 1;
/// The bits above: the number of builds for which an asset is kept.
const KEEP_MAX: u8 = 3;
/// The bit above those: files that match [`GLOB`] are assets too.
const ALSO: u8 = 8;
/// A name of [`earlier`] without a fingerprint.
const GLOB: &str = "index.*";
/// Number of entries of [`earlier`] that are kept, by the number of builds.
const TAKEN: [u64; KEEP_MAX as usize + 1] = [0, 4, 4, 5];

/// A small site, and its entries after a build for each number of builds, with fingerprints only
/// and with [`GLOB`] in addition.
struct Site {
    folder: PathBuf,
    earlier: Vec<u8>,
    also: Globs,
    plain: BTreeMap<Vec<u8>, Response>,
    whole: Vec<[Vec<u8>; 2]>,
}

/// The data of an entry in an archive, except its position.
#[derive(Debug, PartialEq)]
struct Response {
    kind: EntryKind,
    status: u16,
    target: Option<Vec<u8>>,
    variant: bool,
    modified: Option<i64>,
    forms: Vec<Form>,
}

#[derive(Debug, PartialEq)]
struct Form {
    coding: Coding,
    etag: [u8; 22],
    fields: [Vec<u8>; 3],
    /// `None` if the body is missing in the archive, or its digest is wrong.
    body: Option<Vec<u8>>,
}

/// Checks a build. `data` is a byte of flags, then edits of the earlier archive.
pub(crate) fn check(data: &[u8]) {
    static SITE: OnceLock<Mutex<Site>> = OnceLock::new();
    let Some((&first, edits)) = data.split_first() else { return };
    let site = SITE.get_or_init(|| Mutex::new(Site::new()));
    let site = site.lock().unwrap_or_else(PoisonError::into_inner);
    let (sealed, keep, also) = (first & SEALED != 0, first >> 1 & KEEP_MAX, first & ALSO != 0);
    let mut bytes = edit(&site.earlier, edits);
    if sealed {
        correct_checksums(&mut bytes);
    }
    // An archive that is given to a build was opened before.
    let Ok(layout) = Layout::open(&bytes) else { return };
    let earlier = layout.view(&bytes);
    match site.build(&[earlier], keep, also) {
        Err(BuildError::Previous { .. }) => assert!(!site.folder.join("site.pinion").exists()),
        Err(error) => panic!("no fault of the earlier archive: {error}"),
        Ok((_, new)) => {
            let whole = &site.whole[usize::from(keep)][usize::from(also)];
            assert!(sealed || new == *whole, "damage was not seen");
            check_new(&site, &earlier, &new, keep.into());
        }
    }
}

/// Checks that the new archive is sound, that the site in it is that of a build without the earlier
/// one, and that its other entries are those of the earlier archive.
fn check_new(site: &Site, earlier: &Archive<'_>, new: &[u8], keep: u16) {
    let report = verify(new, &mut |_, _| {}).expect("an archive");
    assert!(report.is_sound(), "{:?}", report.damages);
    let layout = Layout::open(new).expect("an archive");
    let new = layout.view(new);
    let (ages, ages_before) = (new.previous().expect("sound"), earlier.previous().expect("read"));
    let mut responses = responses(&new);
    for (path, response) in &site.plain {
        assert_eq!(responses.remove(path).as_ref(), Some(response), "{}", path.escape_ascii());
        assert_eq!(ages.age(path), None, "{}", path.escape_ascii());
    }
    assert_eq!(responses.len(), ages.len());
    for (path, response) in responses {
        let before = ages_before.age(&path).unwrap_or(0);
        assert_eq!(ages.age(&path), Some(before + 1), "{}", path.escape_ascii());
        assert!(before < keep, "{}", path.escape_ascii());
        let mut scratch = Scratch::new();
        let entry = earlier.find(&path, &mut scratch).expect("read").expect("found");
        assert_eq!((response.kind, response.status), (EntryKind::Resource, 200));
        assert!(response.forms.iter().all(|form| form.body.is_some()));
        assert_eq!(response, self::response(earlier, &entry).expect("read"));
    }
    let generated = new.shared_for(Role::Generated).expect("written");
    assert!(generated.full.starts_with(b"Cache-Control: no-store\r\n"));
}

fn responses(archive: &Archive<'_>) -> BTreeMap<Vec<u8>, Response> {
    let mut responses = BTreeMap::new();
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().expect("sound") {
        let response = response(archive, &entry).expect("sound");
        assert_eq!(responses.insert(entry.path().to_vec(), response), None);
    }
    responses
}

fn response(archive: &Archive<'_>, entry: &Entry<'_>) -> Result<Response, Damage> {
    let digests = archive.digests()?;
    let mut forms = Vec::new();
    for form in entry.representations() {
        let block = archive.shared(form.shared())?;
        let fields = [block.media_type(), block.without_type(), block.not_modified];
        let digest = digests.of(archive, &form)?;
        let body = archive.body(&form)?.filter(|body| Some(Digest::of(body)) == digest);
        forms.push(Form {
            coding: form.coding(),
            etag: *form.etag(),
            fields: fields.map(<[u8]>::to_vec),
            body: body.map(<[u8]>::to_vec),
        });
    }
    Ok(Response {
        kind: entry.kind(),
        status: entry.status(),
        target: entry.target().map(<[u8]>::to_vec),
        variant: entry.has_variant(),
        modified: entry.modified(),
        forms,
    })
}

impl Site {
    fn new() -> Site {
        let name = format!("pinion-previous-law-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("files/assets")).expect("a folder");
        let rules = "/assets/forced.1a2b3c4d.js /gone 301!\n/assets/* host=x /gone 301!\n";
        for (name, content) in
            [("page.html", "a page"), ("assets/own.5e6f7a8b.css", "b{}"), ("_redirects", rules)]
        {
            fs::write(folder.join("files").join(name), content).expect("a file");
        }
        let earlier = earlier();
        let also = Globs::new(&[GLOB.to_owned()]).expect("a pattern");
        let (plain, whole) = (BTreeMap::new(), Vec::new());
        let mut site = Site { folder, earlier, also, plain, whole };
        let (_, plain) = site.build(&[], KEEP_MAX, true).expect("an archive");
        site.plain = responses(&Layout::open(&plain).expect("an archive").view(&plain));
        let layout = Layout::open(&site.earlier).expect("an archive");
        for (keep, taken) in (0..).zip(TAKEN) {
            let build = |also| site.build(&[layout.view(&site.earlier)], keep, also);
            let [alone, beside] = [false, true].map(|also| build(also).expect("an archive"));
            assert_eq!((alone.0, beside.0), (taken, taken + u64::from(keep > 0)));
            site.whole.push([alone.1, beside.1]);
        }
        site
    }

    /// Returns the number of kept assets, and the new archive.
    fn build(
        &self,
        earlier: &[Archive<'_>],
        keep: u8,
        also: bool,
    ) -> Result<(u64, Vec<u8>), BuildError> {
        let path = PathBuf::from("earlier.pinion");
        let archives: Vec<_> = earlier.iter().map(|&archive| (&*path, archive)).collect();
        let also = also.then_some(&self.also);
        let earlier = Earlier { archives: &archives, keep: keep.into(), also };
        let out = self.folder.join("site.pinion");
        let _ = fs::remove_file(&out);
        let threads = NonZeroUsize::new(1);
        let options =
            Options { reuse: false, source_date_epoch: Some(1), threads, ..Options::new(9) };
        let summary = build_file_after(earlier, &self.folder.join("files"), &options, &out, &())?;
        Ok((summary.previous_assets, fs::read(&out).expect("an archive")))
    }
}

/// Returns an archive with assets of every kind, and files that are none although their names
/// resemble them.
fn earlier() -> Vec<u8> {
    let mut w = Writer::new(Cursor::new(Vec::new())).expect("memory");
    let script = block(&mut w, "text/javascript", None);
    let packed = block(&mut w, "text/javascript", Some("gzip"));
    let sheet = block(&mut w, "text/css; charset=utf-8", None);
    let picture = block(&mut w, "image/png", None);
    let mut form = |coding, shared, content: &[u8]| {
        let digest = Digest::of(content);
        let body = w.body(&digest, content).expect("memory");
        NewRepresentation { coding, shared, body, etag: ETag::of(&digest, b"", coding) }
    };
    let plain = form(Coding::Identity, script, b"let a = 1;");
    let scripts = [plain, form(Coding::Gzip, packed, b"\x1f\x8bpacked")];
    let sheets = [form(Coding::Identity, sheet, b"a{color:red}")];
    let pictures = [form(Coding::Identity, picture, b"")];
    let outside = External { bytes: 9, modified_ns: 1 };
    let outside = w.external(outside).expect("one");
    let outside = [NewRepresentation { body: outside, ..plain }];
    let file = |path, representations| NewEntry {
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
    };
    let twin = NewEntry {
        kind: EntryKind::Redirect,
        status: 301,
        target: b"/twin",
        ..file(b"/assets/twin.9a8b7c6a.js", &[])
    };
    for entry in [
        file(b"/assets/app.3f2a9c1b.js", &scripts),
        file(b"/assets/one.44e5d67b.css", &sheets),
        NewEntry { modified: None, ..file(b"/assets/empty.0a1b2c3d.png", &pictures) },
        file(b"/assets/two.5a6b7c8d.css", &sheets),
        file(b"/assets/forced.1a2b3c4d.js", &scripts),
        file(b"/assets/own.5e6f7a8b.css", &sheets),
        file(b"/assets/outside.9a8b7c6d.js", &outside),
        file(b"/assets/twin.9a8b7c6b.js", &[plain]),
        twin,
        NewEntry { kind: EntryKind::Private, ..file(b"/assets/twin.9a8b7c6c.js", &[plain]) },
        file(b"/index.html", &sheets),
    ] {
        w.entry(&entry).expect("valid");
    }
    w.previous(b"/assets/two.5a6b7c8d.css", 2);
    w.finish(&[]).expect("memory").1.into_inner()
}

fn block(
    writer: &mut Writer<Cursor<Vec<u8>>>,
    content_type: &str,
    coding: Option<&str>,
) -> SharedId {
    let coding = coding.map(|coding| ("Content-Encoding", coding));
    let fields: Vec<_> = coding.into_iter().chain([("X-Release", "1")]).collect();
    let block = NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: Some(content_type),
        fields: &fields,
        not_modified: &[("X-Release", "1")],
    };
    writer.shared(&block).expect("valid")
}
