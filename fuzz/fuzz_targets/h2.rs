//! HTTP/2 connections, cut anywhere, against the laws of streams.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/h2.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(oracle::check(data)));
