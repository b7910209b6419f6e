//! Corpora of the fuzzer, on the stable toolchain.

use std::fs;
use std::path::Path;

use crate::{extract_law, import_law};

/// Every input of a fuzz target, through what the target checks.
#[track_caller]
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 20, "{}: only {count} files", folder.display());
}

#[test]
fn extract() {
    replay("extract", extract_law::check);
}

#[test]
fn import() {
    replay("import", import_law::check);
}
