//! QPACK compared with ls-qpack: its static table, and field sections that it wrote. See
//! `ls_qpack_comparison/generate.py`.

use pinion_http::field_section::{FieldSection, Fit};
use pinion_http::limits::Limits;
use pinion_http::qpack::decoder;

const SECTIONS: &str = include_str!("ls_qpack_comparison/lsqpack.txt");

/// RFC 9204, appendix A.
const STATIC_ENTRIES: usize = 99;

#[test]
fn sections_of_ls_qpack_are_decoded_unchanged() {
    let mut section = FieldSection::new();
    for line in SECTIONS.lines() {
        let mut parts = line.split('\t');
        let block = bytes_of_hex(parts.next().expect("a section"));
        let expected: Vec<_> = parts.map(pair).collect();
        let fit = decoder::decode(&block, &mut section, &Limits::default());
        assert_eq!(fit, Ok(Fit::Whole), "{line}");
        let fields = section.fields();
        let fields: Vec<_> =
            fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
        assert_eq!(fields, expected, "{line}");
    }
    assert!(SECTIONS.lines().count() > STATIC_ENTRIES + 90);
}

/// An index after the table has no entry.
#[test]
fn the_static_table_has_the_size_of_that_of_ls_qpack() {
    let entry = |index: usize| [0, 0, 0xff, (index - 63) as u8];
    let mut section = FieldSection::new();
    let mut decode = |index| decoder::decode(&entry(index), &mut section, &Limits::default());
    assert!(decode(STATIC_ENTRIES - 1).is_ok());
    assert!(decode(STATIC_ENTRIES).is_err());
}

fn pair(text: &str) -> (Vec<u8>, Vec<u8>) {
    let bytes = |text: &str| text.chars().map(|char| char as u8).collect();
    let (name, value) = text.split_once('=').expect("a name and a value");
    (bytes(name), bytes(value))
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let byte = |pair| u8::from_str_radix(pair, 16).expect("hex");
    (0..hex.len()).step_by(2).map(|at| byte(&hex[at..at + 2])).collect()
}
