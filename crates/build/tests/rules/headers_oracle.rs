//! `_headers` against `@netlify/headers-parser`: the same fields for the same paths, but for what
//! docs/rules.md lists.

use std::path::Path;

use pinion_build::rules::headers::{Change, FieldRule, parse};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value};

use crate::netlify;

/// Files in one run of node.
const FILES: usize = 1000;

/// Paths that are held against each pattern.
const PATHS: [&str; 14] = [
    "/", "/a", "/a/", "/A", "/b", "/a/b", "/a/b/c", "/x/a", "/a.css", "/a/b.css", "/a/x/b", "//",
    "/abc", "/c/d/e",
];

#[test]
fn the_same_fields_for_the_same_paths() {
    let mut runner = TestRunner::default();
    let mut texts: Vec<String> = EXAMPLES.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..FILES).map(|_| file().new_tree(&mut runner).expect("a file").current()));
    let results = netlify::parse("headers", &texts, &PATHS);
    let mut taken = 0;
    for (text, result) in texts.iter().zip(&results) {
        let errors = result["errors"].as_array().expect("a list");
        // They leave out in silence what they do not understand.
        let Ok(ours) = parse(Path::new("_headers"), text.as_bytes()) else { continue };
        assert!(errors.is_empty(), "{text:?}: only they refuse it: {errors:?}");
        let theirs = without_repeats(result["rules"].as_array().expect("a list"));
        let ours: Vec<Value> = ours.rules.iter().map(as_theirs).collect();
        assert_eq!(without_repeats(&ours), theirs, "{text:?}");
        taken += 1;
    }
    assert!(taken > texts.len() / 4, "only {taken} files of {} were taken", texts.len());
}

/// Files of Netlify's documentation.
const EXAMPLES: [&str; 3] = [
    "# a path:\n/templates/index.html\n  # headers for that path:\n  X-Frame-Options: DENY\n",
    "/*\n  X-Frame-Options: SAMEORIGIN\n/c/*\n  cache-control: max-age=0\n\
     \x20 cache-control: no-cache\n\
     \x20 cache-control: no-store\n",
    "/*\n  Content-Security-Policy: default-src 'self'; img-src https://a.example:443 *\n",
];

/// What they make of such a rule.
fn as_theirs(rule: &FieldRule) -> Value {
    let mut values = Map::new();
    for change in &rule.changes {
        let Change::Give { name, value } = change else { panic!("no such line is made") };
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

/// They put one space behind each comma, wherever it stands; we leave a value as it is written.
fn commas(value: &str) -> String {
    value.split(',').map(str::trim).collect::<Vec<_>>().join(", ")
}

/// They keep the last of equal rules only, and call the pattern `for`.
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
    // Their `/a/*` matches /abc too, and in `/*.css` the dot is any character: not tried here.
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
    ];
    let rule = (prop::option::weighted(0.95, pattern), prop::collection::vec(field, 0..4));
    prop::collection::vec(rule, 0..4).prop_map(|rules| {
        let lines = rules.into_iter().flat_map(|(path, fields)| path.into_iter().chain(fields));
        lines.collect::<Vec<_>>().join("\n")
    })
}
