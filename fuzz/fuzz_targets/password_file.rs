//! A password file, compared with a simple reader of each line: a file without errors has users,
//! and no error shows a hash.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pinion::fuzzing::password_file(data));
