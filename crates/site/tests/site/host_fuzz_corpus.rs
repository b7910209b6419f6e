//! The corpus of the fuzz target `hosts`, on the stable toolchain.

use std::fs;
use std::path::Path;

use crate::host_selection_oracle;

#[test]
fn the_hosts_corpus_agrees_with_the_oracle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/hosts");
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        host_selection_oracle::check(&fs::read(&path).expect("a file"));
        count += 1;
    }
    assert!(count >= 20, "{}: only {count} files", folder.display());
}
