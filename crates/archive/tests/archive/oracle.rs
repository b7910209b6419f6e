//! Any bytes as an archive: what the fuzz target checks, and the replay of its corpus.
//!
//! The first byte says how the rest is meant:
//!
//! | Byte | Meaning |
//! |---|---|
//! | 0 | edits of a sound archive: its answers stay the same or become errors |
//! | 1 | edits, after which all checks are made right again: errors or answers in bounds |
//! | any other | the rest is the file |
//!
//! An edit is four bytes: where to count from (the highest bit set: from the end of the header
//! page, else from the start of the file), two bytes of place, one that is combined with the byte
//! there.

use pinion_archive::layout::HEADER_PAGE_BYTES;
use pinion_archive::limits::{RULE_CAPTURES_MAX, RULES_MAX};
use pinion_archive::{
    Archive, Layout, PathPart, Place, QueryValue, Rule, Rules, Scratch, SectionKind, TargetPart,
    verify,
};

use crate::forge::reseal;
use crate::sample::{KEYS, everything, everything_in, look_up, look_up_fallback, rules_of, site};

/// Panics when the archive room does something wrong with these bytes.
pub(crate) fn check(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    match mode {
        0 => {
            let whole = site();
            let sound = Layout::open(&whole).expect("sound");
            let said = everything_in(&sound, &whole);
            let edited = edit(&whole, rest);
            if let Ok(layout) = Layout::open(&edited) {
                for (was, is) in said.iter().zip(everything_in(&layout, &edited)) {
                    assert!(is.is_err() || *was == is, "{was:?} became {is:?}");
                }
                assert_eq!(rules_of(&sound.view(&whole)), rules_of(&layout.view(&edited)));
            }
            let sound = verify(&edited, &mut |_, _| {}).is_ok_and(|report| report.is_sound());
            assert_eq!(sound, edited == whole, "verify sees every change");
        }
        1 => {
            let mut edited = edit(&site(), rest);
            reseal(&mut edited);
            check_file(&edited);
        }
        _ => check_file(rest),
    }
}

fn edit(whole: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for edit in edits.chunks_exact(4) {
        let number = usize::from(edit[1]) << 8 | usize::from(edit[2]);
        let place = if edit[0] & 0x80 == 0 { number } else { HEADER_PAGE_BYTES + number };
        let length = bytes.len();
        bytes[place % length] ^= edit[3];
    }
    bytes
}

/// Whatever an archive says is within the file and about what was asked for.
fn check_file(bytes: &[u8]) {
    let Ok(layout) = Layout::open(bytes) else {
        assert!(verify(bytes, &mut |_, _| {}).is_err());
        return;
    };
    let archive = layout.view(bytes);
    let bodies = layout.sections().iter().find(|section| section.kind == SectionKind::BODIES);
    let bodies = bodies.expect("it opened");
    for said in everything(&archive).into_iter().flatten().flatten() {
        for form in said.forms {
            if let Place::Archive(range) = form.place {
                let end = range.offset.checked_add(range.bytes).expect("no overflow");
                assert!(range.offset >= bodies.offset && end <= bodies.offset + bodies.bytes);
            }
        }
    }
    for key in KEYS {
        if let Ok(Some(said)) = look_up(&archive, key) {
            assert_eq!(said.path, key);
        }
    }
    if let Ok(Some(said)) = look_up_fallback(&archive, b"/docs/x") {
        assert!([&b"404:/"[..], b"404:/docs/"].contains(&said.path.as_slice()));
    }
    check_rules(archive.rules());
    check_walk(&archive);
    let _ = verify(bytes, &mut |_, _| {});
}

/// Every rule can be read, and none has more captures than there is room for.
fn check_rules(rules: &Rules) {
    assert_eq!(rules.iter().count(), rules.len());
    assert!(rules.len() <= RULES_MAX);
    for rule in rules.iter() {
        let in_path = rule.path().filter(|part| !matches!(part, PathPart::Literal(_))).count();
        let in_query = rule.query().filter(|(_, value)| *value == QueryValue::Capture).count();
        assert!(in_path + in_query <= RULE_CAPTURES_MAX);
        for part in rule.target() {
            if let TargetPart::Capture(number) = part {
                assert!(usize::from(number) < in_path + in_query);
            }
        }
    }
    for path in [&b"/"[..], b"/gone", b"/blog/2020/p", b""] {
        let numbers = |found: &mut dyn Iterator<Item = Rule<'_>>| -> Vec<u32> {
            found.map(|rule| rule.number()).collect()
        };
        assert!(numbers(&mut rules.exact(path)).is_sorted());
        assert!(numbers(&mut rules.patterns(path, u32::MAX)).is_sorted());
    }
}

/// The walk over all records ends, and a sound archive's index finds each of them.
fn check_walk(archive: &Archive<'_>) {
    let mut entries = archive.entries();
    let mut scratch = Scratch::new();
    while let Ok(Some(entry)) = entries.next_entry() {
        let _ = archive.find(entry.path(), &mut scratch);
    }
    let _ = archive.meta().map(Iterator::count);
}
