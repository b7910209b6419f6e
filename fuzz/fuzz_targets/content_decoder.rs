//! Content of responses in gzip and brotli: decoding in pieces against decoding as a whole.
#![no_main]

#[path = "../../crates/client/tests/content/content_decoder_oracle.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    law::check(data);
});
