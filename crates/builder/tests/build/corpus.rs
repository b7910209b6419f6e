//! Replays corpora of the fuzzer with the stable toolchain.

use std::fs;
use std::path::Path;

use crate::{extract_law, import_law};

/// Runs the check of a fuzz target with every stored input; some of them must be accepted, and some
/// refused.
#[track_caller]
fn replay(target: &str, check: fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut counts = [0; 2];
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        counts[usize::from(check(&fs::read(&path).unwrap()))] += 1;
    }
    assert!(counts.iter().all(|&count| count >= 15), "{}: {counts:?}", folder.display());
}

#[test]
fn the_extract_corpus_keeps_the_law() {
    replay("extract", extract_law::check);
}

#[test]
fn the_import_corpus_keeps_the_law() {
    replay("import", import_law::check);
}
