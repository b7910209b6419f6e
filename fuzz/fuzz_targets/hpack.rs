//! Field blocks of one connection of HTTP/2 against another implementation.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/http1_equivalent_head.rs"]
mod http1_equivalent_head;
#[path = "../../crates/http/tests/wire/oracle/hpack.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
