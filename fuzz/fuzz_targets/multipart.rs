//! Forms with files are compared with a plain reader of a whole buffer, for any sizes of the
//! pieces.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/multipart.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
