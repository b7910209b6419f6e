//! The parsers that Netlify publishes, executed by node (`tests/package.json` has their versions).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Returns the result of the parser for each text as a file: `{rules, errors}`. Rules of `_headers`
/// have the matching ones of `paths`.
#[track_caller]
pub(crate) fn parse(kind: &str, texts: &[String], paths: &[&str]) -> Vec<Value> {
    let modules = modules();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules/netlify.mjs");
    let mut node = Command::new("node")
        .args([script.as_os_str(), modules.as_os_str(), kind.as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node is there; cargo xtask test --only needs");
    let input = json!({"texts": texts, "paths": paths}).to_string();
    node.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("node reads it all");
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success(), "node: {}", output.status);
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results.len(), texts.len());
    results
}

/// Returns the folder in which `cargo xtask test --only needs` installs them, next to the folders
/// of cargo's profiles.
fn modules() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let target = test.ancestors().nth(3).expect("tests lie in target/PROFILE/deps");
    let modules = target.join("node/node_modules");
    assert!(modules.is_dir(), "{} is missing; cargo xtask test --only needs", modules.display());
    modules
}
