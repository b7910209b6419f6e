//! The build script of this package refuses a library with jitter entropy.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PATH: &str = "DEP_AWS_LC_RS_1_19_0_SYS_LIBCRYPTO_PATH";

/// Runs the script with a library of these bytes, or without one.
fn run(library: Option<&[u8]>) -> Output {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = |kind: &str| folder.join(format!("engine-{kind}-{}", std::process::id()));
    let (program, path) = (name("build-script"), name("libcrypto"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-o"]).arg(&program).arg(source);
    assert!(rustc.status().expect("rustc runs").success());
    let mut command = Command::new(&program);
    command.env_clear();
    if let Some(bytes) = library {
        fs::write(&path, bytes).expect("written");
        command.env(PATH, &path);
    }
    let output = command.output().expect("it runs");
    fs::remove_file(program).expect("removed");
    let _none_was_made = fs::remove_file(path);
    output
}

#[test]
fn a_library_with_jitter_entropy_is_refused_by_name() {
    assert!(run(Some(b"jj\0jent_read_entropy\0aws_lc_tree_jitter_initialize\0")).status.success());
    for (library, named) in [
        (Some(&b"x\0jent_entropy_collector_alloc\0"[..]), "AWS_LC_SYS_NO_JITTER_ENTROPY=1"),
        (None, "aws-lc-rs does not say where"),
    ] {
        let refused = run(library);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && why.contains(named), "{why}");
    }
}

/// The library that this program was linked with seeds its generator without the processor's
/// jitter.
#[test]
fn this_build_has_no_jitter_entropy() {
    assert!(aws_lc_rs::try_fips_cpu_jitter_entropy().is_err());
}
