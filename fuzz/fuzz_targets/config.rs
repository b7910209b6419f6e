//! A configuration file: positions of errors are within it, and a file without errors can be used.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion::fuzzing::config(data));
