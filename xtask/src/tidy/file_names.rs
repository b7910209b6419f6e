//! Rule: the name of a file describes its contents.

use super::Rule;
use super::project::{Finding, Project};

pub(super) const VAGUE: Rule = Rule { name: "vague names", check: vague, canary: vague_file };

/// Names that fit any contents and therefore describe none.
const VAGUE_NAMES: &[&str] = &[
    "common",
    "core",
    "helper",
    "helpers",
    "item",
    "items",
    "manager",
    "many",
    "misc",
    "place",
    "places",
    "service",
    "services",
    "shared_utils",
    "stuff",
    "thing",
    "things",
    "util",
    "utils",
    "work",
];

fn vague(project: &Project) -> Vec<Finding> {
    let is_vague = |part: &str| VAGUE_NAMES.contains(&part.strip_suffix(".rs").unwrap_or(part));
    let own = |path: &&String| path.ends_with(".rs");
    let found = project.paths.iter().filter(own).filter(|path| path.split('/').any(is_vague));
    found.map(|path| Finding::at(path, 0, "the name does not say what is in it")).collect()
}

fn vague_file() -> Project {
    Project::of(&[("crates/http/src/util.rs", "")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_checked_by_whole_words() {
        assert_eq!(vague(&Project::of(&[("tests/helpers/mod.rs", "")])).len(), 1);
        assert!(vague(&Project::of(&[("crates/http/src/utility_pole.rs", "")])).is_empty());
    }
}
