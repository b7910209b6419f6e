//! A password file: each line read once more, plainly; what has no fault has users, and no fault
//! shows a hash.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion::fuzzing::password_file(data));
