//! The client of a request from a trusted proxy against a plain reading of the list.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/client_identity.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
