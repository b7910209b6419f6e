//! Field sections of the responses of one connection of HTTP/3: a plain decoder decodes them to the
//! fields of the plain encoder.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/http1_equivalent_head.rs"]
mod http1_equivalent_head;
#[path = "../../crates/http/tests/wire/oracle/qpack_encoder.rs"]
mod oracle;
#[allow(dead_code, reason = "another target uses the rest")]
#[path = "../../crates/http/tests/wire/oracle/qpack.rs"]
mod qpack;
#[path = "../../crates/http/tests/wire/oracle/random_prepared_responses.rs"]
mod random_prepared_responses;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
