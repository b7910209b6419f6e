//! Which paths a rule of `_redirects` is about, told when the archive is built.

use super::redirects::{Part, Redirect};

/// Whether a path, decoded, is one that the parts stand for. A slash at its end does not matter.
pub(super) fn matches(parts: &[Part], path: &[u8]) -> bool {
    let mut rest = segments(path);
    for part in parts {
        match (part, rest) {
            (Part::Rest(prefix), None) => return prefix.is_empty(),
            (Part::Rest(prefix), Some(rest)) => return rest.starts_with(prefix),
            (_, None) => return false,
            (Part::Literal(_) | Part::Capture, Some(path)) => {
                let (segment, behind) = first(path);
                let fits = match part {
                    Part::Literal(literal) => **literal == *segment,
                    _ => !segment.is_empty(),
                };
                if !fits {
                    return false;
                }
                rest = behind;
            }
        }
    }
    rest.is_none()
}

/// Whether every request that `rule` matches is matched by `earlier` too.
pub(super) fn covers(earlier: &Redirect, rule: &Redirect) -> bool {
    covers_path(&earlier.path, &rule.path)
        && covers_host(earlier.host.as_deref(), rule.host.as_deref())
        && earlier.query.iter().all(|wanted| rule.query.contains(wanted))
}

/// Whether every path of `parts` is one of `wider`.
pub(super) fn covers_path(wider: &[Part], parts: &[Part]) -> bool {
    match (wider, parts) {
        ([], []) => true,
        ([Part::Rest(prefix)], []) => prefix.is_empty(),
        ([Part::Rest(prefix)], [first, ..]) => match first {
            Part::Literal(begin) | Part::Rest(begin) => begin.starts_with(prefix),
            Part::Capture => prefix.is_empty(),
        },
        ([Part::Literal(a), wider @ ..], [Part::Literal(b), parts @ ..]) => {
            a == b && covers_path(wider, parts)
        }
        ([Part::Capture, wider @ ..], [Part::Literal(_) | Part::Capture, parts @ ..]) => {
            covers_path(wider, parts)
        }
        _ => false,
    }
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

/// What stands behind the first slash, without one at the end; None when there is nothing.
fn segments(path: &[u8]) -> Option<&[u8]> {
    let rest = path.strip_prefix(b"/").filter(|rest| !rest.is_empty())?;
    Some(rest.strip_suffix(b"/").unwrap_or(rest))
}

/// The first segment, and those behind it.
fn first(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(slash) => {
            let (segment, behind) = path.split_at(slash);
            (segment, behind.get(1..))
        }
        None => (path, None),
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
        prop::collection::vec("(a|b|ab)", 0..4).prop_map(|names| format!("/{}", names.join("/")))
    }

    fn pattern() -> impl Strategy<Value = String> {
        let segment = prop_oneof!["(a|b|ab)", Just(":x".to_owned()), Just(":y".to_owned())];
        (prop::collection::vec(segment, 0..3), prop::option::of("(a|b)?\\*")).prop_filter_map(
            "a name twice",
            |(mut names, rest)| {
                names.extend(rest);
                let twice = |name: &str| names.iter().filter(|known| *known == name).count() > 1;
                (!twice(":x") && !twice(":y")).then(|| format!("/{}", names.join("/")))
            },
        )
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
