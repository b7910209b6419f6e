//! The fields of `_headers` in an archive are those of a plain reading of its rules, path by path.

use proptest::prelude::*;

use crate::folder::Folder;
use crate::reader::built;

const FILES: [&str; 7] = ["a", "abc", "b.css", "A/x.txt", "d/b.css", "d/e/b", "d/e/f/abc.txt"];
const NAMES: [&str; 3] = ["X-A", "X-B", "Cache-Control"];
const PATTERNS: [&str; 17] = [
    "/*", "/a", "/A", "/a*", "/*.css", "/*b*", "/:x", "/:x/:y", "/d/*", "/D/e/", "/d/*/b", "/*/b",
    "/d/:x/*", "/*/*.txt", "/*/e/*", "/", "/none/*",
];

/// Whether a pattern without a slash at its end is about a path, by trying everything.
fn fits(pattern: &str, path: &str) -> bool {
    let (head, rest) = match pattern.strip_prefix('/') {
        Some(segment) => segment.split_at(segment.find('/').unwrap_or(segment.len())),
        None => ("", pattern),
    };
    let below = path.strip_prefix('/');
    if head == "*" {
        return fits(rest, path)
            || below
                .is_some_and(|below| (0..=below.len()).any(|length| fits(rest, &below[length..])));
    }
    if head.starts_with(':') {
        return below.is_some_and(|below| {
            let length = below.find('/').unwrap_or(below.len());
            length > 0 && fits(rest, &below[length..])
        });
    }
    let Some(first) = pattern.chars().next() else { return path.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    match first {
        '*' => (0..=path.len()).any(|length| fits(rest, &path[length..])),
        _ => path
            .strip_prefix(|other: char| other.eq_ignore_ascii_case(&first))
            .is_some_and(|path| fits(rest, path)),
    }
}

/// What is said of a name: a value, or that it is taken away.
type Line = (&'static str, Option<u8>);
type Rule = (&'static str, Vec<Line>);

fn text(rules: &[Rule]) -> String {
    let line = |(name, value): &Line| match value {
        Some(value) => format!("  {name}: v{value}\n"),
        None => format!("  ! {name}\n"),
    };
    let rule = |(pattern, lines): &Rule| {
        format!("{pattern}\n{}", lines.iter().map(line).collect::<String>())
    };
    rules.iter().map(rule).collect()
}

/// The value of a field of a path: the first one stands for the built-in one, others are joined.
fn told(rules: &[Rule], path: &str, name: &str, built_in: Option<&str>) -> Option<String> {
    let is_of = |(pattern, _): &&Rule| fits(pattern.trim_end_matches('/'), path);
    let lines = rules.iter().filter(is_of).flat_map(|(_, lines)| lines);
    let (mut found, mut is_given) = (built_in.map(str::to_owned), false);
    for (_, value) in lines.filter(|(of, _)| *of == name) {
        found = match (value, found) {
            (None, _) => None,
            (Some(value), Some(before)) if is_given => Some(format!("{before}, v{value}")),
            (Some(value), _) => Some(format!("v{value}")),
        };
        is_given = value.is_some();
    }
    found
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let line = (prop::sample::select(&NAMES), prop::option::weighted(0.7, 0..9_u8));
    let rule = (prop::sample::select(&PATTERNS), prop::collection::vec(line, 1..4));
    prop::collection::vec(rule, 0..7)
}

proptest! {
    #[test]
    fn fields_are_those_of_a_plain_reading(rules in rules()) {
        let folder = Folder::with(&FILES.map(|name| (name, name)));
        let before = built(&folder);
        folder.file("_headers", text(&rules));
        let after = built(&folder);
        for file in FILES {
            let path = format!("/{file}");
            let (before, after) = (before.page(&path), after.page(&path));
            for name in NAMES {
                let expected = told(&rules, &path, name, before.field(name));
                prop_assert_eq!(
                    after.field(name), expected.as_deref(), "{} of {}:\n{}", name, path,
                    text(&rules)
                );
            }
        }
    }
}
