//! Every file of the fuzz corpora, replayed with the checks of the fuzz targets.

use std::fs;
use std::path::Path;

use crate::fuzz_checks;

/// Runs `check` on every file; there must be some.
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        println!("{}", path.display());
        check(&fs::read(&path).expect("the file can be read"));
        count += 1;
    }
    assert!(count >= 20, "{}: only {count} files", folder.display());
}

#[test]
fn the_resp_corpus_keeps_the_law() {
    replay("resp", fuzz_checks::split_input::check);
}

#[test]
fn the_restore_corpus_keeps_the_law() {
    replay("restore", fuzz_checks::dump_restore_round_trip::check);
}
