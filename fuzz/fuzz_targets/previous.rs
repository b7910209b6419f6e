//! The archive of an earlier release, edited: what a build takes over from it.
#![no_main]

#[path = "../../crates/archive/tests/archive/edits.rs"]
mod edits;
#[path = "../../crates/build/tests/build/previous_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
