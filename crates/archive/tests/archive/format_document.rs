//! `docs/archive-format.md` agrees with the code: its byte tables, its limits, its example.

use core::mem::offset_of;

use pinion_archive::layout::{
    self, Bucket, DigestRow, ExternalRow, FieldRuleHeader, FileHeader, IndexHeader, OriginRow,
    RecordHeader, RepresentationRow, RuleHeader, SectionRow, SharedHeader,
};
use pinion_archive::{
    Digest, ETag, EntryKind, Layout, NewEntry, NewRepresentation, NewShared, Role, SectionKind,
    limits,
};
use pinion_http::content_coding::Coding;
use zerocopy::FromZeros;

use crate::sample_archive::{is_sound, resource, writer};

const DOCUMENT: &str = include_str!("../../../../docs/archive-format.md");

/// Returns the part of the document between a heading and the next one.
fn chapter(heading: &str) -> &'static str {
    let start = DOCUMENT.find(&format!("\n{heading}\n")).expect("a heading of that name");
    let text = &DOCUMENT[start + heading.len() + 2..];
    text.find("\n##").map_or(text, |end| &text[..end])
}

/// Returns the cells of the rows of a chapter's first table, without the two rows of its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let is_row = |line: &&str| line.starts_with('|');
    let rows = chapter(heading).lines().skip_while(|line| !is_row(line)).take_while(is_row).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Compares the table of a structure with its fields: offset, size, name, and the whole size.
macro_rules! assert_documented {
    ($structure:ident: $($field:ident),* $(,)?) => {{
        let zero = $structure::new_zeroed();
        let fields = [$((
            offset_of!($structure, $field),
            size_of_val(&zero.$field),
            stringify!($field),
        )),*];
        let bytes: usize = fields.iter().map(|(_, bytes, _)| bytes).sum();
        assert_eq!(bytes, size_of::<$structure>(), "a field is missing in this test");
        let heading = format!("### `{}`: {bytes} bytes", stringify!($structure));
        let documented = table(&heading);
        let documented: Vec<_> = documented
            .iter()
            .map(|row| (row[0].to_owned(), row[1].to_owned(), row[2].to_owned()))
            .collect();
        let expected = fields.map(|(offset, bytes, name)| {
            (offset.to_string(), bytes.to_string(), format!("`{name}`"))
        });
        assert_eq!(documented, expected, "{heading}");
    }};
}

#[test]
fn the_byte_tables_of_the_document_match_the_code() {
    assert_documented!(FileHeader: magic, version, sections, total_bytes, checksum, reserved);
    assert_documented!(SectionRow: kind, version, flags, offset, bytes, digest, reserved);
    assert_documented!(
        IndexHeader: buckets, entries, seed, fallback_depths, flags, reserved, checksum,
    );
    assert_documented!(Bucket: slots, checksum);
    assert_documented!(
        RecordHeader: checksum, bytes, kind, flags, status, path_bytes, target_bytes, modified,
        shared, representations, reserved,
    );
    assert_documented!(
        RepresentationRow: offset, bytes, etag, coding, storage, shared, external,
    );
    assert_documented!(
        SharedHeader: bytes, status, role, type_line_bytes, h1_full_bytes, h1_not_modified_bytes,
        hpack_full_bytes, hpack_not_modified_bytes, qpack_full_bytes, qpack_not_modified_bytes,
        plain,
    );
    assert_documented!(ExternalRow: bytes, modified_ns, reserved, checksum);
    assert_documented!(DigestRow: offset, bytes, digest);
    assert_documented!(
        RuleHeader: bytes, status, flags, host_bytes, path_bytes, query_bytes, target_bytes,
        reserved,
    );
    assert_documented!(FieldRuleHeader: bytes, changes_bytes, pattern_bytes, reserved);
    assert_documented!(OriginRow: content, stored, coding, method, level, edition);
}

#[test]
fn the_numbers_of_the_document_match_the_code() {
    let limits: Vec<(String, String)> = [
        ("SECTIONS_MAX", limits::SECTIONS_MAX as u64),
        ("PATH_MAX_BYTES", limits::PATH_MAX_BYTES as u64),
        ("TARGET_MAX_BYTES", limits::TARGET_MAX_BYTES as u64),
        ("REPRESENTATIONS_MAX", limits::REPRESENTATIONS_MAX as u64),
        ("RECORD_MAX_BYTES", limits::RECORD_MAX_BYTES as u64),
        ("PROBE_MAX_BUCKETS", limits::PROBE_MAX_BUCKETS),
        ("INDEX_SEEDS_MAX", limits::INDEX_SEEDS_MAX),
        ("SHARED_SECTION_MAX_BYTES", limits::SHARED_SECTION_MAX_BYTES),
        ("SHARED_VARIANT_MAX_BYTES", limits::SHARED_VARIANT_MAX_BYTES as u64),
        ("RULES_MAX", limits::RULES_MAX as u64),
        ("RULES_SECTION_MAX_BYTES", limits::RULES_SECTION_MAX_BYTES),
        ("FIELD_RULES_SECTION_MAX_BYTES", limits::FIELD_RULES_SECTION_MAX_BYTES),
        ("RULE_CAPTURES_MAX", limits::RULE_CAPTURES_MAX as u64),
        ("RULE_HOST_MAX_BYTES", limits::RULE_HOST_MAX_BYTES as u64),
        ("CODE_FILE_MAX_BYTES", limits::CODE_FILE_MAX_BYTES),
        ("CODE_SECTION_MAX_BYTES", limits::CODE_SECTION_MAX_BYTES),
        ("ERROR_PAGE_MAX_BYTES", limits::ERROR_PAGE_MAX_BYTES),
        ("META_MAX_BYTES", limits::META_MAX_BYTES),
        ("FALLBACK_DEPTH_MAX", limits::FALLBACK_DEPTH_MAX as u64),
        ("RECORD_OFFSET_MAX", limits::RECORD_OFFSET_MAX),
        ("PAGE_ALIGNED_BODY_MIN_BYTES", limits::PAGE_ALIGNED_BODY_MIN_BYTES),
        ("LANDMARK_ALIGN_BYTES", limits::LANDMARK_ALIGN_BYTES),
        ("LANDMARK_EVERY_BYTES", limits::LANDMARK_EVERY_BYTES),
    ]
    .map(|(name, value)| (format!("`{name}`"), value.to_string()))
    .into();
    let documented = table("## Limits");
    let documented: Vec<_> =
        documented.iter().map(|row| (row[0].to_owned(), row[1].replace(' ', ""))).collect();
    assert_eq!(documented, limits);

    let kinds = table("### Section kinds");
    for row in &kinds {
        let number: u32 = row[0].parse().expect("a number");
        assert_eq!(SectionKind(number).name(), row[1]);
    }
    let documented: Vec<u32> = kinds.iter().map(|row| row[0].parse().expect("a number")).collect();
    let named: Vec<u32> = (0..=99).filter(|&n| SectionKind(n).name() != "unknown").collect();
    assert_eq!(documented, named);

    for (heading, names) in [
        ("### Entry kinds", &["resource", "redirect", "rewrite", "private", "handler"][..]),
        ("### Codings", &["identity", "gzip", "br", "zstd"]),
        ("### Roles", &["ordinary", "generated", "slash redirect"]),
        ("### Flags", &["keeps query", "rules first", "has variant"]),
    ] {
        let documented: Vec<_> = table(heading).iter().map(|row| (row[0], row[1])).collect();
        let numbers: Vec<String> = (0..names.len()).map(|number| number.to_string()).collect();
        let expected: Vec<_> =
            numbers.iter().zip(names).map(|(number, name)| (number.as_str(), *name)).collect();
        assert_eq!(documented, expected);
    }
    for (number, name) in (0..).zip(["resource", "redirect", "rewrite", "private", "handler"]) {
        assert_eq!(EntryKind::from_number(number).name(), name);
    }
    for (number, coding) in Coding::ALL.iter().enumerate() {
        assert_eq!(table("### Codings")[number][1], coding.token());
    }
    assert_eq!(
        [Role::Ordinary as u16, Role::Generated as u16, Role::SlashRedirect as u16],
        [0, 1, 2]
    );
    assert_eq!(layout::HEADER_PAGE_BYTES, 4096);
}

/// Returns the archive of the worked example.
fn example() -> Vec<u8> {
    let mut w = writer();
    let shared = w
        .shared(&NewShared {
            role: Role::Ordinary,
            status: 200,
            content_type: Some("text/plain"),
            fields: &[("Cache-Control", "no-cache")],
            not_modified: &[("Cache-Control", "no-cache")],
        })
        .expect("well-formed");
    let digest = Digest::of(b"Hello\n");
    let body = w.body(&digest, b"Hello\n").expect("memory");
    let etag = ETag::of(&digest, b"text/plain", Coding::Identity);
    let forms = [NewRepresentation { coding: Coding::Identity, shared, body, etag }];
    let entry = resource(b"/hello.txt", &forms);
    w.entry(&NewEntry { modified: Some(784_111_777), ..entry }).expect("valid");
    w.finish(&[("tool", "example")]).expect("well-formed").1.into_inner()
}

/// Writes sixteen bytes per line, after their offset; lines of zeros are left out.
fn dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|&byte| byte != 0));
    lines
        .map(|(number, line)| {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let text: String = line
                .iter()
                .map(|&byte| if byte.is_ascii_graphic() { byte as char } else { '.' })
                .collect();
            format!("{:04x}  {:<47}  {text}\n", number * 16, hex.join(" "))
        })
        .collect()
}

#[test]
fn the_worked_example_of_the_document_matches_the_writer() {
    let bytes = example();
    assert!(is_sound(&bytes));
    let chapter = chapter("## A worked example");
    let (_, block) = chapter.split_once("```text\n").expect("a dump");
    let (block, _) = block.split_once("```").expect("the end of the dump");
    // Remarks are on lines of their own.
    let documented: String =
        block.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    let actual = dump(&bytes);
    assert_eq!(documented, actual, "the writer now gives:\n{actual}");
    assert!(chapter.contains(&format!("{} bytes", bytes.len())));
    let digest = Layout::open(&bytes).expect("sound").digest();
    assert!(chapter.contains(&format!("`{digest}`")), "{digest}");
    let hashed = [&bytes[..12], &bytes[128..128 + 6 * 64]].concat();
    assert_eq!(digest, Digest::of(&hashed), "magic, version, rows");
}
