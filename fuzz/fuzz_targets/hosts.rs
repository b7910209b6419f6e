//! Hosts of several sites: patterns and the choice against words.
#![no_main]

#[path = "../../crates/site/tests/site/host_selection_oracle.rs"]
mod law;

libfuzzer_sys::fuzz_target!(|data: &[u8]| law::check(data));
