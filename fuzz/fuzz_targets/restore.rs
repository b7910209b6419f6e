//! Values that clients restore into the store.
#![no_main]

#[path = "../../crates/store/tests/fuzz_checks/dump_restore_round_trip.rs"]
mod oracle;
#[path = "../../crates/store/tests/fuzz_checks/payload_checksum.rs"]
mod payload_checksum;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
