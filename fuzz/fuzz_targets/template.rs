//! Templates: the laws of any files of a page.
#![no_main]

#[path = "../../crates/template/tests/pages/compile_laws.rs"]
mod compile_laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    compile_laws::check(data);
});
