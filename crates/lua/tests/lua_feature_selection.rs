//! The build script of this package refuses invalid configurations.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Compiles the script and runs it with these features.
fn run(features: &[&str]) -> Output {
    let name = format!("build-script-{}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-o"]).arg(&program).arg(source);
    assert!(rustc.status().expect("rustc").success());
    let mut command = Command::new(&program);
    command.env_clear();
    command.envs(features.iter().map(|feature| (format!("CARGO_FEATURE_{feature}"), "1")));
    let output = command.output().expect("it runs");
    fs::remove_file(program).expect("removed");
    output
}

#[test]
fn exactly_one_lua_feature_must_be_selected() {
    for features in [&["LUAJIT"][..], &["LUA54"]] {
        assert!(run(features).status.success(), "{features:?}");
    }
    for features in [&[][..], &["LUAJIT", "LUA54"]] {
        let refused = run(features);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && why.contains("choose one Lua"), "{why}");
    }
}
