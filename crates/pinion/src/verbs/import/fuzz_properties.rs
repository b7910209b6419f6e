//! Properties that hold for any bytes as the configuration of another server. The fuzz target
//! checks them, and so does the replay of its corpus.

use super::configuration::{Converted, convert};
use super::configuration_draft::Leftover;
use crate::config;
use crate::served_source::CONFIGURATION;
use std::path::Path;

/// Files that are read in different ways, by the first byte.
const FILES: [&str; 2] = ["/srv/unit.json", "/srv/uwsgi.ini"];

/// Checks that the text after the first byte is refused with one line, or becomes a configuration
/// that Pinion accepts. The notes about parts that were left out are one line each.
pub(crate) fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let file = Path::new(FILES[usize::from(first % 2)]);
    let Converted { draft, text } = match convert(file, None, bytes.to_vec()) {
        Ok(converted) => converted,
        Err(message) => return assert!(!message.is_empty(), "a reason"),
    };
    match config::parse(&text, Path::new(CONFIGURATION)) {
        Ok((_, faults)) | Err(faults) => assert!(faults.is_empty(), "{faults:?}\n{text}"),
    }
    for Leftover { place, message, .. } in draft.leftovers() {
        assert!(!message.is_empty() && !message.contains('\n'), "{place}: {message:?}");
        assert!(!place.contains('\n'), "{place:?}: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = folder.join("../../fuzz/corpus/imported_configuration");
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("the corpus") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            check(&fs::read(&path).expect("a file"));
            count += 1;
        }
        assert!(count >= 4, "{}: only {count} files", folder.display());
    }
}
