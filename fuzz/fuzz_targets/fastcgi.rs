//! Responses over FastCGI, cut anywhere, against the plain reading of the records.
#![no_main]

#[path = "../../crates/http/tests/wire/oracle/plain_cgi_output.rs"]
mod plain_cgi_output;
#[path = "../../crates/http/tests/wire/oracle/fastcgi.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| oracle::check(data));
