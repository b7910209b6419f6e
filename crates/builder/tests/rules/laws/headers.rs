//! `_headers`: rules with fields that can be sent, or errors that have a place.

use std::path::Path;

use pinion_archive::is_written_by_server;
use pinion_builder::rules::headers::{self, HeaderChange};
use pinion_http::grammar::{is_token, is_value_byte};

use super::error_position::has_position;

pub(crate) fn check(text: &[u8]) {
    let file = Path::new("_headers");
    let found = match headers::parse(file, text) {
        Ok(found) => found,
        Err(errors) => {
            assert!(!errors.is_empty() && errors.is_sorted());
            errors.iter().for_each(|error| has_position(error, file, text));
            return;
        }
    };
    for rule in &found.rules {
        assert!(!rule.changes.is_empty());
        for change in &rule.changes {
            let (HeaderChange::Set { name, .. } | HeaderChange::Remove { name }) = change;
            assert!(is_token(name.as_bytes()) && !is_written_by_server(name.as_bytes()));
            if let HeaderChange::Set { value, .. } = change {
                assert!(!value.is_empty() && value.bytes().all(is_value_byte), "{value:?}");
            }
        }
        for path in [&b"/"[..], b"/a", b"/a/b.css", b"//"] {
            assert!(rule.pattern.matches(path) || !rule.pattern.covers_folder(b"/"));
        }
    }
}
