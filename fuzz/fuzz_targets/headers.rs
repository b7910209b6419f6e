//! `_headers`: the laws of any text.
#![no_main]

#[path = "../../crates/builder/tests/rules/laws/error_position.rs"]
mod error_position;
#[path = "../../crates/builder/tests/rules/laws/headers.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check(data));
