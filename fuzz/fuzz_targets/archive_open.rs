//! Any bytes as an archive: there is no panic, and no wrong result.
#![no_main]

#[path = "../../crates/archive/tests/archive/fuzz_edits.rs"]
mod fuzz_edits;
#[path = "../../crates/http/tests/wire/compressed_fields_law.rs"]
mod compressed_fields_law;
#[path = "../../crates/archive/tests/archive/fuzz_check.rs"]
mod fuzz_check;
#[path = "../../crates/archive/tests/archive/sample_archive.rs"]
#[allow(dead_code, reason = "the tests describe more than the fuzzer")]
mod sample_archive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_check::check(data));
