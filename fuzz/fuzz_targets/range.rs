//! `Range` against wide numbers.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/range.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
