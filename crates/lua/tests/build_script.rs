//! The script that this package is built by refuses what would be built wrongly.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles the script.
fn program() -> PathBuf {
    let name = format!("build-script-{}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-o"]).arg(&program).arg(source);
    assert!(rustc.status().expect("rustc").success());
    program
}

/// Runs it with these features and these flags for what is written in C.
fn run(features: &[&str], flags: Option<&str>) -> Output {
    let program = program();
    let mut command = Command::new(&program);
    command.env_clear().envs(flags.map(|flags| ("CFLAGS", flags)));
    command.envs(features.iter().map(|feature| (format!("CARGO_FEATURE_{feature}"), "1")));
    let output = command.output().expect("it runs");
    fs::remove_file(program).expect("removed");
    output
}

/// In a loop that was compiled without CHECKHOOK nothing looks whether it is to stop.
#[test]
fn luajit_is_built_with_what_stops_compiled_loops() {
    for flags in ["-DLUAJIT_ENABLE_CHECKHOOK", "-O3 -DLUAJIT_ENABLE_CHECKHOOK -g"] {
        assert!(run(&["LUAJIT"], Some(flags)).status.success(), "{flags}");
    }
    for flags in [None, Some(""), Some("-O3"), Some("-DLUAJIT_ENABLE_CHECKHOOKS")] {
        let refused = run(&["LUAJIT"], flags);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{flags:?}");
        assert!(why.contains("add -DLUAJIT_ENABLE_CHECKHOOK to it"), "{why}");
    }
    assert!(run(&["LUA54"], None).status.success(), "it compiles no loops");
}

#[test]
fn there_is_one_lua() {
    for features in [&[][..], &["LUAJIT", "LUA54"]] {
        let refused = run(features, Some("-DLUAJIT_ENABLE_CHECKHOOK"));
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && why.contains("choose one Lua"), "{why}");
    }
}
