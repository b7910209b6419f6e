//! The data of a request for an application: decoded as in Python, and according to the head.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion_gateway::python::fuzz_properties::check(data));
