//! Values that clients restore into the store.
#![no_main]

#[path = "../../crates/store/tests/oracle/payload.rs"]
mod oracle;
#[path = "../../crates/store/tests/oracle/payload_checksum.rs"]
mod payload_checksum;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
