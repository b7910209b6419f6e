//! Responses, cut anywhere, against the plain reading of the grammar.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/chunk_lines.rs"]
mod chunk_lines;
#[path = "../../crates/http/tests/wire/oracle/h1_response.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
