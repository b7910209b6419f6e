//! The import of a kawipiko archive: the resulting archive is correct, or there is none.
#![no_main]

#[path = "../../crates/builder/tests/build/import_law.rs"]
mod law;
#[path = "../../crates/kawipiko/tests/archives/cdb_writer.rs"]
mod cdb_writer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _either_is_fine = law::check(data);
});
