//! Files of the folder that are precompressed in a coding.

use std::fs;

use pinion_builder::{BuildError, CodingEffort, Options, Warning, build_file, codings_at};
use pinion_http::content_coding::Coding;

use crate::archive_reader::{NOW, built, built_with, options};
use crate::temporary_folder::Folder;

const SCRIPT: &str = "let a_name_that_is_repeated = 'and what it stands for';\n";

/// Returns the script in each coding.
fn coded() -> Vec<(Coding, Vec<u8>)> {
    let folder = Folder::with(&[("a.js", &SCRIPT.repeat(200))]);
    let codings = codings_at("gzip,br,zstd", CodingEffort::Best).unwrap();
    let site = built_with(&folder, &Options { codings, ..options() }).unwrap();
    let forms = site.page("/a.js").forms.iter();
    forms.map(|form| (form.coding, form.stored.clone().unwrap())).collect()
}

#[test]
fn files_with_a_content_encoding_rule_are_decoded() {
    for (coding, stored) in coded() {
        let folder = Folder::new();
        folder.file("Build/game.js.br", &stored);
        let token = coding.token();
        folder.file("_headers", format!("/Build/*\n  Content-Encoding: {token}\n  X-A: 1\n"));
        let site = built(&folder);
        let page = site.page("/Build/game.js.br");
        assert_eq!(page.content(), SCRIPT.repeat(200).as_bytes(), "{token}");
        assert_eq!(page.codings(), [Coding::Identity, Coding::Gzip, Coding::Brotli], "{token}");
        for form in &page.forms {
            let field = |name: &str| crate::archive_reader::value(&form.fields, name);
            let expected = (form.coding != Coding::Identity).then(|| form.coding.token());
            assert_eq!(field("Content-Encoding"), expected, "{token}");
            assert_eq!((field("X-A"), field("Vary")), (Some("1"), Some("Accept-Encoding")));
        }
        if coding != Coding::Identity {
            assert_eq!(page.field("Content-Type"), Some("text/javascript; charset=utf-8"));
        }
        assert_eq!(site.summary.warnings, []);
    }
}

#[test]
fn svgz_files_are_decoded_and_served_as_svg() {
    let picture = "<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0h1v1z'/></svg>".repeat(40);
    let folder = Folder::with(&[("plain.svg", picture.as_str())]);
    let stored = built(&folder).page("/plain.svg").forms[1].stored.clone().unwrap();
    folder.file("a.svgz", &stored);
    folder.file("b.SVGZ", &picture);
    folder.file("cut.svgz", &stored[..stored.len() - 9]);
    let site = built(&folder);
    let plain = site.page("/plain.svg");
    for key in ["/a.svgz", "/b.SVGZ"] {
        assert_eq!(site.page(key).forms, plain.forms, "{key}");
        assert_eq!(site.page(key).field("Content-Type"), Some("image/svg+xml"));
    }
    // A file that cannot be decoded is sent with the type of its compressed form.
    assert_eq!(site.page("/cut.svgz").field("Content-Type"), Some("application/gzip"));
}

#[test]
fn files_not_in_their_claimed_coding_are_sent_unchanged() {
    let script = SCRIPT.repeat(200);
    let folder = Folder::with(&[("a.js", script.as_str()), ("b.css", "b{}"), ("c.js", "c")]);
    folder.file("_headers", "/*\n Content-Encoding: br\n/b.css\n ! Content-Encoding\n");
    let site = built(&folder);
    assert_eq!(site.page("/a.js").content(), script.as_bytes());
    assert_eq!(site.page("/a.js").field("Content-Encoding"), None);
    let warning = |path: &str| Warning::NotInCoding(path.into());
    assert_eq!(site.summary.warnings, [warning("a.js"), warning("c.js")]);
    let line = site.summary.warnings[0].to_string();
    let expected = "a.js: not compressed as its Content-Encoding in _headers says, sent unchanged";
    assert_eq!(line, expected);
    folder.file("_headers", "/*\n Content-Encoding: deflate\n");
    assert!(matches!(built_with(&folder, &options()), Err(BuildError::Rules(_))));
}

/// A file with a gigabyte of zeros in a few kilobytes.
#[test]
fn a_file_too_large_after_decoding_is_an_error() {
    let folder = Folder::new();
    let zeros = vec![0; 1 << 20];
    folder.file("zeros.txt", &zeros);
    let codings = codings_at("zstd", CodingEffort::Best).unwrap();
    let site = built_with(&folder, &Options { codings, ..options() }).unwrap();
    let frame = site.page("/zeros.txt").forms[1].stored.clone().unwrap();
    // Several frames may follow each other (RFC 8878 §3).
    let bomb = frame.repeat(129);
    let folder = Folder::new();
    folder.file("bomb.bin", &bomb);
    folder.file("good.bin", frame.repeat(2));
    folder.file("_headers", "/*\n Content-Encoding: zstd\n");
    let error = built_with(&folder, &options()).err().unwrap().to_string();
    assert!(error.starts_with("bomb.bin: larger than 128 MiB after decoding"), "{error}");
    let site = built_with(&folder, &Options { keep_going: true, ..options() }).unwrap();
    assert_eq!(site.page("/good.bin").content().len(), 2 << 20);
}

/// Large files stay external when a folder is served, but not those that have to be decoded.
#[test]
fn decoded_files_are_never_external() {
    let noise: Vec<u8> =
        (0..2_000_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let folder = Folder::new();
    folder.file("a.bin", &noise);
    folder.file("b.bin", &noise);
    folder.file("_headers", "/b.bin\n Content-Encoding: gzip\n");
    let site = built_with(&folder, &Options::serving(NOW)).unwrap();
    assert_eq!((site.summary.external_files, site.externals.len()), (1, 1));
    assert_eq!(site.page("/b.bin").content(), noise);
}

/// A rule that is added, changed or removed changes the content of an unchanged file.
#[test]
fn changed_encoding_rules_change_the_content_of_an_unchanged_file() {
    let (source, out) = (Folder::new(), Folder::new());
    for (coding, stored) in coded() {
        source.file(format!("a.{}", coding.token()), &stored);
    }
    source.file("a.svgz", &coded()[1].1);
    let path = out.join("site.pinion");
    let options = Options { now: NOW + 1_000_000_000, ..options() };
    for rules in [
        "",
        "/a.gzip\n Content-Encoding: gzip\n",
        "/a.gzip\n Content-Encoding: gzip\n/a.br\n Content-Encoding: br\n",
        "/a.*\n Content-Encoding: zstd\n",
        "/a.*\n Content-Encoding: zstd\n",
        "",
    ] {
        source.file("_headers", rules);
        let summary = build_file(source.path(), &options, &path, &()).unwrap();
        let made = fs::read(&path).unwrap();
        let anew = built_with(&source, &options).unwrap();
        assert!(made == anew.bytes, "{rules}");
        assert_eq!(summary.warnings, anew.summary.warnings, "{rules}");
    }
}

#[test]
fn formats_that_are_read_in_ranges_are_stored_as_they_are() {
    let rows = "row after row after row\n".repeat(100);
    let database = format!("SQLite format 3\0{rows}");
    let folder = Folder::with(&[
        ("a.db", database.as_str()),
        ("a.parquet", &rows),
        ("a.pmtiles", &rows),
        ("a.sqlite", &database),
        ("a.tif", &rows),
        ("a.txt", &rows),
    ]);
    let site = built(&folder);
    for key in ["/a.db", "/a.parquet", "/a.pmtiles", "/a.sqlite", "/a.tif"] {
        assert_eq!(site.page(key).codings(), [Coding::Identity], "{key}");
        assert_eq!(site.page(key).field("Vary"), None, "{key}");
    }
    assert_eq!(site.page("/a.txt").codings().len(), 3);
}
