//! The output of CGI and SCGI programs, cut anywhere, against the plain reading of RFC 3875.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/plain_cgi_output.rs"]
mod plain_cgi_output;
#[path = "../../crates/http/tests/wire/oracle/cgi_reader_check.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
