//! Field blocks of one connection of HTTP/2 against another implementation.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/as_http1.rs"]
mod as_http1;
#[path = "../../crates/http/tests/wire/oracle/hpack.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
