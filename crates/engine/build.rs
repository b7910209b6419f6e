//! Refuses to build with a cryptographic library that delays every start.
//!
//! AWS-LC gathers entropy from the jitter of the processor when its random generator is first used,
//! which takes 45 to 90 ms. `AWS_LC_SYS_NO_JITTER_ENTROPY=1` leaves that out. Cargo reads the
//! setting from `.cargo/config.toml`, but not for `cargo install --git`, so this looks at what was
//! built.

use std::{env, fs};

/// A function of the entropy collector: the library has its name if and only if it can be called.
const COLLECTOR: &[u8] = b"jent_entropy_collector_alloc";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=AWS_LC_SYS_NO_JITTER_ENTROPY");
    let is_path =
        |name: &str| name.starts_with("DEP_AWS_LC_RS_") && name.ends_with("_SYS_LIBCRYPTO_PATH");
    let Some((_, path)) = env::vars().find(|(name, _)| is_path(name)) else {
        panic!(
            "aws-lc-rs does not say where the AWS-LC is that it has built; was it to use another?"
        );
    };
    println!("cargo:rerun-if-changed={path}");
    let library = fs::read(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    let (first, rest) = COLLECTOR.split_first().expect("a name");
    if library.split(|byte| byte == first).any(|part| part.starts_with(rest)) {
        panic!(
            "AWS-LC was built with jitter entropy, which delays every start of the server by 45 to \
             90 ms. `.cargo/config.toml` leaves it out, but cargo does not read that file here. \
             Set it for the build:\n  AWS_LC_SYS_NO_JITTER_ENTROPY=1 cargo …"
        );
    }
}
