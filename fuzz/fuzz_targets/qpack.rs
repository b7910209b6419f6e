//! A field section of HTTP/3 compared with a plain reader; the streams in addition to it.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/as_http1.rs"]
mod as_http1;
#[path = "../../crates/http/tests/wire/oracle/qpack.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
