//! The law of the compressed forms: HPACK and QPACK have the same fields as HTTP/1. Tests of other
//! crates use this file too.

use pinion_http::field::Fields;
use pinion_http::field_section::{FieldSection, Fit};
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;
use pinion_http::prepared_response::{Prepared, SharedFields};
use pinion_http::{hpack, qpack};

/// Name and value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Returns the lines of a head of HTTP/1 as fields of a section: names in lower case, values
/// trimmed.
pub(crate) fn parsed(lines: &[u8]) -> Vec<Pair> {
    let pair = |line: &[u8]| {
        let (name, value) = line.split_at(line.iter().position(|&byte| byte == b':')?);
        let value = pinion_http::grammar::trim(&value[1..]);
        Some((name.to_ascii_lowercase(), value.to_vec()))
    };
    lines.split(|&byte| byte == b'\n').filter_map(|line| pair(line.strip_suffix(b"\r")?)).collect()
}

/// Returns the fields of a block of HPACK that uses no table.
pub(crate) fn of_hpack(block: &[u8]) -> (Vec<Pair>, Fit) {
    let mut section = FieldSection::new();
    let mut decoder = Decoder::new(4096);
    let fit = decoder.decode(block, &mut section, &Limits::default()).expect("well-formed");
    assert_eq!(decoder.memory_bytes(), 0, "nothing goes into the table");
    (pairs(section.fields()), fit)
}

/// Returns the fields of a section of QPACK, prefix included.
pub(crate) fn of_qpack(encoded: &[u8]) -> (Vec<Pair>, Fit) {
    let mut section = FieldSection::new();
    let fit = qpack::decoder::decode(encoded, &mut section, &Limits::default());
    let fit = fit.expect("well-formed");
    (pairs(section.fields()), fit)
}

pub(crate) fn pairs(fields: Fields<'_>) -> Vec<Pair> {
    fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

/// Checks that all forms of some fields are present and have the same fields, as far as a section
/// may be long.
#[allow(dead_code, reason = "not every room has shared fields")]
pub(crate) fn check_fields(fields: &SharedFields<'_>) {
    let said = parsed(fields.h1);
    let with_prefix = [&qpack::static_encoder::PREFIX, fields.qpack].concat();
    for (decoded, fit) in [of_hpack(fields.hpack), of_qpack(&with_prefix)] {
        assert!(said.starts_with(&decoded), "{fields:?}");
        assert!(fit != Fit::Whole || said.len() == decoded.len(), "{fields:?}");
    }
}

/// Checks that a response has the same fields in every version of HTTP.
#[allow(dead_code, reason = "not every room has answers")]
pub(crate) fn check_response(response: &Prepared<'_>) {
    let mut h1 = Vec::new();
    response_encoder::prepared(&mut h1, response, ConnectionFields::Stay, b"Server: x\r\n\r\n");
    let mut said = vec![(b":status".to_vec(), response.status.to_string().into_bytes())];
    said.extend(parsed(&h1));

    let mut tail = Vec::new();
    hpack::static_encoder::field(&mut tail, b"server", b"x");
    let mut out = b"before".to_vec();
    hpack::static_encoder::prepared(&mut out, response, &tail);
    assert!(
        out.len() <= 6 + hpack::static_encoder::prepared_bytes(response) + tail.len(),
        "{response:?}"
    );
    assert_eq!(of_hpack(&out[6..]), (said.clone(), Fit::Whole), "{response:?}");

    let mut tail = Vec::new();
    qpack::static_encoder::field(&mut tail, b"server", b"x");
    let mut out = b"before".to_vec();
    qpack::static_encoder::prepared(&mut out, response, &tail);
    assert!(
        out.len() <= 6 + qpack::static_encoder::prepared_bytes(response) + tail.len(),
        "{response:?}"
    );
    assert_eq!(of_qpack(&out[6..]), (said, Fit::Whole), "{response:?}");
}
