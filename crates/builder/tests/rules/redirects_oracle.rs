//! `_redirects` against `@netlify/redirect-parser`: the same lines are taken, but for those that
//! docs/rules.md lists, and they fall into the same words.

use std::path::Path;

use pinion_archive::{SegmentPart, SegmentPattern};
use pinion_builder::rules::redirects::{QueryValue, Redirect, RedirectPart, TargetPart, parse};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use crate::netlify_parsers;

/// Lines in one run of node, which takes longer to start than to parse them.
const LINES: usize = 3000;

/// The lines that Pinion refuses and Netlify's parser accepts: docs/rules.md has the reasons.
const REFUSED: [&str; 14] = [
    "a path that begins with / or ./, or a URL",
    "a path without ?",
    "a path without #",
    "a name between the slashes",
    "at most one *",
    "a placeholder",
    "another name",
    "another parameter",
    "key=value",
    "a status: 200, 301",
    "a path of this site",
    "no condition",
    "a status such as 301, or the end of the line",
    "the end of the line after the status",
];

#[test]
fn redirect_lines_agree_with_the_parser_of_netlify() {
    let mut runner = TestRunner::default();
    let mut lines: Vec<String> = EXAMPLES.iter().map(|line| (*line).to_owned()).collect();
    lines.extend((0..LINES).map(|_| line().new_tree(&mut runner).expect("a line").current()));
    let results = netlify_parsers::parse("redirects", &lines, &[]);
    let mut taken = 0;
    for (line, result) in lines.iter().zip(&results) {
        let theirs = result["rules"].as_array().expect("a list").first();
        let ours = parse(Path::new("_redirects"), b"/", line.as_bytes());
        let ours = ours.as_deref().map_err(Vec::as_slice);
        match (ours, theirs) {
            (Ok([ours]), Some(theirs)) => {
                taken += 1;
                same(line, ours, theirs);
            }
            (Ok([]), None) | (Err(_), None) => {}
            (Ok([_]), None) if line.contains("./") => {}
            (Err([error]), Some(_)) => {
                let listed = |reason: &&str| error.expected.starts_with(*reason);
                let known = REFUSED.iter().any(listed);
                assert!(known, "{line:?}: only we refuse it: {error}");
            }
            (ours, theirs) => panic!("{line:?}: {ours:?}, they: {theirs:?} {result}"),
        }
    }
    assert!(taken > lines.len() / 20, "only {taken} lines of {} were taken", lines.len());
}

/// Lines of Netlify's documentation.
const EXAMPLES: [&str; 12] = [
    "/home              /",
    "/blog/my-post.php  /blog/my-post # this is a rule to redirect my-post",
    "/news/*  /blog/:splat",
    "/news/:month/:date/:year/:slug  /blog/:year/:month/:date/:slug",
    "/articles id=:id tag=:tag /posts/:tag/:id 301",
    "/path/* param1=:value1 /otherpath/:value1/:splat 301",
    "/temp_redirect       /         302",
    "/rewrite             /sitemap  200",
    "/*                   /index.html 200",
    "/best-pets/dogs      /best-pets/cats.html 200!",
    "http://blog.yoursite.com/* https://www.yoursite.com/blog/:splat 301!",
    "/store id=:id  /blog/:id  301",
];

#[track_caller]
fn same(line: &str, ours: &Redirect, theirs: &Value) {
    let status = theirs.get("status").map_or(Some(301), Value::as_u64);
    assert_eq!(Some(u64::from(ours.status)), status, "{line:?}");
    assert_eq!(Some(ours.force), theirs["force"].as_bool(), "{line:?}");
    let host = theirs["host"].as_str().map(|host| host.split(':').next().unwrap_or_default());
    let host = host.filter(|host| *host != "*").map(str::as_bytes);
    assert_eq!(ours.host.as_deref(), host, "{line:?}");
    let mut names = Vec::new();
    assert_eq!(
        ours.path,
        path_of(absolute(theirs["path"].as_str().expect("a path")), &mut names),
        "{line:?}"
    );
    // Their query is an object: its order is that of the line, for keys that are no numbers.
    let query = theirs["query"].as_object().expect("an object");
    assert_eq!(ours.query.len(), query.len(), "{line:?}");
    for (key, value) in &ours.query {
        let theirs = query[std::str::from_utf8(key).expect("text")].as_str().expect("a value");
        match (value, theirs.strip_prefix(':')) {
            (QueryValue::Capture, Some(name)) => names.push(name.to_owned()),
            (QueryValue::Is(value), None) => assert_eq!(**value, *theirs.as_bytes(), "{line:?}"),
            other => panic!("{line:?}: {other:?}"),
        }
    }
    let target = absolute(theirs["to"].as_str().expect("a target"));
    assert_eq!(filled(&ours.target, &names), target, "{line:?}");
}

/// Returns a path without the leading `.` of a relative rule. Only Pinion has relative rules: a
/// path that stays as it is written is a path of the root here.
fn absolute(path: &str) -> &str {
    match path.strip_prefix('.') {
        Some(below) if below.starts_with('/') => below,
        _ => path,
    }
}

/// Returns a path of Netlify's parser in the parts of Pinion, and the names of its captures.
fn path_of(path: &str, names: &mut Vec<String>) -> Vec<RedirectPart> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let last = segments.len().saturating_sub(1);
    let parts = segments.iter().enumerate().map(|(rank, segment)| {
        match (segment.strip_prefix(':'), segment.strip_suffix('*')) {
            (Some(name), _) => {
                names.push(name.to_owned());
                RedirectPart::Capture
            }
            (None, Some(prefix)) if rank == last => {
                names.push("splat".to_owned());
                RedirectPart::Rest(prefix.as_bytes().into())
            }
            (None, Some("")) => {
                names.push("splat".to_owned());
                let star = SegmentPattern::encode(&[SegmentPart::Star]);
                RedirectPart::Mixed(star.expect("a segment").into())
            }
            _ => RedirectPart::Literal(segment.as_bytes().into()),
        }
    });
    parts.collect()
}

/// Returns a target of Pinion as it was written.
fn filled(target: &[TargetPart], names: &[String]) -> String {
    let parts = target.iter().map(|part| match part {
        TargetPart::Literal(text) => String::from_utf8_lossy(text).into_owned(),
        TargetPart::Capture(number) => format!(":{}", names[usize::from(*number)]),
    });
    parts.collect()
}

/// Words of every kind, most of them where they belong.
fn line() -> impl Strategy<Value = String> {
    let from = prop_oneof![
        8 => Just("/a"),
        4 => Just("/a/*"),
        4 => Just("/:x/b/:y"),
        2 => Just("/"),
        2 => Just("/*"),
        2 => Just("/a*"),
        2 => Just("http://h.example:80/a/:x"),
        2 => Just("https://h.example"),
        1 => Just("a"),
        1 => Just("/a/*/b"),
        1 => Just("/a/*/b/*"),
        1 => Just("/a?b=c"),
        1 => Just("#a"),
        1 => Just("/a#b"),
        1 => Just("/:x/:x"),
    ];
    let query =
        prop_oneof![Just("k=v"), Just("k=:q"), Just("l=:r"), Just("m="), Just("k"), Just("=x")];
    let to = prop_oneof![
        8 => Just("/b"),
        4 => Just("/b/:x"),
        4 => Just("/b/:splat"),
        2 => Just("/b?x=:q"),
        2 => Just("https://e.example/b:c/:splat"),
        2 => Just("http://e.example"),
        1 => Just("b"),
        1 => Just("./b"),
        1 => Just("ftp://e.example/"),
    ];
    let status = prop_oneof![
        4 => Just("301"), 2 => Just("302!"), 2 => Just("200"), 2 => Just("200!"), 1 => Just("404"),
        1 => Just("999"), 1 => Just("30x"), 1 => Just("x"), 1 => Just("!")
    ];
    let last = prop_oneof![Just("Country=us"), Just("x=y"), Just("# why"), Just("#"), Just("/c")];
    let words = (
        prop::option::weighted(0.95, from),
        prop::collection::vec(query, 0..2),
        prop::option::weighted(0.9, to),
        prop::option::weighted(0.6, status),
        prop::option::weighted(0.2, last),
    );
    let space = prop_oneof![6 => Just(" "), 1 => Just("\t"), 1 => Just("  "), 1 => Just("\u{a0}")];
    (words, space).prop_map(|((from, query, to, status, last), space)| {
        let words = from.into_iter().chain(query).chain(to).chain(status).chain(last);
        words.collect::<Vec<_>>().join(space)
    })
}
