//! Archives are extracted to folders: the same archive can be built from a folder, and no other
//! files are changed.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use pinion_archive::{
    Digest, ETag, EntryKind, Layout, NewEntry, NewRepresentation, NewShared, Role, Writer,
};
use pinion_builder::{ExtractError, ExtractOptions, Extracted, extract};
use pinion_http::content_coding::Coding;
use proptest::prelude::*;

use pinion_builder::Options;

use crate::archive_reader::{built, built_with, options};
use crate::temporary_folder::Folder;

fn extracted(bytes: &[u8], out: &Path, keep_going: bool) -> Result<Extracted, ExtractError> {
    let layout = Layout::open(bytes).expect("an archive");
    let options = ExtractOptions { keep_going, ..ExtractOptions::default() };
    extract(&layout.view(bytes), out, options, &())
}

#[track_caller]
fn comes_back(folder: &Folder) {
    let (site, out) = (built(folder), Folder::new());
    extracted(&site.bytes, out.path(), false).expect("a folder");
    let again = built(&out);
    assert_eq!(again.keys(), site.keys());
    assert!(again.bytes == site.bytes);
}

#[test]
fn the_example_site_round_trips() {
    let out = Folder::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/site");
    let options = options();
    let build = |source: &Path| {
        let out = Cursor::new(Vec::new());
        pinion_builder::build(source, &options, out, &()).expect("an archive").out.into_inner()
    };
    // A checkout may be newer than the time at which tests run.
    let copy = Folder::new();
    copy_all(&example, &example, &copy);
    let bytes = build(copy.path());
    let done = extracted(&bytes, out.path(), false).expect("a folder");
    assert!(done.files > 10 && done.aliases > 5 && done.refused.is_empty(), "{done:?}");
    assert!(build(out.path()) == bytes);
}

fn copy_all(root: &Path, from: &Path, to: &Folder) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            copy_all(root, &path, to);
        } else {
            let name = path.strip_prefix(root).unwrap().as_os_str().as_encoded_bytes();
            to.file(name, fs::read(&path).unwrap());
        }
    }
}

/// No time, and two that differ.
const TIMES: [u64; 3] = [0, 1_000_000_000, 1_000_000_001];

#[test]
fn unusual_file_names_round_trip() {
    let folder = Folder::with(&[
        (".well-known/security.txt", "x"),
        ("favicon.svg", "<svg/>"),
        ("a b/\u{fc}.html", "x"),
        ("%41.txt", "percent"),
        ("..a/b..", "dots"),
        ("empty", ""),
        ("a.html", "shadowed"),
        ("a.txt", "also"),
        ("a", "file"),
    ]);
    folder.file(b"not-utf-8-\xff\x01.css", "x");
    folder.modified("a.txt", 1_000_000_000);
    comes_back(&folder);
}

#[test]
fn rules_round_trip_unchanged() {
    let redirects = "# Old addresses.\n/old/* /a?b=:splat 302\n/b   /a\t# said twice\n";
    let fields = "# For all.\n/*\n  X-A: 1\n/a\n  ! X-A\n  Content-Type: text/x\n";
    let folder = Folder::with(&[
        ("_redirects", redirects),
        ("_headers", fields),
        ("c/_redirects.txt", "./d ./e\n"),
        ("a.html", "a"),
        ("c/e.css", "e"),
        ("c/_404.html", "none"),
    ]);
    comes_back(&folder);
    let (site, out) = (built(&folder), Folder::new());
    let done = extracted(&site.bytes, out.path(), false).expect("a folder");
    assert_eq!((done.files, done.rules_files, done.redirects), (3, 3, 0), "{done:?}");
    for (name, text) in [("_redirects", redirects), ("_headers", fields)] {
        assert_eq!(fs::read_to_string(out.path().join(name)).unwrap(), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_site_round_trips(
        files in prop::collection::btree_map(
            "(a/|b/c/)?(_?index|a|b|404|x\\.1)(\\.(html|htm|txt|json|css|png))",
            ("[xy]{0,3}", 0..3_u64),
            0..12,
        ),
        redirects in prop::collection::vec("/(old|b|c/d|c/\\*) /(new|a)( (302|200|404))?", 0..4),
        fields in prop::collection::vec("/(\\*|a|b/\\*)\n (X-A: 1|! Vary|Content-Type: a/b)", 0..4),
    ) {
        let folder = Folder::new();
        for (name, (content, modified)) in &files {
            folder.file(name, content.repeat(200));
            folder.modified(name, TIMES[*modified as usize]);
        }
        folder.file("_redirects", redirects.join("\n"));
        folder.file("_headers", fields.join("\n"));
        comes_back(&folder);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Fallback and error pages are extracted with an equivalent name. So the order in the archive
    /// may change, but the responses are the same.
    #[test]
    fn any_fallback_and_error_pages_round_trip(
        files in prop::collection::btree_map(
            "(a/|b/c/)?(index|404|x|_wildcard|_200|_404|_405|_500|200)(\\.(html|htm|txt|json|png))",
            ("[xy]{1,2}", 0..3_u64),
            0..12,
        ),
        fields in prop::collection::vec("/(\\*|a/\\*|404)\n X-A: [12]", 0..3),
        single_page in any::<bool>(),
    ) {
        let folder = Folder::new();
        for (name, (content, modified)) in &files {
            folder.file(name, content.repeat(200));
            folder.modified(name, TIMES[*modified as usize]);
        }
        folder.file("app.html", "app");
        folder.file("_headers", fields.join("\n"));
        let single_page = single_page.then(|| "app.html".to_owned());
        let options = Options { single_page, ..options() };
        let (site, out) = (built_with(&folder, &options).expect("a site"), Folder::new());
        extracted(&site.bytes, out.path(), false).expect("a folder");
        let again = built_with(&out, &options).expect("a site");
        prop_assert_eq!(again.entries, site.entries);
    }
}

/// The fallback page may have the content of a `404.html` and be another file.
#[test]
fn fallback_pages_with_equal_content_round_trip() {
    for (name, modified) in [("_404.txt", 1), ("_404.html", 2), ("_404.html", 1)] {
        let day = 1_000_000_000;
        let folder = Folder::with(&[("404.html", "missing"), (name, "missing")]);
        folder.file("_headers", "/404.html\n  Content-Type: a/b\n");
        folder.modified("404.html", day + 1);
        folder.modified(name, day + modified);
        let (site, out) = (built(&folder), Folder::new());
        extracted(&site.bytes, out.path(), false).expect("a folder");
        assert_eq!(built(&out).entries, site.entries, "{name} of {modified}");
    }
    // The same file has both keys, with fields of one path.
    let folder = Folder::with(&[("404.html", "missing")]);
    folder.file("_headers", "/404.html\n  Content-Type: a/b\n");
    comes_back(&folder);
}

/// Returns an archive with one small page at each of these keys.
fn pages(keys: &[&[u8]]) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).expect("memory");
    let shared = NewShared {
        role: Role::Ordinary,
        status: 200,
        content_type: Some("text/plain"),
        fields: &[],
        not_modified: &[],
    };
    let shared = writer.shared(&shared).expect("well-formed");
    for key in keys {
        let digest = Digest::of(key);
        let representation = NewRepresentation {
            coding: Coding::Identity,
            shared,
            body: writer.body(&digest, key).expect("memory"),
            etag: ETag::of(&digest, b"text/plain", Coding::Identity),
        };
        let entry = NewEntry {
            kind: EntryKind::Resource,
            status: 200,
            path: key,
            target: b"",
            keeps_query: false,
            rules_first: false,
            has_variant: false,
            modified: None,
            shared: None,
            representations: &[representation],
        };
        writer.entry(&entry).expect("valid");
    }
    writer.finish(&[]).expect("an archive").1.into_inner()
}

#[test]
fn hostile_paths_are_refused_and_named() {
    let long = [b"/", "n".repeat(256).as_bytes()].concat();
    let deep = b"/n".repeat(2000);
    let cases: &[(&[u8], &str)] = &[
        (b"/../escaped", "not a path that a file can have"),
        (b"/a/../../escaped", "not a path that a file can have"),
        (b"/./b", "not a path that a file can have"),
        (b"//etc/passwd", "not a path that a file can have"),
        (b"/nul\0", "not a path that a file can have"),
        (b"/folder/", "content at the path of a folder, which no index file gives"),
        (b"/file/below", "needs a folder where another path is a file"),
        (b"/.git/hooks/x", "a build leaves files with this name out"),
        (b"/_redirects", "a build leaves files with this name out"),
        (&long, "a name too long for a file"),
        (&deep, "a path too long for a file"),
    ];
    let mut keys: Vec<&[u8]> = cases.iter().map(|(key, _)| *key).collect();
    keys.extend([&b"/file"[..], b"/good.txt"]);
    let bytes = pages(&keys);
    let outer = Folder::new();
    let out = outer.join("out");
    let Err(ExtractError::Refused(refused)) = extracted(&bytes, &out, false) else {
        panic!("nothing was refused");
    };
    let messages: Vec<String> = refused.iter().map(ToString::to_string).collect();
    for (key, why) in cases {
        let line = format!("{}: {why}", key.escape_ascii());
        assert!(messages.contains(&line), "{line}: {messages:?}");
    }
    assert_eq!((messages.len(), outer.names()), (cases.len(), Vec::new()));
    let done = extracted(&bytes, &out, true).expect("the others");
    assert_eq!((done.files, done.refused.len()), (2, cases.len()));
    assert_eq!(outer.names(), ["out"]);
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "good.txt"]);
    assert_eq!(fs::read(out.join("good.txt")).unwrap(), b"/good.txt");
}

#[test]
fn extraction_never_overwrites_an_existing_name() {
    let bytes = pages(&[b"/a.txt"]);
    let outer = Folder::with(&[("file", "x"), ("full/mine", "x")]);
    outer.folder("empty");
    outer.link("dangling", "nowhere");
    for (name, reason) in [("file", "not a folder"), ("full", "not empty")] {
        let error = extracted(&bytes, &outer.join(name), false).expect_err(name).to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(extracted(&bytes, &outer.join("dangling"), false).is_err());
    assert!(extracted(&bytes, &outer.join("none/new"), false).is_err());
    extracted(&bytes, &outer.join("empty"), false).expect("an empty folder is taken");
    assert_eq!(outer.names(), ["dangling", "empty", "file", "full"]);
    assert_eq!(fs::read(outer.join("empty/a.txt")).unwrap(), b"/a.txt");
}
