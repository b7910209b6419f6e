//! Any bytes as an archive: there is no panic, and no wrong result.
#![no_main]

#[path = "../../crates/archive/tests/archive/edits.rs"]
mod edits;
#[path = "../../crates/http/tests/wire/compressed_fields_law.rs"]
mod compressed_fields_law;
#[path = "../../crates/archive/tests/archive/oracle.rs"]
mod oracle;
#[path = "../../crates/archive/tests/archive/sample.rs"]
#[allow(dead_code, reason = "the tests describe more than the fuzzer")]
mod sample;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
