//! A configuration of NGINX Unit or uWSGI: refused, or one that the server takes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion::fuzzing::imported_configuration(data));
