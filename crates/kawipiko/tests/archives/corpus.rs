//! The corpus of the fuzz target, replayed.

use std::fs;
use std::path::Path;

use crate::cdb_oracle;

#[test]
fn the_cdb_corpus_agrees_with_the_oracle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/cdb");
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        cdb_oracle::check(&fs::read(entry.expect("an entry").path()).expect("a file"));
        files += 1;
    }
    assert!(files >= 20, "only {files} files");
}
