//! Archives that kawipiko's own archiver has made; `made/README.md` describes how.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pinion_kawipiko::{Archive, Kind};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archives")
}

/// By kind and place: status, the other fields by name, and the stored bytes.
pub(crate) type Said = BTreeMap<String, (String, BTreeMap<&'static str, String>, Vec<u8>)>;

pub(crate) fn made(name: &str) -> Vec<u8> {
    fs::read(folder().join("made").join(name)).expect("an archive")
}

pub(crate) fn said(name: &str) -> Said {
    let file = made(name);
    let archive = Archive::open(&file).expect("an archive");
    let mut said = Said::new();
    for reference in archive.references() {
        let reference = reference.expect("sound");
        let mut fields: BTreeMap<_, _> = BTreeMap::new();
        for field in archive.fields(&reference).expect("sound") {
            let value = String::from_utf8(field.value.to_vec()).expect("text");
            assert!(fields.insert(field.name, value).is_none(), "{} twice", field.name);
        }
        let status = fields.remove("!Status").expect("a status");
        let host = reference.host.map(|host| format!("://{}", host.escape_ascii()));
        let place = format!("{}{}", host.unwrap_or_default(), reference.path.escape_ascii());
        let content = archive.content(&reference).expect("sound").to_vec();
        let key = format!("{:?} {place}", reference.kind);
        assert!(said.insert(key, (status, fields, content)).is_none(), "{place} twice");
    }
    said
}

fn file(path: &str) -> Vec<u8> {
    fs::read(folder().join("site").join(path)).expect("a file")
}

#[test]
fn archives_have_the_files_that_the_archiver_was_given() {
    let said = said("site-identity.cdb");
    for (place, status, path, media_type) in [
        ("/", "200", "index.html", "text/html; charset=utf-8"),
        ("/index", "200", "index.html", "text/html; charset=utf-8"),
        ("/style.css", "200", "style.css", "text/css; charset=utf-8"),
        ("/two words.txt", "200", "two words.txt", "text/plain; charset=utf-8"),
        ("/logo.png", "200", "logo.png", "image/png"),
        ("/docs/*", "404", "docs/_404.html", "text/html; charset=utf-8"),
        ("/app/*", "200", "app/_wildcard.html", "text/html; charset=utf-8"),
    ] {
        let (found, fields, content) = &said[&format!("{:?} {place}", Kind::File)];
        assert_eq!((found.as_str(), content), (status, &file(path)), "{place}");
        assert_eq!(fields["Content-Type"], media_type, "{place}");
        assert_eq!(fields["Content-Encoding"], "identity", "{place}");
        assert_eq!(fields["Cache-Control"], "public, immutable, max-age=3600", "{place}");
        assert_eq!(fields["ETag"].len(), 64, "{place}");
        assert_eq!(fields.len(), 4, "{place}: {fields:?}");
    }
    for (place, status, location) in [
        ("/old", "301", "/about.html"),
        ("/old/", "308", "/old"),
        ("/docs", "308", "/docs/"),
        ("/moved/*", "301", "/docs/page.html"),
        ("/docs/gone", "301", "/docs/page.html"),
        ("://shop.example/old", "301", "/docs/page.html"),
        ("://*/never", "301", "/about.html"),
        ("://all.example/*", "302", "/index.html"),
    ] {
        let (found, fields, content) = &said[&format!("{:?} {place}", Kind::Redirect)];
        assert_eq!((found.as_str(), content.len()), (status, 0), "{place}");
        assert_eq!(fields["Location"], location, "{place}");
    }
    let (_, fields, content) = &said[&format!("{:?} /data/", Kind::Listing)];
    assert_eq!(fields["Content-Type"], "application/json; charset=utf-8");
    assert!(content.starts_with(b"{\"entries\":[{\"name\":\"more\""));
}

/// The lists of paths in an archive make no difference.
#[test]
fn archives_without_path_lists_have_the_same_records() {
    assert_eq!(said("site-unlisted.cdb"), said("site-identity.cdb"));
}

/// The other archives have the same files, in other codings. One of them has no listings.
#[test]
fn archives_in_other_codings_have_the_same_files() {
    let plain = said("site-identity.cdb");
    for (name, coding, cached) in [
        ("site-gzip.cdb", "gzip", true),
        ("site-zopfli.cdb", "gzip", true),
        ("site-br.cdb", "br", false),
        // With a window of 16 MiB.
        ("site-no-slash.cdb", "br", true),
    ] {
        let said = said(name);
        let files = |said: &Said| -> Vec<String> {
            said.keys().filter(|key| key.starts_with("File ")).cloned().collect()
        };
        assert_eq!(files(&said), files(&plain), "{name}");
        let (_, fields, content) = &said[&format!("{:?} /style.css", Kind::File)];
        assert_eq!(fields["Content-Encoding"], coding, "{name}");
        assert_eq!(fields.contains_key("Cache-Control"), cached, "{name}");
        assert!(content.len() * 4 < file("style.css").len(), "{name}");
    }
}
