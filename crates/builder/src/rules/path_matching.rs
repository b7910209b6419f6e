//! Decides at build time which paths a rule of `_redirects` is about.

use pinion_archive::{SegmentPart, SegmentPattern, path_matches};

use super::redirects::{Redirect, RedirectPart};

/// Returns whether a path, decoded, is one that the parts stand for. A slash at its end does not
/// matter.
pub(super) fn matches(parts: &[RedirectPart], path: &[u8]) -> bool {
    path_matches(parts.iter().map(RedirectPart::stored), path, &mut |_| {})
}

/// Returns whether every request that `rule` matches is matched by `earlier` too.
pub(super) fn covers(earlier: &Redirect, rule: &Redirect) -> bool {
    covers_path(&earlier.path, &rule.path)
        && covers_host(earlier.host.as_deref(), rule.host.as_deref())
        && earlier.query.iter().all(|wanted| rule.query.contains(wanted))
}

/// Returns whether it is certain that every path of `parts` is one of `wider`.
pub(super) fn covers_path(wider: &[RedirectPart], parts: &[RedirectPart]) -> bool {
    match (wider, parts) {
        ([], []) => true,
        ([RedirectPart::Rest(prefix)], []) => prefix.is_empty(),
        ([RedirectPart::Rest(prefix)], [first, ..]) => match first {
            RedirectPart::Literal(begin) | RedirectPart::Rest(begin) => begin.starts_with(prefix),
            RedirectPart::Mixed(encoded) => begin_of(encoded).starts_with(prefix),
            RedirectPart::Capture => prefix.is_empty(),
        },
        ([RedirectPart::Literal(a), wider @ ..], [RedirectPart::Literal(b), parts @ ..]) => {
            a == b && covers_path(wider, parts)
        }
        ([RedirectPart::Capture, wider @ ..], [part, parts @ ..]) => {
            let is_segment = match part {
                RedirectPart::Literal(_) | RedirectPart::Capture => true,
                RedirectPart::Mixed(encoded) => !SegmentPattern::of(encoded).has_star(),
                RedirectPart::Rest(_) => false,
            };
            is_segment && covers_path(wider, parts)
        }
        // Otherwise a star may still stand for more than the other does.
        ([RedirectPart::Mixed(a), wider @ ..], [RedirectPart::Mixed(b), parts @ ..])
            if a == b && covers_path(wider, parts) =>
        {
            true
        }
        ([RedirectPart::Literal(_), ..], _) => false,
        (_, parts) => {
            let has_mixed = wider.iter().any(|part| matches!(part, RedirectPart::Mixed(_)));
            has_mixed && may_cover(wider, parts) && covers_tokens(wider, parts)
        }
    }
}

/// Returns whether each literal text of the patterns in `wider` stands in `parts`, too. If not,
/// `wider` does not cover `parts`, since placeholders and stars of `parts` may stand for other
/// text.
fn may_cover(wider: &[RedirectPart], parts: &[RedirectPart]) -> bool {
    let contains = |text: &[u8], wanted: &[u8]| text.windows(wanted.len()).any(|at| at == wanted);
    let has = |wanted: &[u8]| {
        parts.iter().any(|part| match part {
            RedirectPart::Literal(text) | RedirectPart::Rest(text) => contains(text, wanted),
            RedirectPart::Capture => false,
            RedirectPart::Mixed(encoded) => {
                SegmentPattern::of(encoded).parts().any(|part| match part {
                    SegmentPart::Literal(text) => contains(text, wanted),
                    _ => false,
                })
            }
        })
    };
    wider.iter().all(|part| match part {
        RedirectPart::Mixed(encoded) => {
            SegmentPattern::of(encoded).parts().all(|part| match part {
                SegmentPart::Literal(wanted) => has(wanted),
                _ => true,
            })
        }
        _ => true,
    })
}

/// Works like [`covers_path`], whichever parts of one stand for which parts of the other.
fn covers_tokens(wider: &[RedirectPart], parts: &[RedirectPart]) -> bool {
    let Some(wider) = WiderTokens::of(wider) else {
        // Parts that match one path only can be compared with it.
        let is_literal = |part: &RedirectPart| matches!(part, RedirectPart::Literal(_));
        let is_one_path = !parts.is_empty() && parts.iter().all(is_literal);
        return is_one_path && matches(wider, &path_of(parts));
    };
    let without_rest = match parts {
        [before @ .., RedirectPart::Rest(prefix)] if prefix.is_empty() && !before.is_empty() => {
            before
        }
        _ => parts,
    };
    wider.covers(parts) && (without_rest.len() == parts.len() || wider.covers(without_rest))
}

/// A piece of a path whose parts are written one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathToken {
    /// This byte, also a slash.
    Byte(u8),
    /// A placeholder: at least one byte, and no slash.
    Segment,
    /// Any bytes: a star.
    Any,
}

/// Passes the tokens of parts to `take` in order, as long as it wants more. Returns whether it has
/// wanted all of them.
fn all_tokens(parts: &[RedirectPart], take: &mut impl FnMut(PathToken) -> bool) -> bool {
    let text = |text: &[u8], take: &mut dyn FnMut(PathToken) -> bool| {
        text.iter().all(|byte| take(PathToken::Byte(*byte)))
    };
    parts.iter().all(|part| {
        take(PathToken::Byte(b'/'))
            && match part {
                RedirectPart::Literal(segment) => text(segment, take),
                RedirectPart::Capture => take(PathToken::Segment),
                RedirectPart::Rest(prefix) => text(prefix, take) && take(PathToken::Any),
                RedirectPart::Mixed(encoded) => {
                    SegmentPattern::of(encoded).parts().all(|part| match part {
                        SegmentPart::Literal(bytes) => text(bytes, take),
                        SegmentPart::Capture => take(PathToken::Segment),
                        SegmentPart::Star => take(PathToken::Any),
                    })
                }
            }
    })
}

/// The tokens of a path that may cover another one, as the states of an automaton that reads the
/// tokens of that one. A state after a token holds for all texts that the token matches, so an
/// accepted path is covered. A slash at the end of a path does not matter to either of them.
struct WiderTokens {
    /// A placeholder has two states: before and after its first byte.
    states: [WiderToken; WiderTokens::MAX],
    count: usize,
    /// The state after which nothing has to follow, if `/*` is at the end.
    before_rest: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WiderToken {
    Byte(u8),
    /// The front of a placeholder.
    Begin,
    /// The rest of a placeholder.
    More,
    Any,
}

impl WiderTokens {
    /// Most states, so that a set of them and of the end is one number.
    const MAX: usize = 127;

    /// Returns the tokens; `None` if there are too many.
    fn of(parts: &[RedirectPart]) -> Option<Self> {
        let mut states = [WiderToken::Any; Self::MAX];
        let mut count = 0;
        let mut add = |state| {
            let slot = states.get_mut(count);
            count += 1;
            slot.map(|slot| *slot = state).is_some()
        };
        let is_whole = all_tokens(parts, &mut |token| match token {
            PathToken::Byte(byte) => add(WiderToken::Byte(byte)),
            PathToken::Segment => add(WiderToken::Begin) && add(WiderToken::More),
            PathToken::Any => add(WiderToken::Any),
        });
        let has_rest =
            matches!(parts.last(), Some(RedirectPart::Rest(prefix)) if prefix.is_empty());
        // A slash, and the star.
        let before_rest = has_rest.then(|| count.saturating_sub(2));
        is_whole.then_some(Self { states, count, before_rest })
    }

    fn covers(&self, parts: &[RedirectPart]) -> bool {
        let mut reached = self.with_skipped(1);
        let is_read = all_tokens(parts, &mut |token| {
            reached = self.with_skipped(self.after(reached, token));
            reached != 0
        });
        let accepted = 1 << self.count | self.before_rest.map_or(0, |state| 1 << state);
        is_read && reached & accepted != 0
    }

    /// Returns the states that are reached from these by a token.
    fn after(&self, reached: u128, token: PathToken) -> u128 {
        let is_in_segment = match token {
            PathToken::Byte(byte) => byte != b'/',
            PathToken::Segment => true,
            PathToken::Any => false,
        };
        let mut next = 0;
        for (state, wider) in self.reached(reached) {
            next |= match wider {
                WiderToken::Byte(byte) if token == PathToken::Byte(byte) => 2 << state,
                WiderToken::Begin if is_in_segment => 2 << state,
                WiderToken::More if is_in_segment => 1 << state,
                WiderToken::Any => 1 << state,
                WiderToken::Byte(_) | WiderToken::Begin | WiderToken::More => 0,
            };
        }
        next
    }

    /// Adds the states that can be reached without another token.
    fn with_skipped(&self, mut reached: u128) -> u128 {
        for state in 0..self.count {
            let may_be_empty =
                matches!(self.states.get(state), Some(WiderToken::Any | WiderToken::More));
            if reached >> state & 1 == 1 && may_be_empty {
                reached |= 2 << state;
            }
        }
        reached
    }

    fn reached(&self, mut set: u128) -> impl Iterator<Item = (u32, WiderToken)> {
        std::iter::from_fn(move || {
            let state = set.trailing_zeros();
            let token = *self.states.get(..self.count)?.get(state as usize)?;
            set &= set - 1;
            Some((state, token))
        })
    }
}

/// Returns the text that a segment begins with.
fn begin_of(encoded: &[u8]) -> &[u8] {
    match SegmentPattern::of(encoded).parts().next() {
        Some(SegmentPart::Literal(text)) => text,
        _ => b"",
    }
}

/// Returns the path of texts alone.
fn path_of(parts: &[RedirectPart]) -> Vec<u8> {
    let mut path = Vec::new();
    for part in parts {
        path.push(b'/');
        if let RedirectPart::Literal(segment) = part {
            path.extend_from_slice(segment);
        }
    }
    path
}

/// Returns whether a pattern for hosts holds for all that another one holds for.
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

    fn parts(from: &str) -> Vec<RedirectPart> {
        let text = format!("{from} /target-of-it");
        parse(Path::new("_redirects"), b"/", text.as_bytes()).expect(from).remove(0).path
    }

    #[test]
    fn redirect_patterns_match_their_paths() {
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
    fn a_wildcard_host_covers_hosts_below_it() {
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

    #[test]
    fn patterns_cover_narrower_patterns() {
        for (wider, covered, others) in [
            (
                "/*.:extension",
                &["/a.txt", "/assets/:name.css", "/*.txt", "/k/k_*.md", "/*.:x", "/a/.b.c"][..],
                &["/a", "/*", "/a.b/c", "/a.*", "/:x", "/a.", "/a.b/:x"][..],
            ),
            ("/*b", &["/b", "/ab/", "/a/:x.b", "/*.b", "/:x/b"], &["/*", "/b/a", "/:x", "/b*"]),
            (
                "/a-:x",
                &["/a-b", "/a-:y", "/a-b.:y", "/a-:y.:x"],
                &["/a-", "/a-*", "/a-b/c", "/a-b*"],
            ),
            ("/:x.*", &["/a.b", "/a.*", "/a.b/*", "/a./b/:c", "/:y.:z"], &["/.a", "/*.a", "/:x"]),
            ("/a/*/b", &["/a/x/b", "/a/:x/b", "/a/*/c/b"], &["/a/b", "/a/*", "/a/*/b/:x"]),
            ("/:x.a/*", &["/b.a", "/b.a/*", "/b.a/c", "/:y.a/:z"], &["/.a", "/b.a*", "/c/b.a"]),
            ("/p-:x.:y", &["/p-a.b", "/p-:z.:x", "/p-a.:x"], &["/p-a.", "/p-:x", "/p-.a"]),
        ] {
            let covers = |path: &str| covers_path(&parts(wider), &parts(path));
            covered.iter().for_each(|path| assert!(covers(path), "{wider} {path}"));
            others.iter().for_each(|path| assert!(!covers(path), "{wider} {path}"));
        }
    }

    /// One that is too long to be compared by its parts still covers single paths.
    #[test]
    fn a_pattern_too_long_to_compare_still_covers_single_paths() {
        let long = "a".repeat(200);
        let wider = parts(&format!("/{long}-:x"));
        assert!(covers_path(&wider, &parts(&format!("/{long}-b"))));
        assert!(!covers_path(&wider, &parts(&format!("/{long}-b.:y"))));
    }

    fn path() -> impl Strategy<Value = String> {
        prop::collection::vec("(a|b|ab|a-b|-b|a\\.b|b\\.ab|a\\.|\\.b|b\\.a\\.b)", 0..4)
            .prop_map(|names| format!("/{}", names.join("/")))
    }

    fn pattern() -> impl Strategy<Value = String> {
        let fixed = [
            "a", "b", "ab", ":x", ":y", "a-:x", "-:y", ":x.b", ":x.:y", "*", "a*", "*b", "*.:x",
            "b*-:x", ":x.*", "a*b",
        ];
        let segment = prop::sample::select(fixed.to_vec());
        prop::collection::vec(segment, 0..4).prop_filter_map("a name twice", |names| {
            let path = format!("/{}", names.join("/"));
            let twice = |name: &str| path.matches(name).count() > 1;
            (!twice(":x") && !twice(":y") && !twice("*")).then_some(path)
        })
    }

    proptest! {
        #[test]
        fn a_covering_pattern_matches_every_covered_path(
            wider in pattern(),
            from in pattern(),
            path in path(),
        ) {
            let (wider, parts) = (parts(&wider), parts(&from));
            if covers_path(&wider, &parts) && matches(&parts, path.as_bytes()) {
                prop_assert!(matches(&wider, path.as_bytes()));
            }
        }
    }
}
