//! Patterns as scripts use them, compared with Lua's own: replays the corpus through the check of
//! the fuzz target.

mod oracle;

use std::fs;
use std::path::Path;

#[test]
fn the_pattern_corpus_agrees_with_lua() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/pattern");
    let (mut files, mut compared) = (0, 0);
    for entry in fs::read_dir(folder).expect("the corpus") {
        let data = fs::read(entry.expect("an entry").path()).expect("a file");
        compared += usize::from(oracle::check(&data));
        files += 1;
    }
    assert!(compared >= 8 && files > compared, "{compared} of {files}");
}
