//! Path decoding against a list of segments.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/path_decode.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
