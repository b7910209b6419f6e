//! Any archive as a folder: nothing is written outside of it, and its files are the archive's.
#![no_main]

#[path = "../../crates/archive/tests/archive/fuzz_edits.rs"]
mod fuzz_edits;
#[path = "../../crates/builder/tests/build/extract_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _either_is_fine = law::check(data);
});
