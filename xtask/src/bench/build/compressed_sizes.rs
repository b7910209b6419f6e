//! The sizes of the same contents for clients, by the archives that compress them.
//!
//! The rules for compressing a content differ, so the sums over all contents combine two effects:
//! the encoders, and the rules. This module separates them.

use super::kawipiko_archive::File;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All contents, each counted once.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Split {
    /// Compressed in both archives: the results of the encoders for the same bytes.
    pub(super) both: Part,
    /// Compressed only in the archive of Pinion.
    pub(super) ours_only: Part,
    pub(super) theirs_only: Part,
    pub(super) neither: Part,
}

/// Some of the contents.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Part {
    pub(super) contents: u64,
    /// The bytes for clients from the archive of Pinion.
    pub(super) ours_bytes: u64,
    pub(super) theirs_bytes: u64,
}

impl Split {
    /// Compares `pinion ls --json` with the files of the other archive. Returns an error if one has
    /// a content that the other has not, because they would not be comparable.
    pub(super) fn of(listing: &str, coding: &str, theirs: &BTreeMap<String, File>) -> Result<Self> {
        let listing: Value = serde_json::from_str(listing)?;
        let entries = listing["entries"].as_array().context("pinion ls lists nothing")?;
        let (mut split, mut seen) = (Self::default(), BTreeSet::new());
        for entry in entries.iter().filter(|entry| entry["kind"] == "resource") {
            let path = entry["path"].as_str().context("an entry without a path")?;
            let forms = &entry["representations"];
            let plain = bytes(forms, "identity").with_context(|| format!("{path}: no form"))?;
            let coded = bytes(forms, coding);
            let Some(file) = theirs.get(path) else { bail!("{path} is only in our archive") };
            if seen.insert(&file.content) {
                split.add(plain, coded, file.bytes);
            }
        }
        match theirs.iter().find(|(_, file)| !seen.contains(&file.content)) {
            Some((path, _)) => bail!("{path} is only in kawipiko's archive"),
            None => Ok(split),
        }
    }

    /// Counts one content. That of the other archive counts as compressed if its length differs
    /// from the plain one.
    fn add(&mut self, plain: u64, coded: Option<u64>, theirs: u64) {
        let part = match (coded.is_some(), theirs != plain) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.ours_only,
            (false, true) => &mut self.theirs_only,
            (false, false) => &mut self.neither,
        };
        part.contents += 1;
        part.ours_bytes += coded.unwrap_or(plain);
        part.theirs_bytes += theirs;
    }

    /// Returns the parts with their names, in the order of the report.
    pub(super) fn parts(&self) -> [(&'static str, &Part); 4] {
        [
            ("both", &self.both),
            ("pinion alone", &self.ours_only),
            ("kawipiko alone", &self.theirs_only),
            ("neither", &self.neither),
        ]
    }
}

/// Returns the length of the form in a coding.
fn bytes(forms: &Value, coding: &str) -> Option<u64> {
    forms.as_array()?.iter().find(|form| form["coding"] == coding)?["bytes"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = r#"{"entries":[
        {"kind":"resource","path":"/a","representations":[
            {"coding":"identity","bytes":100},{"coding":"br","bytes":20}]},
        {"kind":"resource","path":"/alias","representations":[
            {"coding":"identity","bytes":100},{"coding":"br","bytes":20}]},
        {"kind":"resource","path":"/b","representations":[
            {"coding":"identity","bytes":50},{"coding":"br","bytes":30}]},
        {"kind":"resource","path":"/c","representations":[{"coding":"identity","bytes":7}]},
        {"kind":"redirect","path":"/d","representations":[]}]}"#;

    fn files(files: &[(&str, u8, u64)]) -> BTreeMap<String, File> {
        let file = |&(path, content, bytes): &(&str, u8, u64)| {
            (path.to_owned(), File { content: vec![content], bytes })
        };
        files.iter().map(file).collect()
    }

    #[test]
    fn contents_are_grouped_by_the_archivers_that_code_them() {
        let theirs = files(&[("/a", 1, 22), ("/alias", 1, 22), ("/b", 2, 50), ("/c", 3, 7)]);
        let part = |contents, ours_bytes, theirs_bytes| Part { contents, ours_bytes, theirs_bytes };
        let expected = Split {
            both: part(1, 20, 22),
            ours_only: part(1, 30, 50),
            theirs_only: Part::default(),
            neither: part(1, 7, 7),
        };
        assert_eq!(Split::of(LISTING, "br", &theirs).unwrap(), expected);
    }

    #[test]
    fn contents_of_only_one_archive_are_an_error() {
        let less = files(&[("/a", 1, 22), ("/alias", 1, 22), ("/b", 2, 50)]);
        let error = Split::of(LISTING, "br", &less).unwrap_err();
        assert!(error.to_string().contains("/c is only in our"), "{error}");
        let mut more = less;
        more.extend(files(&[("/c", 3, 7), ("/e", 4, 7)]));
        let error = Split::of(LISTING, "br", &more).unwrap_err();
        assert!(error.to_string().contains("/e is only in kawipiko's"), "{error}");
    }
}
