//! The frames of a Python process, cut anywhere, against the plain reading of them.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/python_frames.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
