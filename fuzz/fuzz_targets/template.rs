//! Templates: the laws of any files of a page.
#![no_main]

#[path = "../../crates/template/tests/pages/laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    laws::check(data);
});
