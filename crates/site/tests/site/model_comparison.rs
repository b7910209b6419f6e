//! For any site and any request, the response equals that of a plain model.

use std::collections::BTreeMap;

use pinion_archive::{Layout, NewEntry, Role};
use pinion_http::content_coding::Coding;
use proptest::prelude::*;

use crate::sample_site::{Maker, ask_opened, resource};

/// Returns paths of few names, so that paths meet, with slashes anywhere.
fn path() -> impl Strategy<Value = String> {
    "(/[ab]{0,2}){1,4}"
}

/// Returns the expected response by the order of docs/resolution.md, over maps: the exact path, the
/// other slash form, the nearest page, nothing.
fn expected(
    pages: &BTreeMap<String, Vec<u8>>,
    missing: &BTreeMap<String, Vec<u8>>,
    path: &str,
) -> (u16, Option<String>, Vec<u8>) {
    if let Some(body) = pages.get(path) {
        return (200, None, body.clone());
    }
    let other = match path.strip_suffix('/') {
        Some(without) => without.to_owned(),
        None => format!("{path}/"),
    };
    let empty_segment = path.ends_with("//") || path == "/";
    if pages.contains_key(&other) && !empty_segment && !other.starts_with("//") {
        return (308, Some(other), Vec::new());
    }
    let slashes = path.char_indices().rev().filter(|(_, c)| *c == '/');
    for (slash, _) in slashes {
        if let Some(body) = missing.get(&path[..=slash]) {
            return (404, None, body.clone());
        }
    }
    (404, None, b"built in".to_vec())
}

proptest! {
    #[test]
    fn a_site_agrees_with_the_model(
        pages in proptest::collection::btree_map(path(), "[a-z]{1,9}", 0..20),
        missing in proptest::collection::btree_map("(/[ab]{0,2}){0,3}/", "[a-z]{1,9}", 0..4),
        asked in proptest::collection::vec(path(), 1..40),
    ) {
        let bytes = |map: BTreeMap<String, String>| -> BTreeMap<String, Vec<u8>> {
            map.into_iter().map(|(path, text)| (path, text.into_bytes())).collect()
        };
        let (pages, missing) = (bytes(pages), bytes(missing));
        let mut m = Maker::new();
        let plain = m.shared(Role::Ordinary, 200, "text/plain");
        for (path, content) in &pages {
            let forms = [m.form(Coding::Identity, plain, content)];
            m.entry(&resource(path, &forms));
        }
        for (path, content) in &missing {
            let forms = [m.form(Coding::Identity, plain, content)];
            m.fallback(&NewEntry { status: 404, ..resource(path, &forms) });
        }
        let archive = m.finish();
        let layout = Layout::open(&archive).expect("sound");
        for path in &asked {
            let response = ask_opened(&layout, &archive, &format!("GET {path} HTTP/1.1"));
            let (status, location, mut body) = expected(&pages, &missing, path);
            prop_assert_eq!(response.status, status, "{}", path);
            prop_assert_eq!(response.field("Location"), location.as_deref(), "{}", path);
            if body == b"built in" {
                body = response.body.clone();
                prop_assert!(body.starts_with(b"<!doctype html>"));
            }
            prop_assert_eq!(response.body, body, "{}", path);
        }
    }
}
