//! What an application is told about a request: as Python reads it, and as the head says it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion_gateway::python::oracle::check(data));
