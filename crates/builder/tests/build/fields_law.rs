//! The fields of `_headers` in an archive are those of a plain reading of its rules, path by path.

use proptest::prelude::*;

use crate::archive_reader::built;
use crate::fields_oracle::{PATTERNS, Rule, expected_values, text};
use crate::temporary_folder::Folder;

const FILES: [&str; 8] =
    ["a", "abc", "b.css", "A/x.txt", "d/b.css", "d/e/b", "d/e/f/abc.txt", "d-e"];
const NAMES: [&str; 4] = ["X-A", "X-B", "Cache-Control", "Vary"];

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let line = (prop::sample::select(&NAMES), prop::option::weighted(0.7, 0..4_u8));
    let rule = (prop::sample::select(&PATTERNS), prop::collection::vec(line, 1..4));
    prop::collection::vec(rule, 0..7)
}

proptest! {
    #[test]
    fn fields_agree_with_the_oracle(rules in rules()) {
        let folder = Folder::with(&FILES.map(|name| (name, name)));
        let before = built(&folder);
        folder.file("_headers", text(&rules));
        let after = built(&folder);
        for file in FILES {
            let path = format!("/{file}");
            let (before, after) = (before.page(&path), after.page(&path));
            for name in NAMES {
                let expected = expected_values(&rules, &[&path], name, before.field(name));
                prop_assert_eq!(
                    after.field(name), expected.first().map(String::as_str), "{} of {}:\n{}", name,
                    path, text(&rules)
                );
            }
        }
    }
}
