//! An edited archive of an earlier release: the assets that a build keeps from it.
#![no_main]

#[path = "../../crates/archive/tests/archive/fuzz_edits.rs"]
mod fuzz_edits;
#[path = "../../crates/builder/tests/build/previous_assets_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
