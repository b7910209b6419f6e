//! HTTP/2 connections, cut anywhere, against the laws of streams.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/h2_session_invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(invariants::check(data)));
