//! Compares `_headers` with `@netlify/headers-parser`: the same fields for the same paths, except
//! for the differences in docs/rules.md.

use std::path::Path;

use pinion_builder::RuleError;
use pinion_builder::rules::headers::{FieldRule, HeaderChange, parse};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value};

use crate::netlify_parsers;

/// Files in one run of node.
const FILES: usize = 1000;

/// Paths that are matched with each pattern.
const PATHS: [&str; 14] = [
    "/", "/a", "/a/", "/A", "/b", "/a/b", "/a/b/c", "/x/a", "/a.css", "/a/b.css", "/a/x/b", "//",
    "/abc", "/c/d/e",
];

/// Lines that only this parser refuses. That of Netlify silently skips lines that it does not
/// understand: docs/rules.md has the reasons.
const REFUSED: [Refused; 5] = [
    Refused { expected: "a path before the headers", line: |line| line.contains(':') },
    Refused { expected: "a path, Name: value, or ! Name", line: |line| !line.contains(':') },
    Refused { expected: "a value", line: |line| line.ends_with(':') },
    Refused { expected: "a header name of letters", line: |line| line.starts_with(':') },
    Refused { expected: "another header", line: |line| DECIDED.contains(&name(line)) },
];

/// Fields that the file may not set.
const DECIDED: [&str; 2] = ["ETag", "Basic-Auth"];

/// A reason to refuse a line, and the lines for which it is given.
struct Refused {
    /// The first words of the error.
    expected: &'static str,
    line: fn(&str) -> bool,
}

impl Refused {
    /// Returns whether the error has this reason, and its line matches.
    fn is_reason_of(&self, error: &RuleError, text: &str) -> bool {
        let line = text.split('\n').nth(error.line - 1).expect("a line of the file").trim();
        error.expected.starts_with(self.expected) && (self.line)(line)
    }
}

/// Returns the text in front of the colon.
fn name(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

#[test]
fn fields_agree_with_the_parser_of_netlify() {
    let mut runner = TestRunner::default();
    let mut texts: Vec<String> = EXAMPLES.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..FILES).map(|_| file().new_tree(&mut runner).expect("a file").current()));
    let results = netlify_parsers::parse("headers", &texts, &PATHS);
    let (mut taken, mut seen) = (0, [false; REFUSED.len()]);
    for (text, result) in texts.iter().zip(&results) {
        let errors = result["errors"].as_array().expect("a list");
        let ours = match parse(Path::new("_headers"), text.as_bytes()) {
            Ok(ours) => ours,
            Err(ours) => {
                assert!(!ours.is_empty(), "{text:?}");
                for error in ours {
                    let rank = REFUSED.iter().position(|row| row.is_reason_of(&error, text));
                    match rank {
                        Some(rank) => seen[rank] = true,
                        // A file that both refuse needs no reason here.
                        None => assert!(!errors.is_empty(), "{text:?}: only we refuse it: {error}"),
                    }
                }
                continue;
            }
        };
        assert!(errors.is_empty(), "{text:?}: only they refuse it: {errors:?}");
        let theirs = without_repeats(result["rules"].as_array().expect("a list"));
        let ours: Vec<Value> = ours.rules.iter().map(as_theirs).collect();
        assert_eq!(without_repeats(&ours), theirs, "{text:?}");
        taken += 1;
    }
    assert!(taken > texts.len() / 4, "only {taken} files of {} were taken", texts.len());
    let unseen = REFUSED.iter().zip(seen).filter(|(_, seen)| !seen);
    assert_eq!(unseen.count(), 0, "every reason is met: {seen:?}");
}

/// Files from the documentation of Netlify.
const EXAMPLES: [&str; 3] = [
    "# a path:\n/templates/index.html\n  # headers for that path:\n  X-Frame-Options: DENY\n",
    "/*\n  X-Frame-Options: SAMEORIGIN\n/c/*\n  cache-control: max-age=0\n\
     \x20 cache-control: no-cache\n\
     \x20 cache-control: no-store\n",
    "/*\n  Content-Security-Policy: default-src 'self'; img-src https://a.example:443 *\n",
];

/// Returns such a rule in the form of Netlify's parser.
fn as_theirs(rule: &FieldRule) -> Value {
    let mut values = Map::new();
    for change in &rule.changes {
        let HeaderChange::Set { name, value } = change else { panic!("no such line is made") };
        let value = commas(value);
        let joined = match values.get(name).and_then(Value::as_str) {
            Some(known) => format!("{known}, {value}"),
            None => value,
        };
        values.insert(name.clone(), joined.into());
    }
    let matches = PATHS.iter().filter(|path| rule.pattern.matches(path.as_bytes()));
    serde_json::json!({"values": values, "matches": matches.collect::<Vec<_>>()})
}

/// Formats commas: Netlify's parser puts one space after each comma, and this one keeps a value
/// unchanged.
fn commas(value: &str) -> String {
    value.split(',').map(str::trim).collect::<Vec<_>>().join(", ")
}

/// Removes repeated rules: Netlify's parser keeps only the last of equal rules, and calls the
/// pattern `for`.
fn without_repeats(rules: &[Value]) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for rule in rules.iter().rev() {
        let rule = serde_json::json!({"values": rule["values"], "matches": rule["matches"]});
        if !kept.contains(&rule) {
            kept.push(rule);
        }
    }
    kept.reverse();
    kept
}

fn file() -> impl Strategy<Value = String> {
    // In Netlify's parser `/a/*` matches /abc too, and in `/*.css` the dot is any character: this
    // is not tested here.
    let pattern = prop_oneof![
        Just("/"),
        Just("/*"),
        Just("/a"),
        Just("/A/"),
        Just("/a/b"),
        Just("/:x"),
        Just("/:x/b"),
        Just("/c/*"),
        Just("/*/b"),
        Just("/a*c"),
        Just("//a"),
    ];
    let field = prop_oneof![
        6 => Just("  X-A: b"),
        4 => Just("\tX-B : c ,d,e"),
        4 => Just("X-A: https://h:80/"),
        2 => Just("  # why"),
        2 => Just(""),
        1 => Just(": x"),
        1 => Just("X-C:"),
        1 => Just("words"),
        1 => Just("  ETag: \"x\""),
        1 => Just("Basic-Auth: a:b"),
    ];
    let rule = (prop::option::weighted(0.95, pattern), prop::collection::vec(field, 0..4));
    prop::collection::vec(rule, 0..4).prop_map(|rules| {
        let lines = rules.into_iter().flat_map(|(path, fields)| path.into_iter().chain(fields));
        lines.collect::<Vec<_>>().join("\n")
    })
}
