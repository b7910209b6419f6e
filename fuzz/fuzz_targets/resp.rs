//! The bytes of a client of the store, cut anywhere.
#![no_main]

#[path = "../../crates/store/tests/fuzz_checks/split_input.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
