//! Folders without an index page, and their responses.

use std::io::Cursor;

use pinion_archive::Layout;
use pinion_builder::{ExtractOptions, Options, extract};
use pinion_http::content_coding::Coding;
use serde_json::{Value, json};

use crate::archive_reader::{Site, built, built_with, options, value};
use crate::temporary_folder::Folder;

fn listing() -> Options {
    Options { listings: true, ..options() }
}

fn listed(folder: &Folder) -> Site {
    built_with(folder, &listing()).unwrap()
}

/// Returns the folders that are listed.
fn folders(site: &Site) -> Vec<&str> {
    site.keys().iter().filter_map(|key| key.strip_prefix("json:")).collect()
}

/// Returns the names in the listing of a folder, in its order.
#[track_caller]
fn names(site: &Site, folder: &str) -> Vec<String> {
    let parsed: Value = serde_json::from_slice(&site.page(&format!("json:{folder}")).content())
        .expect("one JSON document");
    let entries = parsed.as_array().expect("an array").iter();
    entries.map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn only_published_files_are_listed() {
    let folder = Folder::with(&[
        ("docs/index.html", "index"),
        ("files/b2.txt", "b2"),
        ("files/b10.txt", "b10"),
        ("files/_404.html", "fallback"),
        ("files/_headers", ""),
        ("files/secret.lua", ""),
        ("files/key.priv.pem", ""),
        ("files/.git/config", ""),
        ("files/excluded", ""),
        ("files/hidden/_200.html", ""),
        ("files/old/x", ""),
        (".well-known/security.txt", ""),
        ("404.html", "missing"),
        ("_headers", "/*\n X-A: b"),
    ]);
    let options = Options { exclude: vec!["excluded".to_owned()], ..listing() };
    let site = built_with(&folder, &options).unwrap();
    assert_eq!(folders(&site), ["/", "/.well-known/", "/files/", "/files/old/"]);
    assert_eq!(names(&site, "/"), [".well-known", "docs", "files", "404.html"]);
    assert_eq!(names(&site, "/files/"), ["old", "b2.txt", "b10.txt"]);
    assert_eq!(site.summary.listings, 4);
    assert_eq!(folders(&built(&folder)), Vec::<&str>::new());
}

#[test]
fn html_and_json_listings_have_the_fields_of_their_folder() {
    let files: Vec<String> = (0..40).map(|number| format!("a/file-{number}.css")).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "x")).collect();
    files.push(("_headers", "/a/*\n Content-Type: application/octet-stream\n X-A: b"));
    let folder = Folder::with(&files);
    for (file, _) in &files {
        folder.modified(file, 1_600_000_000);
    }
    folder.modified("a/file-7.css", 1_600_000_095);
    let site = listed(&folder);
    for (key, media_type) in [("/a/", "text/html; charset=utf-8"), ("json:/a/", "application/json")]
    {
        let page = site.page(key);
        assert_eq!((page.status, page.target.as_deref()), (200, None));
        assert_eq!(page.modified, Some(1_600_000_095));
        assert_eq!(page.codings(), [Coding::Identity, Coding::Gzip, Coding::Brotli]);
        for form in &page.forms {
            let field = |name| value(&form.fields, name);
            assert_eq!(field("Content-Type"), Some(media_type));
            assert_eq!(field("Vary"), Some("Accept, Accept-Encoding"));
            assert_eq!(field("Cache-Control"), Some("max-age=0, must-revalidate"));
            assert_eq!(field("X-A"), Some("b"));
            assert!(value(&form.not_modified, "Vary").is_some());
        }
        assert!(page.content().len() > 40 * 50);
    }
    let without = Options { codings: Vec::new(), security_fields: false, ..listing() };
    let site = built_with(&folder, &without).unwrap();
    let fields = &site.page("/a/").forms[0].fields;
    assert_eq!(value(fields, "Vary"), Some("Accept"));
    assert_eq!(value(fields, "Content-Security-Policy"), None);
}

#[test]
fn the_content_security_policy_allows_the_style_of_the_listing() {
    let folder = Folder::with(&[("a/x", "x")]);
    let policy = |site: &Site, key: &str| {
        let fields = site.page(key).forms[0].fields.clone();
        value(&fields, "Content-Security-Policy").map(str::to_owned)
    };
    let own = policy(&listed(&folder), "/a/").expect("a policy");
    let hash = own.split_ascii_whitespace().find(|word| word.contains("sha256-")).expect("a hash");
    let hash = hash.trim_end_matches(';').to_owned();
    assert!(own.starts_with("default-src 'none'; "), "{own}");
    assert_eq!(policy(&listed(&folder), "/a/x"), None);
    folder.file(b"_headers", "/*\n Content-Security-Policy: default-src 'self'");
    let site = listed(&folder);
    let allowing = format!("default-src 'self'; style-src 'self' {hash}");
    assert_eq!(policy(&site, "/a/").as_deref(), Some(&*allowing));
    assert_eq!(policy(&site, "json:/a/").as_deref(), Some(&*allowing));
    assert_eq!(policy(&site, "/a/x").as_deref(), Some("default-src 'self'"));
}

#[test]
fn without_etags_listings_have_no_modification_time() {
    let folder = Folder::with(&[("a/x", "x")]);
    let site = built_with(&folder, &Options { etags: false, ..listing() }).unwrap();
    assert_eq!(site.page("/a/").modified, None);
}

#[test]
fn rules_treat_a_listing_like_an_index_file() {
    let folder = Folder::with(&[
        ("a/x", ""),
        ("b/x", ""),
        ("c/x", ""),
        ("_redirects", "/a/ /x\n/b/ /x 301!\n/c/ k=v /x 302!"),
    ]);
    let site = listed(&folder);
    assert_eq!(folders(&site), ["/", "/a/", "/c/"]);
    assert_eq!((site.page("/a/").status, site.page("/b/").status), (200, 301));
    let warnings = site.summary.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        warnings.iter().any(|warning| warning.starts_with("_redirects:1:1: never applies")),
        "{warnings:?}"
    );
}

#[test]
fn listings_are_generated_again_after_an_extraction() {
    let folder = Folder::with(&[("a/b/c.txt", "c"), ("d", "d")]);
    let (site, out) = (listed(&folder), Folder::new());
    let layout = Layout::open(&site.bytes).unwrap();
    let done = extract(&layout.view(&site.bytes), out.path(), ExtractOptions::default(), &());
    assert_eq!(done.expect("a folder").files, 2);
    assert!(listed(&out).bytes == site.bytes);
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let files: Vec<String> = (0..60).map(|number| format!("{}/{number}/x", number % 7)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "x")).collect();
    let folder = Folder::with(&files);
    let with = |threads: usize| {
        let options = Options { threads: threads.try_into().ok(), ..listing() };
        let built = pinion_builder::build(folder.path(), &options, Cursor::new(Vec::new()), &());
        built.unwrap().out.into_inner()
    };
    assert!(with(1) == with(3));
}

/// The listing of the root of a site in JSON.
#[test]
fn a_json_listing_has_the_format_of_nginx() {
    let folder = Folder::with(&[("sub/x", "x"), ("a b.txt", "four")]);
    folder.modified("a b.txt", 784_111_777);
    folder.modified("sub/x", 784_111_776);
    let parsed: Value = serde_json::from_slice(&listed(&folder).page("json:/").content()).unwrap();
    assert_eq!(
        parsed,
        json!([
            {
                "name": "sub",
                "type": "directory",
                "mtime": "Sun, 06 Nov 1994 08:49:36 GMT",
                "url": "sub/",
            },
            {
                "name": "a b.txt",
                "type": "file",
                "mtime": "Sun, 06 Nov 1994 08:49:37 GMT",
                "size": 4,
                "url": "a%20b.txt",
            },
        ])
    );
}
