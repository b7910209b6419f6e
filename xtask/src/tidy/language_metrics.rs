//! Measures the language of the comments and names of the code: the amount that a newcomer has to
//! learn.

use super::Rule;
use super::comment_extraction::comments;
use super::project::{Finding, Project};
use super::rust_source::positions;
use std::collections::BTreeMap;

/// The counts over the crates, without their tests.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Language {
    comment_words: usize,
    /// The number of the word `what`, which often replaces a missing term.
    whats: usize,
    /// Names of types, each with the files that define it.
    types: BTreeMap<String, Vec<String>>,
}

pub(super) const TYPE_NAMES: Rule =
    Rule { name: "type names", check: type_names, canary: three_types };

/// The most types of the crates that may have the same name. With more, a name says too little.
const SAME_NAME_MAX: usize = 2;

/// Names that every crate may have.
const COMMON: [&str; 3] = ["Error", "State", "Kind"];

impl Language {
    pub(super) fn of(project: &Project) -> Self {
        let mut language = Self::default();
        let is_counted = |path: &str| {
            path.starts_with("crates/")
                && ["/src/", "/program/"].iter().any(|part| path.contains(part))
        };
        for file in project.files.iter().filter(|file| is_counted(&file.path) && !file.is_test()) {
            let comments = comments(file).unwrap_or_default();
            let words = comments.split(|c: char| !c.is_alphabetic() && c != '\'');
            for word in words.filter(|word| !word.is_empty()) {
                language.comment_words += 1;
                language.whats += usize::from(word.eq_ignore_ascii_case("what"));
            }
            let Some(source) = &file.rust else { continue };
            for keyword in ["struct", "enum", "trait"] {
                for at in positions(&source.code, keyword).filter(|at| !source.is_test(*at)) {
                    let rest = source.code[at + keyword.len()..].trim_start();
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    let name = &rest[..end.unwrap_or(rest.len())];
                    if name.starts_with(char::is_uppercase) {
                        let files = language.types.entry(name.to_owned()).or_default();
                        files.push(file.path.clone());
                    }
                }
            }
        }
        language
    }

    /// Returns the figures as lines, and the names that several types have.
    pub(super) fn report(&self) -> String {
        let types: usize = self.types.values().map(Vec::len).sum();
        let is_plain = |name: &str| name.chars().skip(1).all(|c| !c.is_uppercase());
        let plain = self.types.iter().filter(|(name, _)| is_plain(name));
        let plain: usize = plain.map(|(_, files)| files.len()).sum();
        let repeated = |least: usize| {
            let is_repeated =
                move |name: &str, count: usize| count >= least && !COMMON.contains(&name);
            self.types.iter().filter(move |(name, files)| is_repeated(name, files.len()))
        };
        let mut lines = format!(
            "language of the crates:\n\
             {:>6.1}  times `what` in 1000 words of comments\n\
             {:>6.1}  % of {types} types have a name of one word\n\
             {:>6}  names have three or more types\n",
            self.whats as f64 * 1000.0 / self.comment_words.max(1) as f64,
            plain as f64 * 100.0 / types.max(1) as f64,
            repeated(3).count(),
        );
        for (name, files) in repeated(3) {
            lines += &format!("        {name}: {}\n", files.join(", "));
        }
        lines
    }
}

/// Finds the names that too many types have.
fn type_names(project: &Project) -> Vec<Finding> {
    let types = Language::of(project).types;
    let is_common = |name: &String| COMMON.contains(&&name[..]);
    let repeated =
        types.iter().filter(|(name, files)| files.len() > SAME_NAME_MAX && !is_common(name));
    let finding = |(name, files): (&String, &Vec<String>)| {
        let reason = format!("{} types are named `{name}`, at most {SAME_NAME_MAX}", files.len());
        files.last().map(|path| Finding::at(path, 0, reason))
    };
    repeated.filter_map(finding).collect()
}

fn three_types() -> Project {
    let path = |crate_name: &str| format!("crates/{crate_name}/src/a.rs");
    let paths = ["http", "site", "lua"].map(path);
    Project::of(&paths.each_ref().map(|path| (&path[..], "struct Place;\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_types_outside_of_tests_are_counted() {
        let code = "//! What it is.\n/// A word.\nstruct Place;\nenum TwoWords {}\n\
                    #[cfg(test)]\nmod tests {\n    struct Place;\n}\n";
        let project = Project::of(&[
            ("crates/http/src/a.rs", code),
            ("crates/http/src/b.rs", "pub struct Place { a: u8 }\n"),
            ("crates/http/tests/c.rs", "struct Place;\n"),
            ("xtask/src/d.rs", "struct Place;\n"),
        ]);
        let language = Language::of(&project);
        assert_eq!((language.comment_words, language.whats), (5, 1));
        let counts: Vec<_> =
            language.types.iter().map(|(name, at)| (&name[..], at.len())).collect();
        assert_eq!(counts, [("Place", 2), ("TwoWords", 1)]);
        let report = language.report();
        assert!(report.contains(" 200.0  times `what`"), "{report}");
        assert!(report.contains("  66.7  % of 3 types"), "{report}");
    }
}
