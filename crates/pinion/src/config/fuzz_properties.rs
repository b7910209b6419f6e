//! Properties that hold for any bytes as a configuration file. The fuzz target checks them, and so
//! does the replay of its corpus.

use super::fault::TextPlace;
use super::server_plan_builder::parse;
use super::tables::TableSection;
use crate::served_source::ServedSource;
use crate::settings::{Serve, ServedContent, SiteSettings};
use std::path::Path;

/// Checks that faults lie within the text and are one line each, and that a file without faults can
/// be used.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = Path::new("folder/pinion.toml");
    let (tables, faults) = match parse(text, file) {
        Ok((tables, faults)) => (Some(tables), faults),
        Err(faults) => {
            assert!(!faults.is_empty(), "a text that is refused says why");
            (None, faults)
        }
    };
    let lines = text.matches('\n').count() + 1;
    for fault in &faults {
        let TextPlace { line, column } = fault.place.expect("a place in the text");
        assert!((1..=lines).contains(&line), "{fault}");
        let length = text.split('\n').nth(line - 1).map_or(0, |line| line.chars().count());
        assert!((1..=length + 1).contains(&column), "{fault}");
        assert!(!fault.message.is_empty() && !fault.message.contains('\n'), "{fault}");
    }
    let Some(tables) = tables.filter(|_| faults.is_empty()) else { return };
    let is_store_only = tables.content() == ServedContent::StoreOnly;
    assert_eq!(tables.sites.is_empty(), is_store_only);
    assert!(!is_store_only || !tables.listeners.is_empty());
    assert!(Serve::from_low(&tables.server.low).is_ok(), "the server can be used");
    for TableSection { low, .. } in &tables.sites {
        assert!(SiteSettings::from_low(low).is_ok(), "{low:?} can be used");
        let has_path = low.values("path").next().is_some();
        assert!(has_path || ServedSource::of_proxy(low).is_some(), "{low:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("the corpus") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            check(&fs::read(&path).expect("a file"));
            count += 1;
        }
        assert!(count >= 20, "{}: only {count} files", folder.display());
    }
}
