//! Field blocks of the responses of one connection of HTTP/2: two decoders read what the plain
//! encoder has written.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/hpack_encoder.rs"]
mod oracle;
#[path = "../../crates/http/tests/wire/oracle/responses.rs"]
mod responses;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
