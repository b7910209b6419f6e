//! `_redirects`: rules that an archive takes, or errors that have a place. The first byte decides
//! whose file it is.

use std::io::Cursor;
use std::path::Path;

use pinion_archive::{Layout, Writer};
use pinion_builder::rules::{self, redirects};

use super::error_position::has_position;

pub(crate) fn check(data: &[u8]) {
    let [folder, text @ ..] = data else { return };
    let folder: &[u8] = if folder.is_multiple_of(2) { b"/" } else { b"/docs/v 1/" };
    let file = Path::new("_redirects");
    match redirects::parse(file, folder, text) {
        Ok(found) => {
            let lines = text.split(|&byte| byte == b'\n').count();
            assert!(found.len() <= lines);
            assert!(found.is_sorted_by_key(|rule| rule.line), "{found:?}");
            let mut writer = Writer::new(Cursor::new(Vec::new())).expect("memory takes bytes");
            for rule in &found {
                let written = rules::as_new_rule(rule, |rule| writer.rule(rule));
                written.unwrap_or_else(|error| panic!("{error}: {rule:?}"));
            }
            let (summary, archive) = writer.finish(&[]).expect("memory takes bytes");
            assert_eq!(summary.rules, found.len() as u64);
            Layout::open(archive.get_ref()).expect("the reader takes what the writer wrote");
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.is_sorted());
            errors.iter().for_each(|error| has_position(error, file, text));
        }
    }
}
