//! Fuzzes the HTTP/2 server session: the same input in one piece and in pieces of a fixed size must
//! give the same events and frames, and each stream must be a valid sequence of events (RFC 9113
//! §8.1) within its windows.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/h2_session_invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(invariants::check(data)));
