//! Patterns of names: what they match against a set of places.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion_build::fuzzing::globs(data));
