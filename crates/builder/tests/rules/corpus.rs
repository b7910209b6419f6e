//! Every file of the fuzz corpora, on the stable toolchain.

use std::fs;
use std::path::Path;

use crate::laws;

#[track_caller]
fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        let data = fs::read(&path).expect("a file of the corpus");
        println!("{}", path.display());
        check(&data);
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
}

#[test]
fn the_redirects_corpus_keeps_the_law() {
    replay("redirects", laws::redirects::check);
}

#[test]
fn the_headers_corpus_keeps_the_law() {
    replay("headers", laws::headers::check);
}
