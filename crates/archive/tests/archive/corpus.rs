//! Every file of the fuzz corpus, replayed with the check of the fuzz target.

use std::fs;
use std::path::Path;

use crate::oracle;

#[test]
fn archive_open() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join("archive_open");
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        println!("{}", path.display());
        oracle::check(&fs::read(&path).expect("a readable file"));
        count += 1;
    }
    assert!(count >= 20, "{}: only {count} files", folder.display());
}
