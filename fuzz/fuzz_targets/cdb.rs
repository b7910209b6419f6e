//! kawipiko's archives, and the databases they are, against a plain reading.
#![no_main]

#[path = "../../crates/kawipiko/tests/archives/make.rs"]
mod make;
#[path = "../../crates/kawipiko/tests/archives/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
