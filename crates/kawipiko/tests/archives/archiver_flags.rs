//! The effects of each flag of the archiver, and their pitfalls.

use std::collections::BTreeSet;

use pinion_kawipiko::{Archive, Kind, RecordFault, Reference};

use crate::archiver_output::{Said, made, said};

fn places(said: &Said, kind: Kind) -> BTreeSet<&str> {
    let kind = format!("{kind:?} ");
    said.keys().filter_map(|key| key.strip_prefix(&kind)).collect()
}

/// Returns the paths that only the one archive has, and those that only the other one has.
fn difference(one: &str, other: &str, kind: Kind) -> [Vec<String>; 2] {
    let (one, other) = (said(one), said(other));
    let (one, other) = (places(&one, kind), places(&other, kind));
    let only = |here: &BTreeSet<&str>, there| {
        here.difference(there).map(|place| (*place).to_owned()).collect()
    };
    [only(&one, &other), only(&other, &one)]
}

#[test]
fn without_listings_only_listings_are_missing() {
    let [gone, new] = difference("site-plain.cdb", "site-identity.cdb", Kind::Listing);
    assert_eq!(gone, [""; 0]);
    assert_eq!(new, ["/", "/app/", "/data/", "/data/more/", "/docs/", "/moved/", "/moved/deep/"]);
    let [gone, new] = difference("site-plain.cdb", "site-identity.cdb", Kind::File);
    assert_eq!((gone.len(), new.len()), (0, 0));
}

#[test]
fn without_index_files_folders_have_listings() {
    let [gone, new] = difference("site-identity.cdb", "site-no-index.cdb", Kind::File);
    assert_eq!((gone, new.len()), (vec!["/".to_owned(), "/docs/".to_owned()], 0));
    assert!(said("site-no-index.cdb").contains_key("Listing /docs/"));
}

#[test]
fn without_stripped_suffixes_short_paths_are_missing() {
    let [gone, new] = difference("site-plain.cdb", "site-no-strip.cdb", Kind::File);
    assert_eq!(gone, ["/about", "/docs/index", "/docs/page", "/index", "/two words"]);
    assert_eq!(new.len(), 0);
}

/// The only redirects are the 12 lines of `_redirects`, and no file has an additional name.
#[test]
fn without_slash_redirects_only_rules_redirect() {
    for (name, least) in [("site-no-slash.cdb", 11), ("site-bare.cdb", 11)] {
        let said = said(name);
        let redirects = places(&said, Kind::Redirect);
        assert_eq!(redirects.len(), least, "{name}: {redirects:?}");
        assert!(!redirects.contains("/docs") && !redirects.contains("/about/"), "{name}");
    }
    let all = said("site-plain.cdb");
    assert!(places(&all, Kind::Redirect).len() > 30);
}

#[test]
fn without_cache_options_no_response_has_cache_control() {
    for (name, cached) in [("site-plain.cdb", true), ("site-bare.cdb", false)] {
        for (place, (_, fields, _)) in said(name) {
            assert_eq!(fields.contains_key("Cache-Control"), cached, "{name} {place}");
            assert!(!fields.contains_key("ETag"), "{name} {place}");
        }
    }
}

/// Returns the status and type of the response for a file of the archive, or its fault.
fn answer(name: &str, path: &[u8]) -> Result<(String, String), RecordFault> {
    let file = made(name);
    let archive = Archive::open(&file).expect("an archive");
    let is_match = |found: &Reference<'_>| found.kind == Kind::File && found.path == path;
    let mut references = archive.references().map(|found| found.expect("sound"));
    let reference = references.find(is_match).expect("the path");
    let fields = archive.fields(&reference).map_err(|damage| damage.fault)?;
    let value = |name| {
        let field = fields.iter().find(|field| field.name == name).expect("a field");
        String::from_utf8(field.value.to_vec()).expect("text")
    };
    Ok((value("!Status"), value("Content-Type")))
}

/// Files with equal bytes have the type and status of the first of them.
#[test]
fn files_with_equal_content_share_type_and_status() {
    for name in ["odd-plain.cdb", "odd-listed.cdb", "odd-bare.cdb"] {
        let said = |path: &str| answer(name, path.as_bytes()).expect("sound");
        assert_eq!(said("/same/b.js"), ("200".into(), "text/css; charset=utf-8".into()), "{name}");
        assert_eq!(said("/lost/twin.txt").0, "404", "{name}");
        // The file comes after a redirect, which has no content either.
        assert_eq!(answer(name, b"/empty/a.css"), Err(RecordFault::Missing), "{name}");
    }
    let status = |name| answer(name, b"/copy/index.html").expect("sound").0;
    assert_eq!((status("odd-plain.cdb"), status("odd-bare.cdb")), ("200".into(), "404".into()));
}

#[test]
fn names_beyond_ascii_are_found() {
    for path in ["/\u{fc}.txt".as_bytes(), b"/\xff.txt", "/日本/".as_bytes()] {
        assert_eq!(answer("far-no-slash.cdb", path).expect("sound").0, "200");
    }
}
