//! Any bytes as an archive: the checks of the fuzz target, and the replay of its corpus.
//!
//! The first byte selects the kind of the rest:
//!
//! | Byte | Meaning |
//! |---|---|
//! | 0 | edits of a sound archive: its responses stay the same or become errors |
//! | 1 | edits, after which all checks are made right again: errors or answers in bounds |
//! | 2, 3 | the same of an archive with pages of errors, old assets and code |
//! | any other | the rest is the file |

use pinion_archive::limits::{ERROR_PAGE_MAX_BYTES, RULE_CAPTURES_MAX, RULES_MAX};
use pinion_archive::{
    Archive, BodyLocation, EntryKind, FieldRules, Layout, PathPart, QueryValue, Rule, Rules,
    Scratch, SectionKind, SharedId, TargetPart, ValuePart, verify,
};

use crate::compressed_fields_law::check_fields;
use crate::fuzz_edits::{correct_checksums, edit};
use crate::sample_archive::{
    PATHS, code_of, describe_site, describe_site_in, error_page_of, field_rules_of, look_up,
    look_up_fallback, previous_of, rules_of, site, site_with_code_and_field_rules,
};

/// Panics if the archive crate handles these bytes wrongly.
pub(crate) fn check(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    match mode {
        0 => {
            let whole = site();
            let sound = Layout::open(&whole).expect("sound");
            let results = describe_site_in(&sound, &whole);
            let edited = edit(&whole, rest);
            if let Ok(layout) = Layout::open(&edited) {
                for (was, is) in results.iter().zip(describe_site_in(&layout, &edited)) {
                    assert!(is.is_err() || *was == is, "{was:?} became {is:?}");
                }
                assert_eq!(rules_of(&sound.view(&whole)), rules_of(&layout.view(&edited)));
            }
            check_seen(&whole, &edited);
        }
        2 => {
            let whole = site_with_code_and_field_rules();
            let sound = Layout::open(&whole).expect("sound");
            let sound = sound.view(&whole);
            let edited = edit(&whole, rest);
            if let Ok(layout) = Layout::open(&edited) {
                let archive = layout.view(&edited);
                for status in 0..1000 {
                    let page = error_page_of(&archive, status);
                    assert!(page.is_none() || page == error_page_of(&sound, status), "{status}");
                }
                let previous = previous_of(&archive);
                assert!(previous.is_err() || previous == previous_of(&sound));
                assert_eq!(field_rules_of(&archive), field_rules_of(&sound));
                let code = code_of(&archive);
                assert!(code.is_err() || code == code_of(&sound));
            }
            check_seen(&whole, &edited);
        }
        1 | 3 => {
            let whole = if *mode == 1 { site() } else { site_with_code_and_field_rules() };
            let mut edited = edit(&whole, rest);
            correct_checksums(&mut edited);
            check_file(&edited);
        }
        _ => check_file(rest),
    }
}

fn check_seen(whole: &[u8], edited: &[u8]) {
    let sound = verify(edited, &mut |_, _| {}).is_ok_and(|report| report.is_sound());
    assert_eq!(sound, edited == whole, "verify sees every change");
}

/// Checks that all data of an archive are within the file, and belong to the requested entry.
fn check_file(bytes: &[u8]) {
    let Ok(layout) = Layout::open(bytes) else {
        assert!(verify(bytes, &mut |_, _| {}).is_err());
        return;
    };
    let archive = layout.view(bytes);
    let bodies = layout.sections().iter().find(|section| section.kind == SectionKind::BODIES);
    let bodies = bodies.expect("it opened");
    for described in describe_site(&archive).into_iter().flatten().flatten() {
        for representation in described.representations {
            if let BodyLocation::Archive(range) = representation.location {
                let end = range.offset.checked_add(range.bytes).expect("no overflow");
                assert!(range.offset >= bodies.offset && end <= bodies.offset + bodies.bytes);
            }
        }
    }
    for key in PATHS {
        if let Ok(Some(described)) = look_up(&archive, key) {
            assert_eq!(described.path, key);
        }
    }
    if let Ok(Some(described)) = look_up_fallback(&archive, b"/docs/x") {
        assert!([&b"404:/"[..], b"404:/docs/"].contains(&described.path.as_slice()));
    }
    check_shared(&archive);
    check_rules(archive.rules());
    check_field_rules(archive.field_rules());
    check_walk(&archive);
    check_error_pages(&archive);
    check_previous(&archive);
    check_code(&archive);
    let _ = verify(bytes, &mut |_, _| {});
}

/// Checks that every block has the same fields in every version of HTTP, in each of its parts, and
/// that the block from which it was made precedes it.
fn check_shared(archive: &Archive<'_>) {
    for (id, block) in (0..).map_while(|id| Some((id, archive.shared(SharedId(id)).ok()?))) {
        assert!(block.plain.is_none_or(|plain| plain.0 < id));
        check_fields(&block.full_fields());
        check_fields(&block.fields_without_type());
        check_fields(&block.not_modified_fields());
        assert_eq!(block.fields_without_type().h1, block.without_type());
    }
}

/// Checks that every rule for fields can be read and matched with any path, and uses only
/// placeholders of its pattern.
fn check_field_rules(rules: &FieldRules) {
    assert_eq!(rules.iter().count(), rules.len());
    assert!(rules.len() <= RULES_MAX);
    for path in [&b"/"[..], b"/tiles/a.b/c", b"/tiles/a.b", b"//", b"", b"/\0"] {
        let about: Vec<u32> = rules.about(path).map(|(number, _)| number).collect();
        assert!(about.is_sorted());
        for (number, rule) in (0..).zip(rules.iter()) {
            let captures = rule.pattern().matched(path);
            assert_eq!(captures.is_some(), about.contains(&number), "{}", path.escape_ascii());
            for part in rule.changes().filter_map(|change| change.value()).flatten() {
                if let (ValuePart::Capture(number), Some(captures)) = (part, captures) {
                    assert!(captures.get(number).is_some());
                }
            }
        }
    }
}

/// Checks that every rule can be read, and that none exceeds the limit of captures.
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

/// Checks that the iteration over all records ends, and that a sound archive's index finds each of
/// them.
fn check_walk(archive: &Archive<'_>) {
    let mut entries = archive.entries();
    let mut scratch = Scratch::new();
    while let Ok(Some(entry)) = entries.next_entry() {
        let _ = archive.find(entry.path(), &mut scratch);
    }
    let _ = archive.meta().map(Iterator::count);
}

/// Checks that an error page is the entry of its status, and within the size limit.
fn check_error_pages(archive: &Archive<'_>) {
    for status in 0..1000 {
        let Some((fields, body)) = error_page_of(archive, status) else { continue };
        assert!((400..=599).contains(&status) && body.len() as u64 <= ERROR_PAGE_MAX_BYTES);
        assert!(fields.is_empty() || fields.ends_with(b"\r\n"));
        let mut scratch = Scratch::new();
        let entry = archive.find(format!("error:{status}").as_bytes(), &mut scratch);
        let entry = entry.expect("its page was read").expect("its page was found");
        assert_eq!((entry.kind(), entry.status()), (EntryKind::Resource, status));
        // Only its first representation is used.
        let representation = entry.representation(0).expect("its page was read");
        assert_eq!(
            archive.shared(representation.shared()).expect("its page was read").full,
            fields
        );
        assert_eq!(archive.body(&representation), Ok(Some(&*body)));
    }
}

/// Checks that assets of earlier releases are sorted and found by their paths. Code must be sorted
/// and found too.
fn check_code(archive: &Archive<'_>) {
    let Ok(code) = archive.code() else { return };
    assert!(code.iter().is_sorted_by(|(one, _), (next, _)| one < next));
    let count = code.iter().count();
    assert_eq!((count, count == 0), (code.len(), code.is_empty()));
    for (path, content) in code.iter() {
        assert!(path.starts_with(b"/"));
        assert_eq!(code.find(path), Some(content));
    }
}

fn check_previous(archive: &Archive<'_>) {
    let Ok(previous) = archive.previous() else { return };
    assert!(previous.iter().is_sorted_by(|(one, _), (next, _)| one < next));
    let count = previous.iter().count();
    assert_eq!((count, count == 0), (previous.len(), previous.is_empty()));
    for (path, age) in previous.iter() {
        assert!(path.starts_with(b"/") && age > 0);
        assert_eq!(previous.age(path), Some(age));
    }
}
