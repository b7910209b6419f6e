//! Requests of workers to the spawner: encoding a decoded request gives the same bytes.
#![no_main]

#[path = "../../crates/spawner/tests/records/record_law.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
