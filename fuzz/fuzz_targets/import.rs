//! The import of a kawipiko archive: the resulting archive is correct, or there is none.
#![no_main]

#[path = "../../crates/builder/tests/build/import_law.rs"]
mod law;
#[path = "../../crates/kawipiko/tests/archives/make.rs"]
mod make;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _either_is_fine = law::check(data);
});
