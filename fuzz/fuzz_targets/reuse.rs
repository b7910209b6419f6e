//! An older archive and the file of fingerprints beside it, edited: what a build takes from them.
#![no_main]

#[path = "../../crates/build/tests/build/reuse_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
