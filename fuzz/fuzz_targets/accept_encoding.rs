//! `Accept-Encoding` and the choice against a map.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/accept_encoding.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
