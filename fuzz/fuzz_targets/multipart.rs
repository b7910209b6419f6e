//! Forms with files against a plain reading of a whole buffer, however they are cut.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/multipart.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
