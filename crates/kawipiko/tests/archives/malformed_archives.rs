//! Archives that no archiver would create: each fault has its error.

use pinion_kawipiko::{Archive, Damage, KawipikoField};

use crate::cdb_writer::{database, schema};

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn reference(place: &str, fields: u32, content: u32) -> (Vec<u8>, Vec<u8>) {
    (place.into(), format!("m{fields:07x}d{content:07x}").into_bytes())
}

fn opened(records: &[(Vec<u8>, Vec<u8>)]) -> String {
    match Archive::open(&database(records)) {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn only_archives_with_the_known_schema_are_opened() {
    assert_eq!(opened(&[schema()]), "opened");
    let other = (b"schema".to_vec(), b"kawipiko-2021a".to_vec());
    let expected = "an archive of another version of kawipiko: its schema is \
                    \"kawipiko-2021a\", not \"kawipiko-2022a\"";
    assert_eq!(opened(&[other]), expected);
    assert_eq!(
        opened(&[(b"a".to_vec(), b"b".to_vec())]),
        "a cdb file, but not an archive of kawipiko: it has no schema"
    );
    for (file, message) in [
        (Vec::new(), "not a cdb file: shorter than 2048 bytes"),
        (vec![0; 2047], "not a cdb file: shorter than 2048 bytes"),
        (vec![b'x'; 4096], "cdb table 0 lies outside of the file"),
    ] {
        assert_eq!(
            Archive::open(&file).err().map(|error| error.to_string()).as_deref(),
            Some(message)
        );
    }
}

/// Returns the error about the only reference of an archive.
fn wrong(mut records: Records) -> String {
    records.push(schema());
    let file = database(&records);
    let archive = Archive::open(&file).expect("it has the schema");
    let read = |archive: &Archive<'_>| -> Result<(), Damage> {
        for reference in archive.references() {
            let reference = reference?;
            archive.fields(&reference)?;
            archive.content(&reference)?;
        }
        Ok(())
    };
    read(&archive).expect_err("something is wrong").to_string()
}

#[test]
fn references_must_be_two_numbers() {
    let data = |key: &str, data: &str| vec![(key.into(), data.into())];
    let message = "not the numbers of a block of fields and of a content";
    for pair in [
        "",
        "m0000001",
        "m0000001d000000",
        "m0000001d00000001",
        "d0000001m0000001",
        "m000000Ad0000001",
        "m0000001d000000g",
    ] {
        assert_eq!(wrong(data("f:/a", pair)), format!("record f:/a: {message}"), "{pair}");
    }
    assert_eq!(wrong(data("f:a", "m0000001d0000001")), "record f:a: not a path");
    assert_eq!(wrong(data("l:", "m0000001d0000001")), "record l:: not a path");
    assert_eq!(wrong(vec![reference("f:/a", 1, 2)]), "record m0000001: missing");
    let fields = (b"m0000001".to_vec(), Vec::new());
    assert_eq!(wrong(vec![reference("f:/a", 1, 2), fields]), "record d0000002: missing");
}

#[test]
fn malformed_blocks_of_fields_are_refused() {
    let block =
        |block: &[u8]| wrong(vec![reference("f:/a", 1, 2), (b"m0000001".to_vec(), block.to_vec())]);
    let long = [b"h0000001Zgoa".as_slice(), &[b'x'; 4100]].concat();
    let many = b"h0000001H000000d".repeat(129);
    for (bytes, message) in [
        (&b"h000001"[..], "ends within a field"),
        (b"h0000001", "ends within a field"),
        (b"h0000001H00000", "ends within a field"),
        (b"h0000001Zaa", "ends within a field"),
        (b"h0000001Zaad30", "ends within a field"),
        (b"h0000000H0000001", "a field name that is none"),
        (b"h000007bH0000001", "a field name that is none"),
        (b"H0000001H0000001", "a field name that is none"),
        (b"h0000001H0000000", "a field value that is none"),
        (b"h0000001H0000048", "a field value that is none"),
        (b"h0000001x0000001", "a field value that is none"),
        (b"h0000001Zaaz....", "a field value that is none"),
        (&long, "a value of more than 4096 bytes"),
        (&many, "more than 128 fields"),
    ] {
        assert_eq!(block(bytes), format!("record m0000001: {message}"), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_valid_archive_is_read() {
    let records = vec![
        schema(),
        reference("r:://host.example/a", 1, 0x00ff_ffff),
        reference("f:://alone", 1, 0x00ff_ffff),
        (b"m0000001".to_vec(), b"h0000001Zaad301h000003fZaab/".to_vec()),
        (b"d0ffffff".to_vec(), Vec::new()),
    ];
    let file = database(&records);
    let archive = Archive::open(&file).expect("it has the schema");
    let references: Vec<_> = archive.references().map(|found| found.expect("sound")).collect();
    let [moved, alone] = references.as_slice() else { panic!("{references:?}") };
    assert_eq!((moved.host, moved.path), (Some(&b"host.example"[..]), &b"/a"[..]));
    assert_eq!((alone.host, alone.path), (Some(&b"alone"[..]), &b""[..]));
    assert_eq!((moved.fields_number(), moved.content_number()), (1, 0x00ff_ffff));
    let fields = [("!Status", &b"301"[..]), ("Location", b"/")];
    let fields = fields.map(|(name, value)| KawipikoField { name, value });
    assert_eq!(archive.fields(moved), Ok(fields.to_vec()));
    assert_eq!(archive.content(moved), Ok(&b""[..]));
}
