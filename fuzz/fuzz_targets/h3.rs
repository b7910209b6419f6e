//! Streams of HTTP/3, cut anywhere, against a plain reading of their frames.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/extended_connect.rs"]
mod extended_connect;
#[path = "../../crates/http/tests/wire/oracle/h3.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(oracle::check(data)));
