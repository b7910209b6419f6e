//! URLs, read a second time: random ones, and the corpus of the fuzz target.

mod url_parser_oracle;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

#[test]
fn the_corpus_of_client_url() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/client_url");
    let (mut files, mut targets) = (0, 0);
    for entry in fs::read_dir(folder).expect("the corpus") {
        let data = fs::read(entry.expect("an entry").path()).expect("a file");
        targets += usize::from(url_parser_oracle::check(&data));
        files += 1;
    }
    assert!(targets >= 8 && files > targets, "{targets} of {files}");
}

proptest! {
    #[test]
    fn arbitrary_urls_are_parsed_as_in_the_url_standard(
        scheme in "(?i)https?:/{0,3}",
        authority in "[a-zA-Z0-9.:\\[\\]@%_\\\\ \t\nüｅ。１xn-]{0,24}",
        rest in "[/?#\\\\a@:]{0,4}",
    ) {
        url_parser_oracle::check(format!("{scheme}{authority}{rest}").as_bytes());
    }

    #[test]
    fn usual_urls_are_parsed_as_in_the_url_standard(
        host in prop_oneof![
            "([a-z0-9_-]{1,8}\\.){0,3}[a-z0-9x]{1,6}\\.?",
            "([0-9]{1,3}\\.){3}[0-9]{1,3}",
            "\\[[0-9a-f]{0,4}::[0-9a-f:]{0,9}\\]",
            "(xn--)?[a-z0-9-]{0,6}\\.example",
            "[\\p{L}\\p{N}.]{1,12}",
        ],
        port in "(:[0-9]{0,6})?",
        rest in "[/?#][a-z@:]{0,4}",
    ) {
        url_parser_oracle::check(format!("http://{host}{port}{rest}").as_bytes());
    }
}
