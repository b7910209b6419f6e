//! Values that clients restore into the store.
#![no_main]

#[path = "../../crates/store/tests/oracle/payload.rs"]
mod oracle;
#[path = "../../crates/store/tests/oracle/seal.rs"]
mod seal;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
