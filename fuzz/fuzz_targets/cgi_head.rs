//! The output of CGI and SCGI programs, cut anywhere, against the plain reading of RFC 3875.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/gateway_output.rs"]
mod gateway_output;
#[path = "../../crates/http/tests/wire/oracle/cgi_output.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
