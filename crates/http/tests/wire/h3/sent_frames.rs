//! The frames that a server writes.

use pinion_http::field::Field;
use pinion_http::field_section::FieldSection;
use pinion_http::h3::send;
use pinion_http::limits::Limits;
use pinion_http::qpack::{decoder, static_encoder};

use super::raw_client::*;

/// RFC 9114 §4.1: interim heads, a final one, content, trailers.
#[test]
fn a_whole_response() {
    let field = |name, value| [Field { name, value }].into_iter();
    let mut out = Vec::new();
    send::head(&mut out, |out| static_encoder::interim(out, 103, field(b"link", b"</a>")));
    send::head(&mut out, |out| static_encoder::head(out, 200, field(b"a", b"b"), Some(5), b""));
    send::data(&mut out, 5);
    out.extend_from_slice(b"hello");
    send::trailers(&mut out, |out| static_encoder::trailers(out, field(b"sum", b"7")));
    let mut rest = &out[..];
    let mut seen = Vec::new();
    while let Some((kind, payload)) = take(&mut rest) {
        if kind == DATA {
            seen.push(String::from_utf8(payload.to_vec()).unwrap());
            continue;
        }
        assert_eq!(kind, HEADERS);
        let mut section = FieldSection::new();
        decoder::decode(payload, &mut section, &Limits::default()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = section.fields();
        let words = fields.iter().map(|f| format!("{}={}", text(f.name), text(f.value)));
        seen.push(words.collect::<Vec<_>>().join(" "));
    }
    let head = ":status=200 a=b content-length=5";
    assert_eq!(seen, [":status=103 link=</a>", head, "hello", "sum=7"]);
}

/// Lengths of one, two and four bytes.
#[test]
fn sections_of_any_length() {
    for bytes in [0, 1, 63, 64, 16_383, 16_384, 16_385, 100_000] {
        let mut out = b"in front".to_vec();
        let section: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        send::head(&mut out, |out| out.extend_from_slice(&section));
        out.extend_from_slice(&frame(UNKNOWN, b"behind"));
        let mut rest = out.strip_prefix(b"in front").unwrap();
        assert!(take(&mut rest) == Some((HEADERS, &section[..])), "{bytes}");
        assert_eq!(take(&mut rest), Some((UNKNOWN, &b"behind"[..])));
        assert!(rest.is_empty());
    }
}

#[test]
fn headers_of_content() {
    for bytes in [0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
        let mut out = Vec::new();
        send::data(&mut out, bytes);
        assert_eq!(out, front(DATA, bytes));
    }
}

/// Removes the next frame from the front.
fn take<'a>(rest: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let mut next = || {
        let form = rest.first()? >> 6;
        let (bytes, tail) = rest.split_at(1 << form);
        *rest = tail;
        let first = u64::from(bytes[0] & 0x3f);
        Some(bytes[1..].iter().fold(first, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (kind, bytes) = (next()?, next()?);
    let (payload, tail) = rest.split_at(bytes as usize);
    *rest = tail;
    Some((kind, payload))
}
