//! RFC 9110 §13: cases by hand, and all combinations against the text of §13.2.2.

use super::*;
use crate::h1::head_parser::{HeadStorage, Parsed, parse};
use crate::limits::Limits;
use crate::request_head::RequestHead;

const MODIFIED: UnixSeconds = 784_111_777;
const NOW: UnixSeconds = MODIFIED + 1_000;
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const VALIDATORS: Validators<'static> =
    Validators { etag: Some(b"tag"), last_modified: Some(MODIFIED) };

fn with_head<R>(method: &str, fields: &[(&str, &str)], f: impl FnOnce(&RequestHead<'_>) -> R) -> R {
    let mut text = format!("{method} / HTTP/1.1\r\nHost: a\r\n");
    for (name, value) in fields {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    let mut storage = HeadStorage::new();
    match parse(text.as_bytes(), 0, &mut storage, &Limits::default()) {
        Ok(Parsed::Head { head, .. }) => f(&head),
        other => panic!("{text}: {other:?}"),
    }
}

fn verdict_of(
    method: &str,
    fields: &[(&str, &str)],
    validators: &Validators<'_>,
) -> PreconditionVerdict {
    with_head(method, fields, |head| evaluate(head, validators, NOW))
}

fn verdict(method: &str, fields: &[(&str, &str)]) -> PreconditionVerdict {
    verdict_of(method, fields, &VALIDATORS)
}

#[test]
fn requests_without_preconditions_proceed() {
    assert_eq!(verdict("GET", &[]), PreconditionVerdict::Proceed);
    assert_eq!(
        verdict("GET", &[("Accept", "*/*"), ("If-Range", "\"x\"")]),
        PreconditionVerdict::Proceed
    );
}

/// RFC 9110 §13.1.2: "A recipient MUST use the weak comparison function", the condition is false
/// "if one of the listed tags matches".
#[test]
fn if_none_match() {
    for hit in [
        "\"tag\"",
        "W/\"tag\"",
        "*",
        " * ",
        "\"a\", \"tag\"",
        "\"a\",\"tag\"",
        ",, \"tag\",",
        "\"a,b\", \"tag\"",
        "\"a\\\", \"tag\"",
        "W/\"x\" , W/\"tag\"",
    ] {
        assert_eq!(
            verdict("GET", &[("If-None-Match", hit)]),
            PreconditionVerdict::NotModified,
            "{hit}"
        );
        assert_eq!(
            verdict("HEAD", &[("If-None-Match", hit)]),
            PreconditionVerdict::NotModified,
            "{hit}"
        );
        let post = verdict("POST", &[("If-None-Match", hit)]);
        assert_eq!(post, PreconditionVerdict::PreconditionFailed, "{hit}");
    }
    for miss in [
        "",
        "tag",
        "\"Tag\"",
        "\"tag",
        "tag\"",
        "'tag'",
        "w/\"tag\"",
        "W/ \"tag\"",
        "W/tag",
        "\"tag\"x",
        "\"a\" \"tag\"",
        "x, \"tag\"",
        "\"*\"",
        "\"ta g\", \"tag\"",
        "\"a, tag\"",
        "\"tag-gzip\"",
    ] {
        assert_eq!(
            verdict("GET", &[("If-None-Match", miss)]),
            PreconditionVerdict::Proceed,
            "{miss}"
        );
    }
}

/// RFC 9110 §13.1.1: "An origin server MUST use the strong comparison function".
#[test]
fn if_match() {
    for hit in ["\"tag\"", "*", "\"a\", \"tag\"", "W/\"tag\", \"tag\""] {
        assert_eq!(verdict("GET", &[("If-Match", hit)]), PreconditionVerdict::Proceed, "{hit}");
    }
    for miss in ["W/\"tag\"", "\"a\"", "", "tag", "\"*\""] {
        for method in ["GET", "HEAD", "POST", "PUT"] {
            let found = verdict(method, &[("If-Match", miss)]);
            assert_eq!(found, PreconditionVerdict::PreconditionFailed, "{method} {miss}");
        }
    }
}

/// RFC 9110 §5.3: several lines are one list.
#[test]
fn tags_over_several_lines() {
    let lines = [("If-None-Match", "\"a\""), ("if-none-match", "\"b\", W/\"tag\"")];
    assert_eq!(verdict("GET", &lines), PreconditionVerdict::NotModified);
    let lines = [("If-Match", "\"a\""), ("X", "y"), ("IF-MATCH", "\"tag\"")];
    assert_eq!(verdict("GET", &lines), PreconditionVerdict::Proceed);
}

/// RFC 9110 §13.1.3.
#[test]
fn if_modified_since() {
    let since = |method: &str, date: &str| verdict(method, &[("If-Modified-Since", date)]);
    assert_eq!(since("GET", SAME), PreconditionVerdict::NotModified);
    assert_eq!(since("GET", LATER), PreconditionVerdict::NotModified);
    assert_eq!(since("HEAD", SAME), PreconditionVerdict::NotModified);
    assert_eq!(since("GET", EARLIER), PreconditionVerdict::Proceed);
    // "MUST ignore … if the received field value is not a valid HTTP-date, the field value has
    // more than one member, or if the request method is neither GET nor HEAD."
    assert_eq!(since("GET", "yesterday"), PreconditionVerdict::Proceed);
    assert_eq!(since("GET", &format!("{SAME}, {SAME}")), PreconditionVerdict::Proceed);
    assert_eq!(since("POST", SAME), PreconditionVerdict::Proceed);
    let twice = [("If-Modified-Since", SAME), ("If-Modified-Since", SAME)];
    assert_eq!(verdict("GET", &twice), PreconditionVerdict::Proceed);
    // "MUST ignore … if the resource does not have a modification date available."
    let none = Validators { last_modified: None, ..VALIDATORS };
    assert_eq!(
        verdict_of("GET", &[("If-Modified-Since", SAME)], &none),
        PreconditionVerdict::Proceed
    );
}

/// RFC 9110 §13.1.4.
#[test]
fn if_unmodified_since() {
    let since = |method: &str, date: &str| verdict(method, &[("If-Unmodified-Since", date)]);
    assert_eq!(since("GET", SAME), PreconditionVerdict::Proceed);
    assert_eq!(since("GET", LATER), PreconditionVerdict::Proceed);
    assert_eq!(since("GET", EARLIER), PreconditionVerdict::PreconditionFailed);
    assert_eq!(since("PUT", EARLIER), PreconditionVerdict::PreconditionFailed);
    assert_eq!(since("GET", "never"), PreconditionVerdict::Proceed);
    let twice = [("If-Unmodified-Since", EARLIER), ("If-Unmodified-Since", EARLIER)];
    assert_eq!(verdict("GET", &twice), PreconditionVerdict::Proceed);
    let none = Validators { last_modified: None, ..VALIDATORS };
    assert_eq!(
        verdict_of("GET", &[("If-Unmodified-Since", EARLIER)], &none),
        PreconditionVerdict::Proceed
    );
}

/// RFC 9110 §13.2.1: ignored with methods that "do not involve the selection or modification of a
/// selected representation, such as CONNECT, OPTIONS, or TRACE".
#[test]
fn methods_without_a_representation() {
    for method in ["OPTIONS", "TRACE"] {
        let fields = [("If-Match", "\"x\""), ("If-None-Match", "*")];
        assert_eq!(verdict(method, &fields), PreconditionVerdict::Proceed, "{method}");
    }
}

/// Follows RFC 9110 §13.2.2 step by step, as the text has it.
fn by_the_letter(method: &str, case: &Case) -> PreconditionVerdict {
    // RFC 10008 §2: of a QUERY the representation is the result, as that of a GET.
    let reads = ["GET", "HEAD", "QUERY"].contains(&method);
    // 1. When If-Match is present: if true, continue to step 3; if false, respond 412.
    // 2. When If-Match is not present and If-Unmodified-Since is present: likewise.
    match (case.if_match, case.if_unmodified_since) {
        (Some(holds), _) | (None, Some(holds)) if !holds => {
            return PreconditionVerdict::PreconditionFailed;
        }
        _ => {}
    }
    // 3. When If-None-Match is present: if true, continue to step 5; if false for GET/HEAD,
    //    respond 304; if false for other methods, respond 412.
    match case.if_none_match {
        Some(true) => return PreconditionVerdict::Proceed,
        Some(false) if reads => return PreconditionVerdict::NotModified,
        Some(false) => return PreconditionVerdict::PreconditionFailed,
        None => {}
    }
    // 4. When the method is GET or HEAD, If-None-Match is not present, and If-Modified-Since is
    //    present: if true, continue to step 5; if false, respond 304.
    match case.if_modified_since {
        Some(false) if reads => PreconditionVerdict::NotModified,
        _ => PreconditionVerdict::Proceed,
    }
}

/// Whether each condition is there, and holds.
#[derive(Clone, Copy, Debug)]
struct Case {
    if_match: Option<bool>,
    if_unmodified_since: Option<bool>,
    if_none_match: Option<bool>,
    if_modified_since: Option<bool>,
}

#[test]
fn all_combinations_of_preconditions_follow_the_rfc() {
    let states = [None, Some(false), Some(true)];
    let mut cases = Vec::new();
    for if_match in states {
        for if_unmodified_since in states {
            for if_none_match in states {
                for if_modified_since in states {
                    cases.push(Case {
                        if_match,
                        if_unmodified_since,
                        if_none_match,
                        if_modified_since,
                    });
                }
            }
        }
    }
    for case in cases {
        let mut fields = Vec::new();
        let mut add = |name, state: Option<bool>, holds, fails| match state {
            Some(true) => fields.push((name, holds)),
            Some(false) => fields.push((name, fails)),
            None => {}
        };
        add("If-Modified-Since", case.if_modified_since, EARLIER, SAME);
        add("If-None-Match", case.if_none_match, "\"other\"", "\"tag\"");
        add("If-Unmodified-Since", case.if_unmodified_since, SAME, EARLIER);
        add("If-Match", case.if_match, "\"tag\"", "\"other\"");
        for method in ["GET", "HEAD", "QUERY", "POST", "PUT", "DELETE"] {
            let expected = by_the_letter(method, &case);
            assert_eq!(verdict(method, &fields), expected, "{method} {case:?}");
        }
    }
}

/// RFC 9110 §13.1.5.
#[test]
fn if_range() {
    let holds = |value: &str, now| {
        with_head("GET", &[("Range", "bytes=0-1"), ("If-Range", value)], |head| {
            if_range_holds(head, &VALIDATORS, now)
        })
    };
    assert!(holds("\"tag\"", NOW));
    assert!(holds(SAME, NOW));
    assert!(holds("Sunday, 06-Nov-94 08:49:37 GMT", NOW));
    // Only a strong validator counts: never a weak tag, a date only when it is a second old.
    assert!(!holds("W/\"tag\"", NOW));
    assert!(holds(SAME, MODIFIED + 1));
    assert!(!holds(SAME, MODIFIED));
    assert!(!holds(SAME, MODIFIED - 10));
    // The date is compared for equality.
    assert!(!holds(EARLIER, NOW));
    assert!(!holds(LATER, NOW));
    // One validator, not a list.
    for bad in ["\"other\"", "\"tag\", \"tag\"", "\"tag\",", "*", "", "tag", "\"tag\"x", "now"] {
        assert!(!holds(bad, NOW), "{bad}");
    }
}

#[test]
fn if_range_absent_or_repeated() {
    let range = ("Range", "bytes=0-1");
    let holds = |fields: &[(&str, &str)]| {
        with_head("GET", fields, |head| if_range_holds(head, &VALIDATORS, NOW))
    };
    assert!(holds(&[range]));
    assert!(!holds(&[range, ("If-Range", "\"tag\""), ("If-Range", "\"tag\"")]));
    let dateless = Validators { last_modified: None, ..VALIDATORS };
    let fields = [range, ("If-Range", SAME)];
    assert!(!with_head("GET", &fields, |head| if_range_holds(head, &dateless, NOW)));
}

proptest::proptest! {
    /// Nothing a client can send panics, and without a match there is no 304.
    #[test]
    fn any_tags(value in "[ -~]{0,60}") {
        let found = verdict("GET", &[("If-None-Match", &value)]);
        let expected = value.trim() == "*" || value.contains("\"tag\"");
        proptest::prop_assert!(found == PreconditionVerdict::Proceed || expected);
    }

    /// A well-formed list matches exactly when the tag is in it.
    #[test]
    fn well_formed_lists(
        tags in proptest::collection::vec(("(W/)?", "[!#-~]{0,3}|tag"), 1..8),
        separator in "[ \t]{0,2},[ \t,]{0,2}",
    ) {
        let members: Vec<String> = tags.iter().map(|(w, tag)| format!("{w}\"{tag}\"")).collect();
        let value = members.join(&separator);
        let weak = tags.iter().any(|(_, tag)| tag == "tag");
        let strong = tags.iter().any(|(w, tag)| w.is_empty() && tag == "tag");
        let none_match = verdict("GET", &[("If-None-Match", &value)]);
        proptest::prop_assert_eq!(none_match == PreconditionVerdict::NotModified, weak);
        let matches = verdict("GET", &[("If-Match", &value)]);
        proptest::prop_assert_eq!(matches == PreconditionVerdict::Proceed, strong);
    }
}
