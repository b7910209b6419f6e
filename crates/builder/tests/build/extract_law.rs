//! The laws of a folder that is extracted from any archive. The fuzz target `extract` checks them.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use pinion_archive::{
    Archive, Digest, ETag, EntryKind, Layout, NewEntry, NewRepresentation, NewRule, NewShared,
    PathPart, Role, TargetPart, Writer,
};
use pinion_builder::{ExtractError, ExtractOptions, Extracted, extract};
use pinion_http::content_coding::Coding;

use crate::fuzz_edits::{correct_checksums, edit};

/// Flag in the first byte of an input: the checksums are corrected.
const SEALED: u8 = 1;
/// Flag: the extraction continues after files that cannot be written.
const KEEPS_GOING: u8 = 2;
/// Flag: the target folder is not empty.
const FORCED: u8 = 4;
/// Flag: the rest is the archive; otherwise it is edits of [`sample`].
const WHOLE: u8 = 8;
/// A file outside the folder, and its content.
const SECRET: (&str, &str) = ("outside/secret", "nobody writes here");
/// A file that the target folder has before; no file of an archive has this name.
const MINE: (&str, &str) = ("out/mine", "this stays");

/// Keys with different contents. In a forced extraction, links are at the paths of their files.
const KEYS: [&[u8]; 9] = [
    b"/aa/b.txt",
    b"/aa/c/d.html",
    b"/e",
    b"/index.html",
    b"/link/x.txt",
    b"/page.html",
    b"/sub/deep/x.css",
    b"404:/aa/",
    b"file:/_headers",
];

/// Checks an extraction. `data` is a byte of flags, then edits of the archive, or the archive.
/// Returns whether a folder was made.
pub(crate) fn check(data: &[u8]) -> bool {
    static PLACE: OnceLock<(Mutex<PathBuf>, Vec<u8>)> = OnceLock::new();
    let Some((&how, rest)) = data.split_first() else { return false };
    let (root, sample) = PLACE.get_or_init(|| (Mutex::new(place()), sample()));
    let root = root.lock().unwrap_or_else(PoisonError::into_inner);
    let mut bytes = if how & WHOLE != 0 { rest.to_vec() } else { edit(sample, rest) };
    if how & SEALED != 0 {
        correct_checksums(&mut bytes);
    }
    let Ok(layout) = Layout::open(&bytes) else { return false };
    let forced = how & FORCED != 0;
    prepare(&root, forced);
    let options = ExtractOptions { force: forced, keep_going: how & KEEPS_GOING != 0 };
    let archive = layout.view(&bytes);
    let done = extract(&archive, &root.join("out"), options, &());
    is_untouched(&root, forced);
    match &done {
        Ok(done) if !forced => check_files(&archive, &root.join("out"), done),
        Ok(_) => {}
        Err(error) => check_error(error, &root, forced),
    }
    done.is_ok()
}

fn check_error(error: &ExtractError, root: &Path, forced: bool) {
    assert!(!error.to_string().is_empty());
    assert!(forced || !root.join("out").exists(), "{error}: not whole, and there");
    if let ExtractError::Refused(refused) = error {
        assert!(!refused.is_empty() && refused.iter().all(|one| !one.to_string().contains('\n')));
    }
}

/// Checks that the number and length of the files agree with the report, and that each file is a
/// content of the archive.
fn check_files(archive: &Archive<'_>, out: &Path, done: &Extracted) {
    let (files, contents) = (files(out), contents(archive));
    let count = done.files + done.rules_files + done.code;
    assert_eq!(files.len() as u64, count, "{done:?}");
    let mut bytes = 0;
    for file in &files {
        let content = fs::read(file).expect("a file");
        let below = file.strip_prefix(out).expect("below it").as_os_str().as_encoded_bytes();
        let is_made = below == b"_redirects" && done.redirects > 0
            || below == b"_headers" && !contents.iter().any(|(key, _)| key == b"file:/_headers");
        if is_made {
            continue;
        }
        bytes += content.len() as u64;
        let of_key = contents.iter().filter(|(key, _)| *key == [b"/", below].concat());
        let mut of_key = of_key.map(|(_, body)| body).peekable();
        // Fallback pages and rules have other keys.
        let is_match = of_key.peek().is_none() || of_key.any(|body| *body == content);
        assert!(is_match, "{}: not what the archive says", file.display());
    }
    assert_eq!(bytes, done.bytes, "{done:?}");
}

/// Returns every key that has a content, with the content.
fn contents(archive: &Archive<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut contents = Vec::new();
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().expect("it was read") {
        let form = entry.representation(0);
        if let Some(Ok(Some(body))) = form.map(|form| archive.body(&form)) {
            contents.push((entry.path().to_vec(), body.to_vec()));
        }
    }
    contents
}

/// Returns all regular files below a folder, which must contain nothing else but folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            assert!(kind.is_dir() || kind.is_file(), "{}", entry.path().display());
            if kind.is_dir() { &mut folders } else { &mut files }.push(entry.path());
        }
    }
    files
}

fn place() -> PathBuf {
    let root = std::env::temp_dir().join(format!("pinion-extract-law-{}", std::process::id()));
    let _may_not_be_there = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("outside")).expect("a folder");
    fs::write(root.join(SECRET.0), SECRET.1).expect("a file");
    root
}

/// Removes the files of the last extraction. The new folder has links that lead out of it.
fn prepare(root: &Path, forced: bool) {
    let out = root.join("out");
    let _may_not_be_there = fs::remove_dir_all(&out);
    if forced {
        fs::create_dir_all(out.join("sub")).expect("a folder");
        fs::write(root.join(MINE.0), MINE.1).expect("a file");
        let links = [
            ("link", "../outside"),
            ("page.html", "../outside/secret"),
            ("sub/deep", "../../outside"),
        ];
        for (name, target) in links {
            symlink(target, out.join(name)).expect("a link");
        }
    }
}

/// Checks that no new file is next to the folder.
fn is_untouched(root: &Path, forced: bool) {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let mut beside = names(root);
    beside.retain(|name| name != "out");
    assert_eq!(beside, ["outside"]);
    assert_eq!(names(&root.join("outside")), ["secret"]);
    assert_eq!(fs::read_to_string(root.join(SECRET.0)).expect("it"), SECRET.1);
    if forced {
        let mine = fs::read_to_string(root.join(MINE.0)).expect("it");
        assert_eq!(mine, MINE.1);
    }
}

/// Returns an archive with entries that become files, and others that do not.
fn sample() -> Vec<u8> {
    let mut w = Writer::new(Cursor::new(Vec::new())).expect("memory");
    let block = NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: Some("text/plain"),
        fields: &[],
        not_modified: &[],
    };
    let shared = w.shared(&block).expect("valid");
    let mut add = |key: &[u8], kind, status, target: &[u8]| {
        let content = [b"content of ", key].concat();
        let digest = Digest::of(&content);
        let body = w.body(&digest, &content).expect("memory");
        let etag = ETag::of(&digest, b"text/plain", Coding::Identity);
        let form = NewRepresentation { coding: Coding::Identity, shared, body, etag };
        let has_content = kind == EntryKind::Resource || kind == EntryKind::Private;
        let entry = NewEntry {
            kind,
            status,
            path: key,
            target,
            keeps_query: false,
            rules_first: false,
            has_variant: false,
            modified: Some(1_700_000_000),
            shared: None,
            representations: if has_content { &[form] } else { &[] },
        };
        let added = match (key.strip_prefix(b"404:"), key.strip_prefix(b"file:")) {
            (Some(path), _) => w.fallback(&NewEntry { path, ..entry }),
            (_, Some(path)) => w.file(&NewEntry { path, ..entry }),
            _ => w.entry(&entry),
        };
        added.expect("valid");
    };
    for key in KEYS {
        let kind = if key.starts_with(b"file:") { EntryKind::Private } else { EntryKind::Resource };
        add(key, kind, if key.starts_with(b"404:") { 404 } else { 200 }, b"");
    }
    add(b"/old", EntryKind::Redirect, 301, b"/e");
    add(b"/app.1a2b3c4d.css", EntryKind::Resource, 200, b"");
    w.previous(b"/app.1a2b3c4d.css", 1);
    let rule = NewRule {
        status: 302,
        path: &[PathPart::Literal(b"a"), PathPart::Rest { prefix: b"" }],
        target: &[TargetPart::Literal(b"/b/"), TargetPart::Capture(0)],
        ..NewRule::EMPTY
    };
    w.rule(&rule).expect("valid");
    w.finish(&[]).expect("memory").1.into_inner()
}
