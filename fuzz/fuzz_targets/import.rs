//! An archive of kawipiko as one of ours: sound, or not there.
#![no_main]

#[path = "../../crates/build/tests/build/import_law.rs"]
mod law;
#[path = "../../crates/kawipiko/tests/archives/make.rs"]
mod make;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _either_is_fine = law::check(data);
});
