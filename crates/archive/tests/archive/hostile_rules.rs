//! Rules, variants and fallback pages with wrong values and correct checksums.

use pinion_archive::layout::{INDEX_FLAGS, RULE_KEEPS_QUERY, RuleHeader, SINGLE_PAGE_KEY};
use pinion_archive::limits::{RULES_MAX, RULES_SECTION_MAX_BYTES};
use pinion_archive::{
    ArchivePart, Fault, Layout, NewEntry, NewRule, OpenError, PathPart, SectionFault, SectionKind,
    TargetPart, WriteError, verify,
};
use zerocopy::FromBytes;

use crate::checksum_forger::ForgedArchive;
use crate::sample_archive::{
    RULES, add_shared_block, body, finish, is_sound, representation, resource, rules_of, site,
    writer,
};
use pinion_http::content_coding::Coding;

/// Returns the part and the fault for which an archive is refused whose first rule was changed.
fn refused(change: impl FnOnce(&mut RuleHeader, &mut [u8])) -> (ArchivePart, Fault) {
    let forged = ForgedArchive::new().change_section(SectionKind::RULES, |rules| {
        let (header, rest) = RuleHeader::mut_from_prefix(rules).expect("a rule");
        change(header, rest);
    });
    match Layout::open(&forged.bytes).expect_err("must be refused") {
        OpenError::Damage(damage) => (damage.part, damage.fault),
        other => panic!("{other}"),
    }
}

#[test]
fn rules_round_trip() {
    let bytes = site();
    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    assert_eq!(archive.rules().len(), RULES.len());
    assert_eq!(
        rules_of(&archive),
        [
            "(0, 301, true, true) Some([42, 46, 101, 120, 97, 109, 112, 108, 101, 46, 111, 114, \
             103]) [Literal([98, 108, 111, 103]), Capture, Rest { prefix: [112] }] [([107], \
             Is([118])), ([105, 100], Capture)] [Literal([104, 116, 116, 112, 115, 58, 47, 47, \
             101, 120, 97, 109, 112, 108, 101, 46, 99, 111, 109, 47]), Capture(2)]",
            "(1, 410, false, false) None [Literal([103, 111, 110, 101])] [] [Literal([47, 105, \
             110, 100, 101, 120, 46, 104, 116, 109, 108])]",
        ]
    );
    let plain = finish(writer());
    let layout = Layout::open(&plain).expect("sound");
    assert!(layout.view(&plain).rules().is_empty(), "no rules, no section");
    assert!(layout.sections().iter().all(|section| section.kind != SectionKind::RULES));
}

#[test]
fn invalid_rules_are_damage() {
    let rule = |fault| (ArchivePart::Rule, fault);
    for status in [0, 100, 201, 204, 300, 304, 600, u16::MAX] {
        let found = refused(|header, _| header.status = status.into());
        assert_eq!(found, rule(Fault::Status), "{status}");
    }
    assert_eq!(refused(|header, _| header.flags = 4), rule(Fault::Reserved));
    assert_eq!(refused(|header, _| header.reserved = 1.into()), rule(Fault::Reserved));
    for bytes in [0, 8, 15, u32::MAX] {
        let (part, fault) = refused(|header, _| header.bytes = bytes.into());
        assert_eq!(part, ArchivePart::Rule);
        assert!(matches!(fault, Fault::Length | Fault::Outside), "{bytes}: {fault}");
    }
    assert_eq!(refused(|header, _| header.target_bytes = u16::MAX.into()), rule(Fault::Length));
    assert_eq!(refused(|header, _| header.host_bytes += 1).0, ArchivePart::Rule);
    // The first bytes are those of the host, then come the parts of the path.
    assert_eq!(refused(|_, rest| rest[0] = b'X'), rule(Fault::Syntax));
    let path = b"*.example.org".len();
    assert_eq!(refused(|_, rest| rest[path] = 9), rule(Fault::Syntax));
    assert_eq!(refused(|_, rest| rest[path + 1] = 0xff), rule(Fault::Syntax));
    assert_eq!(refused(|_, rest| rest[path + 3] = b'/'), rule(Fault::Syntax));
    // The target ends with the number of a capture; there are three.
    let capture = |number: u8| {
        move |header: &mut RuleHeader, rest: &mut [u8]| {
            let parts = [header.path_bytes, header.query_bytes, header.target_bytes];
            let before_last: u16 = parts.iter().map(|bytes| bytes.get()).sum();
            rest[usize::from(header.host_bytes) + usize::from(before_last) - 1] = number;
        }
    };
    assert_eq!(refused(capture(3)), rule(Fault::CaptureNumber));
    assert_eq!(refused(capture(255)), rule(Fault::CaptureNumber));
}

#[test]
fn an_incomplete_section_of_rules_is_refused() {
    let kind = SectionKind::RULES;
    let forged = ForgedArchive::new().change_section_row(kind, |row| row.digest[0] ^= 1);
    let fault = SectionFault::Digest;
    assert_eq!(Layout::open(&forged.bytes).err(), Some(OpenError::Section { kind, fault }));
    // The length in the row is smaller than that of the rules.
    let forged = ForgedArchive::new().change_section_row(kind, |row| row.bytes -= 8);
    assert!(Layout::open(&forged.bytes).is_err());
    let flags = ForgedArchive::new().change_section(kind, |rules| {
        let (header, _) = RuleHeader::mut_from_prefix(rules).expect("a rule");
        header.flags &= !RULE_KEEPS_QUERY;
    });
    assert!(is_sound(&flags.bytes), "another rule, and a sound one");
}

#[test]
fn the_number_of_rules_is_limited() {
    let mut w = writer();
    let target = [TargetPart::Literal(b"/x")];
    let rule = NewRule { target: &target, ..NewRule::EMPTY };
    for _ in 0..RULES_MAX {
        w.rule(&rule).expect("within the limit");
    }
    assert!(matches!(w.rule(&rule), Err(WriteError::TooManyRules)));
    let bytes = finish(w);
    let layout = Layout::open(&bytes).expect("sound");
    assert_eq!(layout.view(&bytes).rules().len(), RULES_MAX);
    assert_eq!(layout.view(&bytes).rules().exact(b"/").count(), RULES_MAX);

    let mut w = writer();
    let long = vec![b'a'; 8000];
    let path = [PathPart::Literal(&long)];
    let rule = NewRule { path: &path, ..rule };
    let most = RULES_SECTION_MAX_BYTES / 8000;
    let refused = (0..most).find_map(|_| w.rule(&rule).err());
    assert!(matches!(refused, Some(WriteError::TooManyRules)), "{refused:?}");
    let path = [PathPart::Literal(b"")];
    let error = w.rule(&NewRule { path: &path, ..rule }).expect_err("an empty segment");
    assert!(error.to_string().contains("malformed text"), "{error}");
}

/// Returns the faults that `verify` finds in an archive that opens.
fn faults(bytes: &[u8]) -> Vec<(ArchivePart, Fault)> {
    let report = verify(bytes, &mut |_, _| {}).expect("opens");
    report.damages.iter().map(|damage| (damage.part, damage.fault)).collect()
}

#[test]
fn flags_without_their_entries_are_damage_and_vice_versa() {
    let record = |fault| (ArchivePart::Record, fault);
    let forged = ForgedArchive::new().change_record(b"/index.html", |header, _| header.flags = 4);
    assert_eq!(faults(&forged.bytes), [record(Fault::Variant)]);
    let forged = ForgedArchive::new().change_record(b"/style.css", |header, _| header.flags = 0);
    assert_eq!(faults(&forged.bytes), [record(Fault::Unreachable)]);
    let forged =
        ForgedArchive::new().change_record(b"404:/docs/", |header, _| header.status = 503.into());
    assert_eq!(faults(&forged.bytes), [record(Fault::Status)]);
    let forged = ForgedArchive::new().change_index_header(|header| header.flags = 0.into());
    assert_eq!(faults(&forged.bytes), [record(Fault::Unreachable)]);
    let forged = ForgedArchive::new().change_record(SINGLE_PAGE_KEY, |_, rest| rest[0] = b'S');
    let found = faults(&forged.bytes);
    assert!(found.contains(&(ArchivePart::IndexHeader, Fault::Unreachable)), "{found:?}");
    let unknown = (INDEX_FLAGS + 1).next_power_of_two();
    let forged = ForgedArchive::new().change_index_header(|header| header.flags = unknown.into());
    let error = Layout::open(&forged.bytes).expect_err("no such flag");
    assert!(matches!(error, OpenError::Damage(damage) if damage.fault == Fault::Reserved));
}

#[test]
fn fallbacks_and_variants_need_valid_keys() {
    let mut w = writer();
    let html = add_shared_block(&mut w, "text/html");
    let page = body(&mut w, b"page");
    let representations = [representation(Coding::Identity, html, page)];
    let refused = |result: Result<(), WriteError>| result.expect_err("must be refused").to_string();
    let page = resource(b"/a/", &representations);
    assert!(refused(w.fallback(&NewEntry { status: 500, ..page })).contains("status"));
    assert!(refused(w.fallback(&resource(b"/a", &representations))).contains("not a path key"));
    assert!(refused(w.variant(&resource(b"a", &representations))).contains("not a path key"));
    w.fallback(&page).expect("status 200");
    w.single_page(&resource(b"/any", &representations)).expect("valid");
    let bytes = finish(w);
    assert!(is_sound(&bytes));
    assert!(Layout::open(&bytes).expect("sound").view(&bytes).has_single_page());
}
