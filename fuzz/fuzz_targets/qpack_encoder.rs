//! Field sections of the responses of one connection of HTTP/3: a plain decoder decodes them to the
//! fields of the plain encoder.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/as_http1.rs"]
mod as_http1;
#[path = "../../crates/http/tests/wire/oracle/qpack_encoder.rs"]
mod oracle;
#[allow(dead_code, reason = "another target uses the rest")]
#[path = "../../crates/http/tests/wire/oracle/qpack.rs"]
mod qpack;
#[path = "../../crates/http/tests/wire/oracle/responses.rs"]
mod responses;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
