//! A field section of HTTP/3 compared with a plain reader; the streams in addition to it.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/http1_equivalent_head.rs"]
mod http1_equivalent_head;
#[path = "../../crates/http/tests/wire/oracle/qpack.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
