//! Archives of kawipiko are imported. tests/tests/black_box/kawipiko_import.rs tests the responses
//! to clients.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use pinion_archive::{Layout, Scratch, verify};
use pinion_builder::{
    CodingEffort, ContentFault, ImportError, Imported, LeftoverReason, Options, codings_at,
    import_file,
};
use proptest::prelude::*;

use crate::archive_reader::options;
use crate::temporary_folder::Folder;

fn made(name: &str) -> Vec<u8> {
    fs::read(archives().join("made").join(name)).expect("an archive")
}

fn archives() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kawipiko/tests/archives")
}

/// Returns the checked new archive.
fn imported(cdb: &[u8], options: &Options) -> Result<(Imported, Vec<u8>), ImportError> {
    let folder = Folder::new();
    let out = folder.join("out.pinion");
    let imported = import_file(cdb, options, &out, &())?;
    let bytes = fs::read(out).expect("it was written");
    assert_eq!(imported.archive_bytes, bytes.len() as u64);
    let report = verify(&bytes, &mut |_, _| {}).expect("an archive");
    assert!(report.is_sound(), "{report:?}");
    Ok((imported, bytes))
}

#[test]
fn imports_of_every_coding_give_the_same_archive() {
    let (first, expected) = imported(&made("site-identity.cdb"), &options()).expect("imported");
    assert_eq!((first.fallback_pages, first.redirects, first.rules), (3, 5, 6));
    assert_eq!(first.leftovers.len(), 1);
    assert_eq!(first.leftovers[0].reason, LeftoverReason::NeverMatches);
    for name in ["site-gzip.cdb", "site-zopfli.cdb"] {
        for threads in [1, 3] {
            let options = Options { threads: NonZeroUsize::new(threads), ..options() };
            let (_, bytes) = imported(&made(name), &options).expect("imported");
            assert!(bytes == expected, "{name}");
        }
    }
}

#[test]
fn imported_files_equal_the_original_files() {
    let codings = codings_at("zstd", CodingEffort::Best).expect("a list");
    let options = Options { codings, security_fields: false, ..options() };
    let (imported, bytes) = imported(&made("site-br.cdb"), &options).expect("imported");
    let layout = Layout::open(&bytes).expect("an archive");
    let (archive, mut scratch) = (layout.view(&bytes), Scratch::new());
    for path in ["/index.html", "/style.css", "/two words.txt", "/logo.png", "/docs/page.html"] {
        let entry = archive.find(path.as_bytes(), &mut scratch).expect("sound").expect(path);
        let body = archive.body(&entry.representation(0).expect("a form")).expect("sound");
        let file = fs::read(archives().join("site").join(&path[1..])).expect("a file");
        assert!(body == Some(file.as_slice()), "{path}");
        let block = archive.shared(entry.representation(0).expect("a form").shared());
        let fields: Vec<_> = block.expect("sound").fields().map(|(name, _)| name).collect();
        assert!(!fields.contains(&&b"X-Frame-Options"[..]) && !fields.contains(&&b"ETag"[..]));
    }
    assert!(imported.codings[0].bodies > 0);
}

#[test]
fn damaged_content_fails_the_import_and_leaves_no_file() {
    let folder = Folder::new();
    let mut cdb = made("site-gzip.cdb");
    // The first gzip stream is damaged.
    let at = cdb.windows(3).position(|bytes| bytes == b"\x1f\x8b\x08").expect("one");
    cdb[at + 12] ^= 0xff;
    let error = import_file(&cdb, &options(), &folder.join("out.pinion"), &()).expect_err("damage");
    let fault = ContentFault::Damaged("gzip");
    assert!(
        matches!(error, ImportError::Content { fault: found, .. } if found == fault),
        "{error}"
    );
    assert_eq!(folder.names(), Vec::<String>::new());
}

/// Returns a database with these records; `cdb.txt` describes the format. Each table has as many
/// slots as records, because the lookup need not be fast.
fn database(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut file = vec![0; 2048];
    let mut tables: BTreeMap<u8, Vec<(u32, u32)>> = BTreeMap::new();
    for (key, data) in records {
        let hash = key.iter().fold(5381_u32, |hash, &byte| {
            hash.wrapping_shl(5).wrapping_add(hash) ^ u32::from(byte)
        });
        tables.entry(hash as u8).or_default().push((hash, file.len() as u32));
        for part in [key, data] {
            file.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        file.extend_from_slice(key);
        file.extend_from_slice(data);
    }
    for (number, mut table) in tables {
        let slots = table.len();
        let place = [file.len() as u32, slots as u32].map(u32::to_le_bytes).concat();
        file[usize::from(number) * 8..][..8].copy_from_slice(&place);
        // A full table is searched to its end from any slot on.
        table.sort_unstable_by_key(|&(hash, _)| (hash >> 8) as usize % slots);
        for (hash, at) in table {
            file.extend_from_slice(&[hash, at].map(u32::to_le_bytes).concat());
        }
    }
    file
}

/// Returns a field with a literal value: the number of its name, and the value.
fn field(name: u32, value: &str) -> String {
    let digit = |value: usize| char::from(b'a' + (value % 25) as u8);
    let length = value.len();
    let length = [digit(length / 625), digit(length / 25), digit(length)];
    format!("h{name:07x}Z{}{value}", String::from_iter(length))
}

const STATUS: u32 = 0x01;
const CONTENT_ENCODING: u32 = 0x1d;
const CONTENT_TYPE: u32 = 0x26;
const LOCATION: u32 = 0x3f;

/// The kind of a reference in a generated archive.
#[derive(Clone, Debug)]
enum Made {
    File(u8),
    Moved(u8),
}

fn archive(references: &BTreeMap<String, Made>) -> Vec<u8> {
    let mut records = vec![(b"schema".to_vec(), b"kawipiko-2022a".to_vec())];
    for (number, (place, made)) in references.iter().enumerate() {
        let number = number + 1;
        let (kind, fields, content) = match made {
            Made::File(content) => {
                let fields = [(STATUS, "200"), (CONTENT_TYPE, "text/plain")];
                ("f:", fields, vec![*content; usize::from(*content)])
            }
            Made::Moved(to) => {
                let to = if *to == 0 { "/b" } else { "https://example.org/" };
                ("r:", [(STATUS, "301"), (LOCATION, to)], Vec::new())
            }
        };
        let fields: String = fields.iter().map(|(name, value)| field(*name, value)).collect();
        let key = format!("{kind}{place}").into_bytes();
        records.push((key, format!("m{number:07x}d{number:07x}").into_bytes()));
        records.push((format!("m{number:07x}").into_bytes(), fields.into_bytes()));
        records.push((format!("d{number:07x}").into_bytes(), content));
    }
    database(&records)
}

proptest! {
    /// Any references give an archive in which files have responses.
    #[test]
    fn any_references_become_an_archive(
        references in prop::collection::btree_map(
            "(://(h|H:1|\\*)|)(/|/a/|/a/b/)(a|b|b\\.html|index\\.html|\\*|c/|%41)?",
            prop_oneof![(0..3u8).prop_map(Made::File), (0..2u8).prop_map(Made::Moved)],
            0..12,
        ),
    ) {
        let (_, bytes) = imported(&archive(&references), &options()).expect("imported");
        let layout = Layout::open(&bytes).expect("an archive");
        let (archive, mut scratch) = (layout.view(&bytes), Scratch::new());
        for (path, made) in references {
            let Made::File(content) = made else { continue };
            if path.starts_with("://") || path.ends_with("/*") {
                continue;
            }
            let entry = archive.find(path.as_bytes(), &mut scratch).expect("sound");
            let form = entry.and_then(|entry| entry.representation(0));
            let body = form.map(|form| archive.body(&form).expect("sound").expect("inside"));
            let expected = vec![content; usize::from(content)];
            prop_assert_eq!(body, Some(expected.as_slice()), "{}", path);
        }
    }
}

#[test]
fn errors_in_a_hostile_archive_name_the_record() {
    let hostile = |fields: String, content: &[u8]| {
        let records = [
            (b"schema".to_vec(), b"kawipiko-2022a".to_vec()),
            (b"f:/a".to_vec(), b"m0000001d0000001".to_vec()),
            (b"m0000001".to_vec(), fields.into_bytes()),
            (b"d0000001".to_vec(), content.to_vec()),
        ];
        imported(&database(&records), &options()).expect_err("an error").to_string()
    };
    let gzip = field(CONTENT_ENCODING, "gzip");
    // The four bytes at its end announce 4 GiB of content.
    let bomb = [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &[0xff; 20]].concat();
    for (fields, content, message) in [
        (field(STATUS, "abc"), &b""[..], "record m0000001: a field value that is none"),
        (field(STATUS, "99"), b"", "record m0000001: a field value that is none"),
        (field(CONTENT_TYPE, "a\r\nb: c"), b"", "record m0000001: a field value that is none"),
        (field(CONTENT_ENCODING, "zip"), b"", "record m0000001: a field value that is none"),
        (field(STATUS, "301"), b"", "/a: impossible status"),
        (gzip.clone(), b"no gzip", "/a: its gzip form is damaged"),
        (gzip.clone(), b"", "/a: its gzip form is damaged"),
        (gzip, &bomb, "/a: its gzip form is damaged"),
        (field(CONTENT_ENCODING, "br"), b"no brotli", "/a: its br form is damaged"),
    ] {
        let error = hostile(fields, content);
        assert!(error.contains(message), "{error}");
    }
}
