//! The blocks of YAML in documents: Docker Compose, GitHub Actions and GitLab CI know every key in
//! them, and the services that commands name exist.

use super::documents;
use pinion_tests::document_blocks::marked;
use pinion_tests::external_programs::{output, python_program};
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::path::Path;

/// Returns the name of the schema of a block for check-jsonschema, which contains all of these
/// schemas.
fn schema(block: &str) -> &'static str {
    let has = |key: &str| block.lines().any(|line| line.starts_with(key));
    match () {
        () if has("services:") => "vendor.compose-spec",
        () if has("jobs:") => "vendor.github-workflows",
        () => "vendor.gitlab-ci",
    }
}

/// Returns the errors of a block.
fn wrong(block: &str) -> Option<String> {
    let folder = Folder::new("yaml");
    folder.write("block.yaml", block);
    let mut check = python_program("check-jsonschema");
    check.args(["--builtin-schema", schema(block)]).arg(folder.join("block.yaml"));
    let ended = output(&mut check);
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let failed = String::from_utf8_lossy(&ended.stderr);
    (!ended.status.success()).then(|| format!("{said}{failed}"))
}

#[test]
fn blocks_of_yaml_have_the_keys_of_their_programs() {
    let mut schemas = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for block in marked(&text, "yaml") {
            assert_eq!(wrong(&block), None, "{}:\n{block}", path.display());
            schemas.push(schema(&block));
        }
    }
    for schema in ["vendor.compose-spec", "vendor.github-workflows", "vendor.gitlab-ci"] {
        assert!(schemas.contains(&schema), "no block of {schema}: are they still marked as yaml?");
    }
}

/// Without this one the other could be blind.
#[test]
fn a_key_that_a_program_does_not_know_is_found() {
    for (right, mistake) in [
        ("services:\n  web:\n    image: site\n    restart: always\n", ("restart", "restarts")),
        (
            "on: push\njobs:\n  a:\n    runs-on: b\n    steps:\n      - run: c\n",
            ("runs-on", "runs_on"),
        ),
        ("deploy:\n  script:\n    - a\n", ("script", "skript")),
    ] {
        assert_eq!(wrong(right), None, "{right}");
        let wrong = wrong(&right.replace(mistake.0, mistake.1));
        assert!(wrong.is_some_and(|said| said.contains(mistake.1) || said.contains(mistake.0)));
    }
}

/// A command of Docker Compose names services of the blocks of its document.
#[track_caller]
pub(crate) fn is_for_a_service(document: &Path, words: &[&str]) {
    let (verb, rest) = words.split_first().expect("a command of Docker Compose");
    assert!(["logs", "up"].contains(verb), "{}: docker compose {verb}", document.display());
    let text = fs::read_to_string(document).expect("a document");
    let blocks = marked(&text, "yaml");
    for service in rest.iter().filter(|word| !word.starts_with('-')) {
        let is_there = blocks.iter().any(|block| block.contains(&format!("\n  {service}:\n")));
        assert!(is_there, "{}: docker compose {verb} {service}", document.display());
    }
}
