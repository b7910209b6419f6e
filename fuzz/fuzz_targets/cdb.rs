//! kawipiko's archives, and the databases they are, against a plain reading.
#![no_main]

#[path = "../../crates/kawipiko/tests/archives/cdb_writer.rs"]
mod cdb_writer;
#[path = "../../crates/kawipiko/tests/archives/cdb_oracle.rs"]
mod cdb_oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cdb_oracle::check(data));
