//! Assets of earlier releases, with any contents of their archives.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::previous_assets_law;

/// Replays the corpus of the fuzzer with the stable toolchain.
#[test]
fn the_corpus_of_previous_archives_keeps_the_law() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/previous");
    let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        previous_assets_law::check(&fs::read(file).unwrap());
    }
}

proptest! {
    #[test]
    fn edited_previous_archives_keep_the_law(
        first in 0u8..16,
        edits in prop::collection::vec((any::<bool>(), any::<u16>(), any::<u8>()), 0..4),
    ) {
        let mut data = vec![first];
        for (behind_page, place, flip) in edits {
            data.push(u8::from(behind_page) << 7);
            data.extend_from_slice(&place.to_be_bytes());
            data.push(flip);
        }
        previous_assets_law::check(&data);
    }
}
