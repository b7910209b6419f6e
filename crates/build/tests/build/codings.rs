//! Which codings are stored.

use pinion_build::{CodingSummary, Options, parse_codings};
use pinion_http::coding::Coding;

use crate::folder::Folder;
use crate::reader::{built, built_with, options};

const PAGE: &str = "<p>the same words, again and again, the same words</p>\n";

#[test]
fn codings_are_kept_where_they_pay() {
    let page = PAGE.repeat(40);
    let folder =
        Folder::with(&[("a.html", page.as_str()), ("short.html", "<p>"), ("a.png", &page)]);
    let codings = parse_codings("br:4,zstd:3,gzip:2").unwrap();
    let site = built_with(&folder, &Options { codings, ..options() }).unwrap();
    assert_eq!(site.page("/a.html").codings(), Coding::ALL);
    assert_eq!(site.page("/a.html").content(), page.as_bytes());
    assert_eq!(site.page("/a.html").field("Vary"), Some("Accept-Encoding"));
    for key in ["/short.html", "/a.png"] {
        assert_eq!(site.page(key).codings(), [Coding::Identity], "{key}");
        assert_eq!(site.page(key).field("Vary"), None, "{key}");
    }
    let tags: Vec<&str> = site.page("/a.html").forms.iter().map(|form| &*form.etag).collect();
    assert!((1..4).all(|n| !tags[..n].contains(&tags[n])), "{tags:?}");
}

#[test]
fn no_codings_at_all() {
    let folder = Folder::with(&[("a.html", &PAGE.repeat(40))]);
    let site = built_with(&folder, &Options { codings: Vec::new(), ..options() }).unwrap();
    assert_eq!(site.page("/a").codings(), [Coding::Identity]);
}

/// The same bytes as a picture, first in the list, are not tried; as a page they are.
#[test]
fn a_content_is_encoded_for_the_types_that_are_tried() {
    let page = PAGE.repeat(40);
    let folder = Folder::with(&[("a.png", page.as_str()), ("b.html", &page), ("c.txt", &page)]);
    let site = built(&folder);
    assert_eq!(site.page("/a.png").codings(), [Coding::Identity]);
    let [b, c] = ["/b", "/c"].map(|key| site.page(key));
    assert_eq!(b.codings(), [Coding::Identity, Coding::Gzip, Coding::Brotli]);
    assert_eq!(b.codings(), c.codings());
    for (b, c) in b.forms.iter().zip(&c.forms) {
        assert_eq!(b.stored, c.stored);
        assert_ne!(b.etag, c.etag);
    }
    assert_eq!(site.summary.repeated_files, 2);
}

/// Whatever is told about bytes can be found in the archive.
#[test]
fn the_summary_counts_what_is_stored() {
    let page = PAGE.repeat(40);
    let folder = Folder::with(&[("a.html", page.as_str()), ("b.html", &page), ("c.html", "<p>")]);
    let site = built(&folder);
    let stored = |coding: Coding| {
        let form = site.page("/a").forms.iter().find(|form| form.coding == coding).unwrap();
        form.stored.as_ref().unwrap().len() as u64
    };
    let count = |coding, level| CodingSummary {
        coding,
        level,
        bodies: 1,
        identity_bytes: page.len() as u64,
        stored_bytes: stored(coding),
    };
    assert_eq!(site.summary.codings, [count(Coding::Gzip, 6), count(Coding::Brotli, 6)]);
    let all_forms = page.len() as u64 + stored(Coding::Gzip) + stored(Coding::Brotli);
    assert_eq!(site.summary.repeated_bytes, all_forms);
    assert_eq!(site.summary.source_bytes, 2 * page.len() as u64 + 3);
    assert_eq!(site.summary.archive_bytes, site.bytes.len() as u64);
    assert!(!site.summary.slowest.is_empty());
}
