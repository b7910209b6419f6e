//! URLs of outgoing connections: the target against a reader of the URL Standard.
#![no_main]

#[path = "../../crates/client/tests/urls/url_parser_oracle.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    law::check(data);
});
