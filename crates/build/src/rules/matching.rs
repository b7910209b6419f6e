//! Which paths a rule of `_redirects` is about, told when the archive is built.

use pinion_archive::{SegmentPart, SegmentPattern, path_matches};

use super::redirects::{Part, Redirect};

/// Whether a path, decoded, is one that the parts stand for. A slash at its end does not matter.
pub(super) fn matches(parts: &[Part], path: &[u8]) -> bool {
    path_matches(parts.iter().map(Part::stored), path, &mut |_| {})
}

/// Whether every request that `rule` matches is matched by `earlier` too.
pub(super) fn covers(earlier: &Redirect, rule: &Redirect) -> bool {
    covers_path(&earlier.path, &rule.path)
        && covers_host(earlier.host.as_deref(), rule.host.as_deref())
        && earlier.query.iter().all(|wanted| rule.query.contains(wanted))
}

/// Whether it is certain that every path of `parts` is one of `wider`.
pub(super) fn covers_path(wider: &[Part], parts: &[Part]) -> bool {
    match (wider, parts) {
        ([], []) => true,
        ([Part::Rest(prefix)], []) => prefix.is_empty(),
        ([Part::Rest(prefix)], [first, ..]) => match first {
            Part::Literal(begin) | Part::Rest(begin) => begin.starts_with(prefix),
            Part::Mixed(encoded) => begin_of(encoded).starts_with(prefix),
            Part::Capture => prefix.is_empty(),
        },
        ([Part::Literal(a), wider @ ..], [Part::Literal(b), parts @ ..]) => {
            a == b && covers_path(wider, parts)
        }
        ([Part::Capture, wider @ ..], [part, parts @ ..]) => {
            let is_segment = match part {
                Part::Literal(_) | Part::Capture => true,
                Part::Mixed(encoded) => !SegmentPattern::of(encoded).has_star(),
                Part::Rest(_) => false,
            };
            is_segment && covers_path(wider, parts)
        }
        ([Part::Mixed(a), wider @ ..], [Part::Mixed(b), parts @ ..]) if a == b => {
            covers_path(wider, parts)
        }
        // What stands for one path only can be asked about.
        (_, parts) => {
            let is_literal = |part: &Part| matches!(part, Part::Literal(_));
            let has_mixed = wider.iter().any(|part| matches!(part, Part::Mixed(_)));
            let is_one_path = !parts.is_empty() && parts.iter().all(is_literal);
            has_mixed && is_one_path && matches(wider, &path_of(parts))
        }
    }
}

/// The text that a segment begins with.
fn begin_of(encoded: &[u8]) -> &[u8] {
    match SegmentPattern::of(encoded).parts().next() {
        Some(SegmentPart::Literal(text)) => text,
        _ => b"",
    }
}

/// The path of texts alone.
fn path_of(parts: &[Part]) -> Vec<u8> {
    let mut path = Vec::new();
    for part in parts {
        path.push(b'/');
        if let Part::Literal(segment) = part {
            path.extend_from_slice(segment);
        }
    }
    path
}

/// Whether a pattern for hosts holds for all that another one holds for.
pub(super) fn covers_host(wider: Option<&[u8]>, host: Option<&[u8]>) -> bool {
    match (wider, host) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wider), Some(host)) => {
            let below = wider.strip_prefix(b"*").is_some_and(|end| host.ends_with(end));
            wider == host || below
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::redirects::parse;
    use super::*;

    fn parts(from: &str) -> Vec<Part> {
        let text = format!("{from} /target-of-it");
        parse(Path::new("_redirects"), b"/", text.as_bytes()).expect(from).remove(0).path
    }

    #[test]
    fn what_a_pattern_is_about() {
        for (from, yes, no) in [
            ("/", &["/"][..], &["/a", "//"][..]),
            ("/a", &["/a", "/a/"], &["/", "/ab", "/a//", "/a/b", "/A"]),
            ("/a/", &["/a", "/a/"], &["/a//"]),
            ("/*", &["/", "/a", "/a/b/", "//"], &[]),
            ("/a/*", &["/a", "/a/", "/a/b", "/a//", "/a/b/c/"], &["/ab", "/"]),
            ("/a*", &["/a", "/ab", "/a/", "/abc/d"], &["/", "/ba"]),
            ("/x/a*", &["/x/a", "/x/ab/c"], &["/x", "/x/", "/x/b"]),
            ("/:x", &["/a", "/a/"], &["/", "//", "/a/b"]),
            ("/:x/b", &["/a/b", "/a/b/"], &["/b", "//b", "/a/c"]),
            ("/*.txt", &["/a.txt", "/a/b.txt/"], &["/a", "/a.txt/b"]),
            ("/a/*/b", &["/a/x/b", "/a/x/y/b/", "/a//b"], &["/a/b", "/a/x"]),
            ("/p-:id", &["/p-1", "/p-1/"], &["/p-", "/p-1/2"]),
        ] {
            let parts = parts(from);
            yes.iter().for_each(|path| assert!(matches(&parts, path.as_bytes()), "{from} {path}"));
            no.iter().for_each(|path| assert!(!matches(&parts, path.as_bytes()), "{from} {path}"));
        }
    }

    #[test]
    fn hosts_below_a_host() {
        for (wider, host, expected) in [
            (None, Some("a.example"), true),
            (Some("a.example"), None, false),
            (Some("*.example"), Some("a.example"), true),
            (Some("*.example"), Some("example"), false),
            (Some("*.b.example"), Some("*.a.b.example"), true),
            (Some("a.example"), Some("b.example"), false),
        ] {
            let bytes = |host: Option<&'static str>| host.map(str::as_bytes);
            assert_eq!(covers_host(bytes(wider), bytes(host)), expected, "{wider:?} {host:?}");
        }
    }

    fn path() -> impl Strategy<Value = String> {
        prop::collection::vec("(a|b|ab|a-b|-b)", 0..4)
            .prop_map(|names| format!("/{}", names.join("/")))
    }

    fn pattern() -> impl Strategy<Value = String> {
        let fixed = ["a", "b", "ab", ":x", ":y", "a-:x", "-:y", "*", "a*", "*b", "b*-:x"];
        let segment = prop::sample::select(fixed.to_vec());
        prop::collection::vec(segment, 0..4).prop_filter_map("a name twice", |names| {
            let path = format!("/{}", names.join("/"));
            let twice = |name: &str| path.matches(name).count() > 1;
            (!twice(":x") && !twice(":y") && !twice("*")).then_some(path)
        })
    }

    proptest! {
        #[test]
        fn what_is_covered_is_matched(wider in pattern(), from in pattern(), path in path()) {
            let (wider, parts) = (parts(&wider), parts(&from));
            if covers_path(&wider, &parts) && matches(&parts, path.as_bytes()) {
                prop_assert!(matches(&wider, path.as_bytes()));
            }
        }
    }
}
