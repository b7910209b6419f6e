//! An edited older archive with its edited file of fingerprints: the data that a build reuses.
#![no_main]

#[path = "../../crates/builder/tests/build/reuse_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
