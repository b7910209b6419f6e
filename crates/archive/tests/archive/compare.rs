//! Compares two archives path by path, and checks the result with a comparison of plain maps.

use std::collections::BTreeMap;

use pinion_archive::{
    ArchivePart, Aspects, CompareError, Comparison, EntryKind, Fault, Layout, NewEntry, NewShared,
    Pair, Role, SectionKind,
};
use pinion_http::content_coding::Coding;
use proptest::prelude::*;

use crate::sample_archive::{
    add_shared_block, body, finish, representation, resource, site, writer,
};

/// The response to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Response {
    Content { content: u8, gzip: Option<u8>, css: bool, modified: Option<i64>, alias: bool },
    Moved { to: u8, permanent: bool, query: bool, fields: bool },
}

type Site = BTreeMap<String, Response>;

fn written(site: &Site) -> Vec<u8> {
    let mut w = writer();
    let types = [add_shared_block(&mut w, "text/html"), add_shared_block(&mut w, "text/css")];
    let block = NewShared {
        role: Role::Ordinary,
        status: 308,
        content_type: None,
        fields: &[("Cache-Control", "no-cache")],
        not_modified: &[],
    };
    let moved = w.shared(&block).expect("well-formed");
    for (path, response) in site {
        match *response {
            Response::Content { content, gzip, css, modified, alias } => {
                let fields = types[usize::from(css)];
                let mut representations =
                    vec![representation(Coding::Identity, fields, body(&mut w, &[content]))];
                let gzip = gzip.map(|gzip| body(&mut w, &[0x1f, gzip]));
                representations.extend(gzip.map(|gzip| representation(Coding::Gzip, fields, gzip)));
                let target: &[u8] = if alias { b"/other" } else { b"" };
                let entry =
                    NewEntry { modified, target, ..resource(path.as_bytes(), &representations) };
                w.entry(&entry).expect("valid");
            }
            Response::Moved { to, permanent, query, fields } => {
                let target = format!("/{to}");
                let entry = NewEntry {
                    kind: EntryKind::Redirect,
                    status: if permanent { 301 } else { 302 },
                    target: target.as_bytes(),
                    keeps_query: query,
                    modified: None,
                    shared: fields.then_some(moved),
                    ..resource(path.as_bytes(), &[])
                };
                w.entry(&entry).expect("valid");
            }
        }
    }
    finish(w)
}

/// Returns the aspects in which two responses differ.
fn model(old: &Response, new: &Response) -> Aspects {
    match (old, new) {
        (
            Response::Content { content, gzip, css, modified, alias },
            Response::Content {
                content: content_2,
                gzip: gzip_2,
                css: css_2,
                modified: modified_2,
                alias: alias_2,
            },
        ) => Aspects {
            target: alias != alias_2,
            modified: modified != modified_2,
            content: content != content_2,
            codings: gzip.is_some() != gzip_2.is_some() || (content == content_2 && gzip != gzip_2),
            fields: css != css_2,
            ..Aspects::default()
        },
        (
            Response::Moved { to, permanent, query, fields },
            Response::Moved { to: to_2, permanent: permanent_2, query: query_2, fields: fields_2 },
        ) => Aspects {
            status: permanent != permanent_2,
            target: to != to_2,
            query: query != query_2,
            fields: fields != fields_2,
            ..Aspects::default()
        },
        (
            Response::Content { gzip: _, alias: _, modified, .. },
            Response::Moved { query, fields, .. },
        )
        | (
            Response::Moved { query, fields, .. },
            Response::Content { gzip: _, alias: _, modified, .. },
        ) => Aspects {
            kind: true,
            status: true,
            target: true,
            query: *query,
            modified: modified.is_some(),
            content: true,
            codings: true,
            fields: *fields,
        },
    }
}

fn responses() -> impl Strategy<Value = Response> {
    let content = (0..3u8, prop::option::of(0..2u8), any::<bool>(), prop::option::of(0..2i64));
    prop_oneof![
        3 => (content, any::<bool>()).prop_map(|((content, gzip, css, modified), alias)| {
            Response::Content { content, gzip, css, modified, alias }
        }),
        1 => (0..2u8, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(to, permanent, query, fields)| Response::Moved { to, permanent, query, fields }
        ),
    ]
}

fn sites() -> impl Strategy<Value = Site> {
    prop::collection::btree_map("/[a-f]", responses(), 0..6)
}

type Found = Vec<(String, bool, bool, Aspects)>;

fn compared(before: &[u8], after: &[u8]) -> (Found, u64) {
    let layouts = [before, after].map(|bytes| Layout::open(bytes).expect("sound"));
    let (before, after) = (layouts[0].view(before), layouts[1].view(after));
    let comparison = Comparison::new::<()>(before, after).expect("sound");
    let mut found = Vec::new();
    let equal = comparison.changes::<()>(|change| {
        let key = change.entry().expect("one of them").path().escape_ascii().to_string();
        found.push((key, change.before.is_some(), change.after.is_some(), change.aspects));
        Ok(())
    });
    let equal = equal.expect("sound");
    let mut pair = Pair::default();
    for (key, old, new, aspects) in &found {
        let change = comparison.at::<()>(key.as_bytes(), &mut pair).expect("sound");
        let change = change.expect("it was found to be there");
        assert_eq!((change.before.is_some(), change.after.is_some()), (*old, *new));
        assert_eq!(change.aspects, *aspects);
    }
    assert!(matches!(comparison.at::<()>(b"/none", &mut pair), Ok(None)));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    (found, equal)
}

proptest! {
    #[test]
    fn a_comparison_agrees_with_the_model(old in sites(), new in sites()) {
        let (found, equal) = compared(&written(&old), &written(&new));
        let mut expected = Vec::new();
        let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in &keys {
            let aspects = match (old.get(*key), new.get(*key)) {
                (Some(old), Some(new)) => model(old, new),
                _ => Aspects::default(),
            };
            let row = ((*key).clone(), old.contains_key(*key), new.contains_key(*key), aspects);
            if !(row.1 && row.2) || aspects.any() {
                expected.push(row);
            }
        }
        prop_assert_eq!(equal as usize, keys.len() - expected.len());
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn an_archive_with_every_kind_of_entry_equals_itself() {
    let site = site();
    let layout = Layout::open(&site).expect("sound");
    let (mut entries, mut count) = (layout.view(&site).entries(), 0);
    while entries.next_entry().expect("sound").is_some() {
        count += 1;
    }
    assert_eq!(compared(&site, &site), (Vec::new(), count));
}

#[test]
fn not_found_pages_are_compared_too() {
    let page = |content: &[u8]| {
        let mut w = writer();
        let html = add_shared_block(&mut w, "text/html");
        let representations = [representation(Coding::Identity, html, body(&mut w, content))];
        w.fallback(&NewEntry { status: 404, ..resource(b"/", &representations) }).expect("valid");
        finish(w)
    };
    let (found, _) = compared(&page(b"a"), &page(b"b"));
    let content = Aspects { content: true, ..Aspects::default() };
    assert_eq!(found, [("404:/".to_owned(), true, true, content)]);
}

#[test]
fn damage_is_reported_with_the_damaged_archive() {
    let site = site();
    let sound = Layout::open(&site).expect("sound");
    let digests = sound.sections().iter().find(|section| section.kind == SectionKind::DIGESTS);
    let mut damaged = site.clone();
    damaged[digests.expect("a section").offset as usize + 20] ^= 1;
    let layout = Layout::open(&damaged).expect("digests are not read when it is opened");
    let (sound, damaged) = (sound.view(&site), layout.view(&damaged));
    let part = ArchivePart::Section(SectionKind::DIGESTS);
    match Comparison::new::<()>(damaged, sound) {
        Err(CompareError::Before(damage)) => {
            assert_eq!((damage.part, damage.fault), (part, Fault::Checksum));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(Comparison::new::<()>(sound, damaged), Err(CompareError::After(_))));
}
