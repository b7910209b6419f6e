//! The laws of an import of any archive of kawipiko. The fuzz target `import` checks them.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use pinion_archive::{EntryKind, Layout, verify};
use pinion_builder::{CodingEffort, Imported, Options, codings_at, import_file};
use pinion_kawipiko::Archive;

use crate::cdb_writer;

/// First byte of an input: the rest is the file.
const WHOLE: u8 = 0;
/// Edits of [`MADE`]: two bytes for the position, and one that is combined with the byte there.
const EDITS: [u8; 2] = [1, 2];
/// Archives of kawipiko's own archiver. With any other first byte the rest is records: two lengths,
/// key, data.
const MADE: [&[u8]; 2] = [
    include_bytes!("../../../kawipiko/tests/archives/made/site-gzip.cdb"),
    include_bytes!("../../../kawipiko/tests/archives/made/site-br.cdb"),
];
/// The maximum size of the unpacked file; larger inputs only cost time.
const WHOLE_MAX_BYTES: usize = 1 << 16;

/// Checks an import. `data` is a byte for the kind of the input, and the input. Returns whether an
/// archive was made.
pub(crate) fn check(data: &[u8]) -> bool {
    static PLACE: OnceLock<Mutex<PathBuf>> = OnceLock::new();
    let Some((how, rest)) = data.split_first().filter(|(_, rest)| rest.len() <= WHOLE_MAX_BYTES)
    else {
        return false;
    };
    let cdb = match EDITS.iter().position(|edits| edits == how) {
        Some(number) => edited(MADE[number], rest),
        None if *how == WHOLE => rest.to_vec(),
        None => cdb_writer::database(&records(rest)),
    };
    let folder = PLACE.get_or_init(|| Mutex::new(place()));
    let folder = folder.lock().unwrap_or_else(PoisonError::into_inner);
    let out = folder.join("out.pinion");
    let codings = codings_at("gzip:1", CodingEffort::Fast).expect("a list");
    let options = Options { codings, threads: NonZeroUsize::new(1), ..Options::new(9) };
    let done = import_file(&cdb, &options, &out, &());
    let left = fs::read_dir(&*folder).expect("a folder").count();
    match &done {
        Err(error) => {
            assert_eq!(left, 0, "{error}: something is left");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        Ok(imported) => {
            assert_eq!(left, 1, "more than the archive is left");
            let bytes = fs::read(&out).expect("it was written");
            fs::remove_file(&out).expect("it was written");
            check_archive(imported, &bytes, &cdb);
        }
    }
    done.is_ok()
}

/// Checks that the archive is sound, that the report is correct, and that its contents are those of
/// the imported archive.
fn check_archive(imported: &Imported, bytes: &[u8], cdb: &[u8]) {
    let report = verify(bytes, &mut |_, _| {}).expect("an archive");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((imported.archive_bytes, imported.digest), (bytes.len() as u64, report.digest));
    let theirs = Archive::open(cdb).expect("it was read");
    let (mut contents, mut is_plain, mut references) = (HashSet::new(), true, 0);
    for reference in theirs.references() {
        let reference = reference.expect("it was read");
        contents.insert(theirs.content(&reference).expect("it was read").to_vec());
        references += 1;
        // The archiver may lose the fields of an empty file, which is its own error.
        let Ok(fields) = theirs.fields(&reference) else { continue };
        let is_coding = |name: &str| name.eq_ignore_ascii_case("Content-Encoding");
        let coding = fields.iter().find(|field| is_coding(field.name));
        is_plain &= coding.is_none_or(|coding| coding.value == b"identity");
    }
    let entries = imported.pages + imported.fallback_pages;
    // A page of a whole folder becomes a fallback page, and has the path with the `*` and that of
    // the folder.
    assert!(entries <= 3 * references, "{imported:?}");
    let layout = Layout::open(bytes).expect("an archive");
    let archive = layout.view(bytes);
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().expect("sound") {
        let Some(form) = entry.representation(0) else { continue };
        assert_eq!(entry.kind(), EntryKind::Resource);
        let body = archive.body(&form).expect("sound").expect("inside");
        let path = entry.path().escape_ascii();
        assert!(!is_plain || contents.contains(body), "{path}: whose content is that?");
    }
}

fn edited(whole: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for [low, high, change] in edits.as_chunks().0 {
        let place = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        bytes[place] ^= change;
    }
    bytes
}

fn records(mut rest: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = vec![cdb_writer::schema()];
    while let [key_bytes, data_bytes, behind @ ..] = rest {
        let (key, behind) = behind.split_at((*key_bytes as usize).min(behind.len()));
        let (data, behind) = behind.split_at((*data_bytes as usize).min(behind.len()));
        records.push((key.to_vec(), data.to_vec()));
        rest = behind;
    }
    records
}

fn place() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pinion-import-law-{}", std::process::id()));
    let _may_not_be_there = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
