//! The bytes of a client of the store, cut anywhere.
#![no_main]

#[path = "../../crates/store/tests/oracle/resp.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
