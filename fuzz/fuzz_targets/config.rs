//! A configuration file: faults lie within it, and what has none can be used.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion::fuzzing::config(data));
