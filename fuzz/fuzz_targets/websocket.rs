//! The frames of a WebSocket's client, cut anywhere, against the plain reading of them.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/websocket.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
