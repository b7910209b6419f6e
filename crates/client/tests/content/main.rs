//! The decoder of responses, used in all ways: random content, and the corpus of the fuzz target.

mod content_decoder_oracle;

use std::fs;
use std::path::Path;

use content_decoder_oracle::{BROTLI, ENCODED};
use proptest::prelude::*;

#[test]
fn the_corpus_of_content_decoder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/content_decoder");
    let (mut files, mut valid) = (0, 0);
    for entry in fs::read_dir(folder).expect("the corpus") {
        let data = fs::read(entry.expect("an entry").path()).expect("a file");
        valid += usize::from(content_decoder_oracle::check(&data));
        files += 1;
    }
    assert!(valid >= 8 && files >= valid + 6, "{valid} of {files}");
}

proptest! {
    #[test]
    fn content_is_decoded_in_pieces_of_any_size(
        kind in any::<u8>().prop_map(|kind| kind & !ENCODED),
        sizes in any::<[u8; 2]>(),
        content in prop::collection::vec(0_u8..5, 0..20_000),
    ) {
        let input = [&[kind], &sizes[..], &content].concat();
        prop_assert!(content_decoder_oracle::check(&input));
    }

    #[test]
    fn arbitrary_data_is_decoded_in_pieces_as_in_one(
        is_brotli in any::<bool>(),
        sizes in any::<[u8; 2]>(),
        data in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let kind = if is_brotli { BROTLI | ENCODED } else { ENCODED };
        content_decoder_oracle::check(&[&[kind], &sizes[..], &data].concat());
    }
}
