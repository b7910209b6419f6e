//! The function of this crate that a fuzz target runs. It is there for the fuzzer alone.

use crate::config::fuzz_properties;
use crate::server::access::password_file;
use crate::verbs::import;

/// Checks any bytes as a configuration file.
pub fn config(bytes: &[u8]) {
    fuzz_properties::check(bytes);
}

/// Checks any bytes as a file of users and hashes of their passwords.
pub fn password_file(bytes: &[u8]) {
    password_file::fuzz_properties::check(bytes);
}

/// Checks any bytes as the configuration of another server, which is imported.
pub fn imported_configuration(bytes: &[u8]) {
    import::fuzz_properties::check(bytes);
}
