//! Patterns of names: their matches, compared with a set of positions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion_builder::fuzzing::globs(data));
