//! `_headers`: the laws of any text.
#![no_main]

#[path = "../../crates/build/tests/rules/laws/headers.rs"]
mod laws;
#[path = "../../crates/build/tests/rules/laws/place.rs"]
mod place;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check(data));
