//! The written entries are read back unchanged.

use std::collections::BTreeMap;
use std::io;

use pinion_archive::layout::IndexHeader;
use pinion_archive::{
    Digest, EntryKind, Fault, Layout, NewEntry, NewShared, Role, Scratch, SectionKind, WriteError,
};
use pinion_http::content_coding::Coding;
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::FromBytes;

use crate::sample_archive::{
    CODE, PATHS, add_shared_block, body, code_of, describe_site_in, finish, is_sound, look_up,
    look_up_fallback, representation, resource, site, site_with_code_and_field_rules, writer,
};

/// Paths with many shared prefixes, any bytes, and some that are long.
fn path() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ab]{0,3}(/[ab]{0,2}){0,3}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(any::<u8>(), 200..600),
    ]
    .prop_map(|tail| [b"/", tail.as_slice()].concat())
}

proptest! {
    #[test]
    fn any_set_of_entries_round_trips(
        pages in proptest::collection::btree_map(
            path(),
            (proptest::collection::vec(any::<u8>(), 0..300), any::<bool>(), any::<i64>()),
            0..200,
        ),
        absent in proptest::collection::vec(path(), 0..50),
    ) {
        let mut w = writer();
        let block = add_shared_block(&mut w, "text/plain");
        for (path, (content, packed, modified)) in &pages {
            let stored = body(&mut w, content);
            let mut representations = vec![representation(Coding::Identity, block, stored)];
            if *packed {
                representations.push(representation(Coding::Zstd, block, stored));
            }
            let modified = Some(*modified).filter(|&seconds| seconds != i64::MIN);
            let entry = NewEntry { modified, ..resource(path, &representations) };
            w.entry(&entry).expect("a valid entry");
        }
        let bytes = finish(w);
        prop_assert!(is_sound(&bytes));
        let layout = Layout::open(&bytes).expect("sound");
        let archive = layout.view(&bytes);
        prop_assert_eq!(layout.entry_count(), pages.len() as u64);
        let mut scratch = Scratch::new();
        for (path, (content, packed, modified)) in &pages {
            let entry = archive.find(path, &mut scratch).expect("sound").expect("there");
            prop_assert_eq!(entry.path(), path.as_slice());
            prop_assert_eq!(entry.modified().unwrap_or(i64::MIN), *modified);
            prop_assert_eq!(entry.representations().count(), 1 + usize::from(*packed));
            for representation in entry.representations() {
                prop_assert_eq!(archive.body(&representation), Ok(Some(content.as_slice())));
                let shared = archive.shared(representation.shared()).expect("there");
                prop_assert_eq!(shared.media_type(), b"text/plain");
            }
        }
        for path in absent.iter().filter(|path| !pages.contains_key(*path)) {
            prop_assert!(archive.find(path, &mut scratch).expect("sound").is_none());
        }
        let mut listed = BTreeMap::new();
        let mut entries = archive.entries();
        while let Some(entry) = entries.next_entry().expect("sound") {
            listed.insert(entry.path().to_vec(), entry.modified().unwrap_or(i64::MIN));
        }
        let written = pages.into_iter().map(|(path, (_, _, modified))| (path, modified)).collect();
        prop_assert_eq!(listed, written);
    }
}

#[test]
fn every_kind_of_entry_round_trips() {
    let bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let described = |key: &[u8]| look_up(&archive, key).expect("sound").expect("there");
    assert_eq!(described(b"/").target.as_deref(), Some(&b"/index.html"[..]));
    assert_eq!(described(b"/").representations, described(b"/index.html").representations);
    let codings: Vec<Coding> = described(b"/").representations.iter().map(|it| it.coding).collect();
    assert_eq!(codings, [Coding::Identity, Coding::Gzip]);
    assert_eq!(described(b"/style.css").modified, None);
    assert_eq!(described(b"/copy.css").modified, Some(1_700_000_000));
    assert_eq!(described(b"/copy.css").representations, described(b"/style.css").representations);
    let old = described(b"/old");
    assert_eq!((old.kind, old.status, old.keeps_query), (EntryKind::Redirect, 301, true));
    assert_eq!(old.target.as_deref(), Some(&b"/new?a=b"[..]));
    assert_eq!(old.shared.as_deref(), Some(&b"X-Moved: yes\r\n|"[..]));
    assert_eq!(described(b"/app/x").kind, EntryKind::Rewrite);
    assert_eq!(described(b"/secret.priv.txt").kind, EntryKind::Private);
    assert_eq!(described(b"/hook").kind, EntryKind::Handler);
    assert_eq!(archive.external_count(), 1);
    let meta: Vec<_> = archive.meta().expect("sound").collect();
    assert_eq!(meta, [("tool", "test")]);
    assert!(archive.shared_for(Role::Ordinary).is_none());
    let generated = archive.shared_for(Role::Generated).expect("written");
    assert_eq!(generated.full, b"Cache-Control: no-store\r\n");
    let moved = archive.shared_for(Role::SlashRedirect).expect("written");
    assert_eq!((moved.status, moved.full), (308, &b"X-Moved: yes\r\n"[..]));
}

#[test]
fn the_nearest_not_found_page_is_found() {
    let bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let key = |path: &[u8]| look_up_fallback(&archive, path).expect("sound").expect("root").path;
    assert_eq!(key(b"/"), b"404:/");
    assert_eq!(key(b"/x"), b"404:/");
    assert_eq!(key(b"/docs"), b"404:/");
    assert_eq!(key(b"/docs/"), b"404:/docs/");
    assert_eq!(key(b"/docs/a/b/c"), b"404:/docs/");
    assert_eq!(key(b"/docsx/a"), b"404:/");
    let deep = [&b"/docs"[..], &b"/x".repeat(4000)].concat();
    assert_eq!(key(&deep), b"404:/docs/");
    assert_eq!(look_up(&archive, b"404:/x"), Ok(None));
}

#[test]
fn without_a_not_found_page_there_is_none() {
    let bytes = finish(writer());
    let layout = Layout::open(&bytes).expect("sound");
    assert_eq!(layout.entry_count(), 0);
    assert_eq!(look_up_fallback(&layout.view(&bytes), b"/x"), Ok(None));
    assert_eq!(look_up(&layout.view(&bytes), b"/"), Ok(None));
    assert!(is_sound(&bytes));
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    assert_eq!(site(), site());
}

#[test]
fn equal_bodies_and_blocks_are_stored_once() {
    let mut w = writer();
    assert_eq!(add_shared_block(&mut w, "text/css"), add_shared_block(&mut w, "text/css"));
    assert_ne!(add_shared_block(&mut w, "text/css"), add_shared_block(&mut w, "text/html"));
    let first = body(&mut w, b"once");
    assert_eq!(w.known(&first.0), Some(first.1));
    assert_eq!(body(&mut w, b"once"), first);
    let mut content: &[u8] = b"once";
    assert_eq!(w.body_from(&first.0, 4, &mut content).expect("known"), first.1);
    assert_eq!(content, b"once", "a known body is not read");
    assert_ne!(body(&mut w, b"twice").1, first.1);
    let (summary, _) = w.finish(&[]).expect("well-formed");
    assert_eq!((summary.bodies, summary.body_bytes), (2, 9));
    assert_eq!((summary.repeated_bodies, summary.repeated_bytes), (2, 8));
    assert_eq!(summary.shared_blocks, 2);
}

#[test]
fn large_bodies_begin_on_a_page() {
    let mut w = writer();
    let block = add_shared_block(&mut w, "text/plain");
    let contents = [vec![1; 5], vec![2; 64 * 1024], vec![3; 64 * 1024 - 1], vec![4; 300_000]];
    for (rank, content) in contents.iter().enumerate() {
        let representations = [representation(Coding::Identity, block, body(&mut w, content))];
        w.entry(&resource(format!("/{rank}").as_bytes(), &representations)).expect("a valid entry");
    }
    let bytes = finish(w);
    assert!(is_sound(&bytes));
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let mut scratch = Scratch::new();
    for (rank, content) in contents.iter().enumerate() {
        let key = format!("/{rank}");
        let entry = archive.find(key.as_bytes(), &mut scratch).expect("sound").expect("there");
        let stored = archive.body(&entry.representation(0).expect("one")).expect("sound");
        let stored = stored.expect("inside");
        assert_eq!(stored, content);
        let offset = stored.as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(offset % if rank % 2 == 1 { 4096 } else { 8 }, 0);
    }
}

#[test]
fn a_streamed_body_must_match_its_announced_digest() {
    let content = vec![5; 300_000];
    let digest = Digest::of(&content);
    let mut w = writer();
    let block = add_shared_block(&mut w, "text/plain");
    for wrong in [&content[1..], &[content.as_slice(), b"x"].concat(), &vec![6; 300_000]] {
        let error = w.body_from(&digest, 300_000, &mut &wrong[..]).expect_err("another body");
        assert!(matches!(error, WriteError::BodyChanged), "{error}");
        assert_eq!(w.known(&digest), None);
    }
    let mut broken = io::Read::chain(&content[..1000], Broken);
    let error = w.body_from(&digest, 300_000, &mut broken).expect_err("a read error");
    assert!(matches!(error, WriteError::Read(_)), "{error}");
    let body = w.body_from(&digest, 300_000, &mut &content[..]).expect("the announced one");
    let representations = [representation(Coding::Identity, block, (digest, body))];
    w.entry(&resource(b"/", &representations)).expect("a valid entry");
    let bytes = finish(w);
    assert!(is_sound(&bytes), "the bytes of the other bodies are in it, and have their digests");
    let layout = Layout::open(&bytes).expect("sound");
    let mut scratch = Scratch::new();
    let archive = layout.view(&bytes);
    let entry = archive.find(b"/", &mut scratch).expect("sound").expect("there");
    let stored = archive.body(&entry.representation(0).expect("one"));
    assert_eq!(stored, Ok(Some(content.as_slice())));
}

struct Broken;

impl io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("broken"))
    }
}

#[test]
fn the_writer_refuses_entries_that_the_reader_refuses() {
    let mut w = writer();
    let block = add_shared_block(&mut w, "text/plain");
    let stored = body(&mut w, b"x");
    let identity = representation(Coding::Identity, block, stored);
    let gzip = representation(Coding::Gzip, block, stored);
    let mut fault = |entry: NewEntry<'_>| match w.entry(&entry).expect_err("refused") {
        WriteError::Entry { fault, .. } => fault,
        other => panic!("{other}"),
    };
    assert_eq!(fault(resource(b"/", &[])), Fault::Representations);
    assert_eq!(fault(resource(b"/", &[gzip])), Fault::Representations);
    assert_eq!(fault(resource(b"/", &[identity, identity])), Fault::Representations);
    assert_eq!(fault(resource(b"/", &[identity, gzip, gzip])), Fault::Representations);
    let one = [identity];
    assert_eq!(fault(NewEntry { target: b"/a b", ..resource(b"/", &one) }), Fault::Target);
    assert_eq!(fault(NewEntry { target: b"/a\r\nb", ..resource(b"/", &one) }), Fault::Target);
    assert_eq!(fault(NewEntry { status: 301, ..resource(b"/", &one) }), Fault::Status);
    let redirect = NewEntry { kind: EntryKind::Redirect, status: 301, ..resource(b"/", &[]) };
    assert_eq!(fault(redirect), Fault::Target);
    assert_eq!(fault(NewEntry { target: b"/x", status: 200, ..redirect }), Fault::Status);
    let long = [b"/".as_slice(), &[b'x'; 8192]].concat();
    assert_eq!(fault(resource(&long, &one)), Fault::Length);
    let unknown = pinion_archive::SharedId(1);
    let foreign = [pinion_archive::NewRepresentation { shared: unknown, ..identity }];
    assert_eq!(fault(resource(b"/", &foreign)), Fault::SharedNumber);
    for path in [&b""[..], b"x", b"404:/"] {
        let error = w.entry(&resource(path, &one)).expect_err("no path");
        assert!(matches!(error, WriteError::NotAPath(_)), "{error}");
    }
    let deep = [b"/x".repeat(64).as_slice(), b"/"].concat();
    let error = w.fallback(&resource(&deep, &one)).expect_err("too deep");
    assert!(matches!(error, WriteError::FallbackTooDeep(_)), "{error}");
    let bytes = finish(w);
    assert_eq!(Layout::open(&bytes).expect("sound").entry_count(), 0, "nothing was kept of them");
}

#[test]
fn two_entries_for_one_path_are_named() {
    let mut w = writer();
    let block = add_shared_block(&mut w, "text/plain");
    let representations = [representation(Coding::Identity, block, body(&mut w, b"x"))];
    for path in [&b"/a"[..], b"/b", b"/a"] {
        w.entry(&resource(path, &representations)).expect("noticed at the end");
    }
    match w.finish(&[]) {
        Err(WriteError::Duplicate(path)) => assert_eq!(&*path, b"/a"),
        other => panic!("{:?}", other.map(|(summary, _)| summary)),
    }
}

/// Paths whose hashes with seed 0 are all in the first twentieth of the table would result in one
/// long row of full buckets.
#[test]
fn paths_chosen_to_collide_get_another_seed() {
    let paths: Vec<String> = (0..)
        .map(|number| format!("/{number}"))
        .filter(|path| xxh3_64_with_seed(path.as_bytes(), 0) < u64::MAX / 20)
        .take(1000)
        .collect();
    let mut w = writer();
    let block = add_shared_block(&mut w, "text/plain");
    let representations = [representation(Coding::Identity, block, body(&mut w, b"x"))];
    for path in &paths {
        w.entry(&resource(path.as_bytes(), &representations)).expect("a valid entry");
    }
    let bytes = finish(w);
    let layout = Layout::open(&bytes).expect("sound");
    let index = layout.sections().iter().find(|section| section.kind == SectionKind::INDEX);
    let start = index.expect("required").offset as usize;
    let (header, _) = IndexHeader::read_from_prefix(&bytes[start..]).expect("a header");
    assert_eq!(header.seed.get(), 1);
    let archive = layout.view(&bytes);
    for path in &paths {
        assert!(look_up(&archive, path.as_bytes()).expect("sound").is_some());
    }
    assert_eq!(look_up(&archive, b"/nothing"), Ok(None));
}

#[test]
fn fields_of_the_server_and_broken_lines_are_refused() {
    let mut w = writer();
    for (name, value) in [
        ("Content-Length", "1"),
        ("X", "a\r\nY: b"),
        ("", "a"),
        ("X Y", "a"),
        ("X", "a\0"),
        ("Content-Type", "b/c"),
    ] {
        let fields = [(name, value)];
        let block = NewShared {
            role: Role::Ordinary,
            status: 200,
            content_type: Some("a/b"),
            fields: &fields,
            not_modified: &[],
        };
        let error = w.shared(&block).expect_err("refused");
        assert!(matches!(error, WriteError::Shared(Fault::Syntax)), "{name}: {error}");
    }
}

#[test]
fn build_facts_that_are_not_lines_are_refused() {
    for (key, value) in [("", "a"), ("a=b", "c"), ("a", "b\nc"), ("a\n", "b")] {
        let error = writer().finish(&[(key, value)]).map(|(summary, _)| summary);
        assert!(matches!(error, Err(WriteError::Meta(_))), "{key:?} {value:?}");
    }
}

/// Opening reads the header page, the index header, the shared blocks and the rules, and nothing
/// else: all other bytes can be anything.
#[test]
fn opening_reads_no_records_and_no_bodies() {
    let whole = site();
    let layout = Layout::open(&whole).expect("sound");
    let mut bytes = vec![0xa5; whole.len()];
    bytes[..4096].copy_from_slice(&whole[..4096]);
    for section in layout.sections() {
        let start = section.offset as usize;
        let read = match section.kind {
            SectionKind::SHARED | SectionKind::RULES => section.bytes as usize,
            SectionKind::INDEX => 64,
            _ => 0,
        };
        bytes[start..start + read].copy_from_slice(&whole[start..start + read]);
    }
    let opened = Layout::open(&bytes).expect("reads nothing of the rest");
    assert_eq!(opened.entry_count(), layout.entry_count());
    let results = describe_site_in(&opened, &bytes);
    assert!(results.iter().take(PATHS.len()).all(Result::is_err), "and nothing of it is served");
}

/// Code is read as it was written, and a look-up of content does not find it.
#[test]
fn code_is_not_found_as_content() {
    let bytes = site_with_code_and_field_rules();
    assert!(is_sound(&bytes));
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let expected =
        CODE.map(|(path, content)| (path.as_bytes().to_vec(), content.as_bytes().into()));
    assert_eq!(code_of(&archive).expect("sound"), expected);
    for (path, _) in CODE {
        assert_eq!(look_up(&archive, path.as_bytes()), Ok(None), "{path}");
    }
    let section = layout.sections().iter().find(|section| section.kind == SectionKind::CODE);
    assert!(section.expect("a section").required, "who does not know it must not serve the rest");
    let without = site();
    let layout = Layout::open(&without).expect("sound");
    assert!(layout.view(&without).code().expect("none").is_empty());
}

/// A path that is marked as one of an earlier release is an entry, or the archive is invalid.
#[test]
fn paths_of_earlier_releases_must_be_entries() {
    for (named, sound) in [("/a", true), ("/b", false)] {
        let mut w = writer();
        let block = add_shared_block(&mut w, "text/plain");
        let stored = body(&mut w, b"a");
        let representations = [representation(Coding::Identity, block, stored)];
        w.entry(&resource(b"/a", &representations)).expect("a valid entry");
        w.previous(named.as_bytes(), 1);
        assert_eq!(is_sound(&finish(w)), sound, "{named}");
    }
}
