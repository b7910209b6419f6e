//! Headers of the PROXY protocol against the specification read from a whole buffer.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/proxy_header.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
