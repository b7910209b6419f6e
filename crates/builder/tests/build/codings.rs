//! The stored codings.

use std::num::NonZeroUsize;

use pinion_builder::{
    CodingEffort, CodingLevel, CodingSummary, CodingsFor, Method, Options, Warning, codings_at,
};
use pinion_http::content_coding::Coding;

use crate::archive_reader::{Site, built, built_with, options};
use crate::temporary_folder::Folder;

const PAGE: &str = "<p>the same words, again and again, the same words</p>\n";

#[test]
fn codings_are_kept_only_where_they_save_bytes() {
    let page = PAGE.repeat(40);
    let folder =
        Folder::with(&[("a.html", page.as_str()), ("short.html", "<p>"), ("a.png", &page)]);
    let codings = codings_at("br:4,zstd:3,gzip:2", CodingEffort::Best).unwrap();
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
fn without_codings_only_identity_is_stored() {
    let folder = Folder::with(&[("a.html", &PAGE.repeat(40))]);
    let site = built_with(&folder, &Options { codings: Vec::new(), ..options() }).unwrap();
    assert_eq!(site.page("/a").codings(), [Coding::Identity]);
}

/// The same bytes are not compressed as a picture, which is first in the list, but they are as a
/// page.
#[test]
fn equal_content_is_encoded_only_for_compressible_types() {
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

/// The counts of the summary agree with the archive.
#[test]
fn the_summary_counts_stored_bodies_and_bytes() {
    let page = PAGE.repeat(40);
    let folder = Folder::with(&[("a.html", page.as_str()), ("b.html", &page), ("c.html", "<p>")]);
    let site = built(&folder);
    let stored = |coding: Coding| {
        let form = site.page("/a").forms.iter().find(|form| form.coding == coding).unwrap();
        form.stored.as_ref().unwrap().len() as u64
    };
    let count = |method: Method| CodingSummary {
        choice: CodingLevel { method, level: 6 },
        bodies: 1,
        identity_bytes: page.len() as u64,
        stored_bytes: stored(method.coding()),
    };
    assert_eq!(site.summary.codings, [count(Method::Gzip), count(Method::Brotli)]);
    let all_forms = page.len() as u64 + stored(Coding::Gzip) + stored(Coding::Brotli);
    assert_eq!(site.summary.repeated_bytes, all_forms);
    assert_eq!(site.summary.source_bytes, 2 * page.len() as u64 + 3);
    assert_eq!(site.summary.archive_bytes, site.bytes.len() as u64);
    assert!(!site.summary.slowest.is_empty());
}

/// The output of Zopfli is valid gzip, and the smallest.
#[test]
fn zopfli_makes_gzip() {
    let folder = Folder::with(&[("a.html", &PAGE.repeat(40))]);
    let site = |codings: &str| {
        let codings = codings_at(codings, CodingEffort::Best).unwrap();
        built_with(&folder, &Options { codings, ..options() }).unwrap()
    };
    let [zopfli, gzip] = ["zopfli:5", "gzip:9"].map(site);
    assert_eq!(zopfli.page("/a").codings(), [Coding::Identity, Coding::Gzip]);
    assert_eq!(zopfli.page("/a").content(), PAGE.repeat(40).as_bytes());
    let stored = |site: &Site| site.summary.codings[0].stored_bytes;
    assert!(stored(&zopfli) <= stored(&gzip));
}

#[test]
fn codings_for_selects_codings_of_single_files() {
    let page = PAGE.repeat(40);
    let folder = Folder::with(&[
        ("a.html", page.as_str()),
        ("art/b.html", &page),
        ("art/c.svg", &page),
        ("art/d.png", &page),
        ("x.bin", &page),
    ]);
    let rules = ["art/*=zstd", "*.svg=br:3", "x.bin=identity", "*.gone=br"];
    let codings_for = rules.map(|rule| CodingsFor::parse(rule, CodingEffort::Best).unwrap()).into();
    let options = Options { codings_for, ..options() };
    let site = built_with(&folder, &options).unwrap();
    for (key, codings) in [
        ("/a.html", &[Coding::Gzip, Coding::Brotli][..]),
        ("/art/b.html", &[Coding::Zstd]),
        ("/art/c.svg", &[Coding::Brotli]),
        // The file is packed already, but named by a pattern.
        ("/art/d.png", &[Coding::Zstd]),
        ("/x.bin", &[]),
    ] {
        assert_eq!(&site.page(key).codings()[1..], codings, "{key}");
        assert_eq!(site.page(key).content(), page.as_bytes());
    }
    let bodies: Vec<_> =
        site.summary.codings.iter().map(|count| (count.choice.to_string(), count.bodies)).collect();
    let expected = [("gzip:6", 1), ("br:6", 1), ("zstd:9", 1), ("br:3", 1)];
    assert_eq!(bodies, expected.map(|(choice, bodies)| (choice.to_owned(), bodies)));
    let unused = Warning::UnusedCodings("*.gone".into());
    assert_eq!(site.summary.warnings, [unused]);
    // The same content in other codings is another body, in any order.
    for threads in 1..4 {
        let options = Options { threads: NonZeroUsize::new(threads), ..options.clone() };
        assert!(built_with(&folder, &options).unwrap().bytes == site.bytes);
    }
}
