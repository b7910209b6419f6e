//! Field blocks of the responses of one connection of HTTP/2: two decoders decode them to the
//! fields of the plain encoder.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/hpack_encoder.rs"]
mod oracle;
#[path = "../../crates/http/tests/wire/oracle/random_prepared_responses.rs"]
mod random_prepared_responses;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
