//! The corpus of the fuzz target, replayed.

use std::fs;
use std::path::Path;

use crate::compile_laws;

#[test]
fn the_template_corpus_keeps_the_law() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/template");
    let (mut files, mut taken) = (0, 0);
    for entry in fs::read_dir(folder).expect("the corpus") {
        let data = fs::read(entry.expect("an entry").path()).expect("a file");
        taken += usize::from(compile_laws::check(&data).is_some());
        files += 1;
    }
    assert!(taken >= 10 && files > taken, "{taken} of {files}");
}
