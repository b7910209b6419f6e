//! An edited archive of an earlier release: the assets that a build keeps from it.
#![no_main]

#[path = "../../crates/archive/tests/archive/edits.rs"]
mod edits;
#[path = "../../crates/builder/tests/build/previous_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
