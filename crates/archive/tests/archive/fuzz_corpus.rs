//! Every file of the fuzz corpus, replayed with the check of the fuzz target.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pinion_archive::{Layout, OpenError, verify};

use crate::fuzz_check;
use crate::fuzz_edits::{correct_checksums, edit};
use crate::sample_archive::{site, site_with_code_and_field_rules};

/// Returns names and contents of the corpus.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join("archive_open");
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("ASCII");
        (name, fs::read(entry.path()).expect("a readable file"))
    };
    let files: Vec<_> = entries.map(|entry| read(entry.expect("a readable folder"))).collect();
    assert!(files.len() >= 20, "{}: only {} files", folder.display(), files.len());
    files
}

#[test]
fn the_archive_open_corpus_keeps_the_law() {
    for (name, data) in corpus() {
        println!("{name}");
        fuzz_check::check(&data);
    }
}

/// Returns the complaints of a reader about an archive with correct checksums.
fn complaints(bytes: &[u8]) -> BTreeSet<String> {
    match Layout::open(bytes) {
        Err(OpenError::Section { kind, .. }) => [kind.name().to_owned()].into(),
        Err(OpenError::Damage(damage)) => [format!("{:?}", damage.part)].into(),
        Err(_) => ["header".to_owned()].into(),
        Ok(_) => {
            let report = verify(bytes, &mut |_, _| {}).expect("it opens");
            report.damages.iter().map(|damage| format!("{:?}", damage.part)).collect()
        }
    }
}

/// An input whose position has moved would be replayed without effect. This test has the least
/// number of inputs of each kind that must still damage the part in their name, and the possible
/// parts.
#[test]
fn corpus_inputs_damage_the_part_in_their_name() {
    let wholes = [site(), site_with_code_and_field_rules()];
    let mut left: Vec<_> = corpus();
    left.retain(|(name, _)| name.ends_with("-resealed"));
    for (prefix, least, parts) in [
        ("body-", 2, &["Body"][..]),
        ("code-", 6, &["Section(SectionKind(17))", "code"]),
        ("digest-", 1, &["Gap", "DigestRow"]),
        ("error-page", 12, &["Body", "External", "IndexHeader", "Record", "Section", "Shared"]),
        ("external-", 1, &["External"]),
        ("field-rule-", 8, &["FieldRule"]),
        ("index-", 7, &["IndexHeader", "Record", "index"]),
        ("meta-", 1, &["Meta"]),
        (
            "previous-",
            10,
            &["Gap", "Section(SectionKind(20))", "header", "meta", "previous assets"],
        ),
        ("record-", 9, &["Record", "Section(SectionKind(3))"]),
        ("rule-", 20, &["Rule"]),
        ("section-", 6, &["bodies", "header", "unknown"]),
        ("shared-", 5, &["Record", "Shared"]),
        ("slot-", 3, &["IndexHeader", "Record", "Section(SectionKind(3))"]),
    ] {
        let mut damaging = 0;
        let inputs = left.extract_if(.., |(name, _)| name.starts_with(prefix));
        for (name, data) in inputs {
            let mut edited = edit(&wholes[usize::from(data[0] / 2)], &data[1..]);
            correct_checksums(&mut edited);
            let complaints = complaints(&edited);
            let is_named =
                |complaint: &String| parts.iter().any(|part| complaint.starts_with(part));
            assert!(complaints.iter().all(is_named), "{name}: {complaints:?}");
            damaging += u32::from(!complaints.is_empty());
        }
        assert!(damaging >= least, "{prefix}: only {damaging} say something");
    }
}
