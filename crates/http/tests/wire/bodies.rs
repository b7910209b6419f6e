//! Content: limits, and the state that the reader reports.

use pinion_http::h1::body::{BodyReader, BodyStep};
use pinion_http::limits::{CHUNK_LINE_MAX_BYTES, TRAILER_MAX_BYTES};
use pinion_http::refusal::Refusal;
use pinion_http::request_head::Framing;

const PLENTY: u64 = 1 << 40;

/// Returns the result of the last step of reading everything, and the number of content bytes.
fn read(framing: Framing, content_max: u64, wire: &[u8]) -> Result<(bool, usize), Refusal> {
    let mut reader = BodyReader::new(framing, content_max);
    let (mut at, mut content) = (0, 0);
    loop {
        let (bytes, step) = reader.step(&wire[at..], PLENTY)?;
        at += bytes;
        match step {
            BodyStep::Data(data) => content += data.len(),
            BodyStep::NeedMore => return Ok((false, content)),
            BodyStep::End(_) => return Ok((true, content)),
        }
    }
}

#[test]
fn no_content() {
    let mut reader = BodyReader::new(Framing::None, PLENTY);
    assert!(reader.is_at_end());
    assert_eq!(reader.step(b"GET /", PLENTY), Ok((0, BodyStep::End(b""))));
}

#[test]
fn a_length_ends_before_the_next_request() {
    let mut reader = BodyReader::new(Framing::Length(5), PLENTY);
    assert_eq!(reader.known_remaining(), 5);
    assert_eq!(reader.step(b"he", PLENTY), Ok((2, BodyStep::Data(b"he"))));
    assert_eq!(reader.step(b"", PLENTY), Ok((0, BodyStep::NeedMore)));
    assert_eq!(reader.known_remaining(), 3);
    assert_eq!(reader.step(b"lloGET /", PLENTY), Ok((3, BodyStep::Data(b"llo"))));
    assert!(reader.is_at_end());
    assert_eq!(reader.step(b"GET /", PLENTY), Ok((0, BodyStep::End(b""))));
}

#[test]
fn content_is_delivered_as_it_arrives() {
    let mut reader = BodyReader::new(Framing::Chunked, PLENTY);
    assert_eq!(reader.step(b"5\r\nhe", PLENTY), Ok((5, BodyStep::Data(b"he"))));
    assert_eq!(reader.known_remaining(), 3);
    assert_eq!(reader.step(b"llo\r", PLENTY), Ok((3, BodyStep::Data(b"llo"))));
    assert_eq!(reader.step(b"\r\n0\r\n\r\nGET", PLENTY), Ok((7, BodyStep::End(b"\r\n"))));
    assert!(reader.is_at_end());
}

/// Framing needs no space for output, and the end is reported with the last byte of the content.
#[test]
fn only_content_needs_output_space() {
    let mut reader = BodyReader::new(Framing::Chunked, PLENTY);
    let wire = b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET";
    assert_eq!(reader.step(wire, 0), Ok((3, BodyStep::NeedMore)));
    assert!(reader.is_in_content());
    assert_eq!(reader.step(&wire[3..], 0), Ok((0, BodyStep::NeedMore)));
    assert_eq!(reader.step(&wire[3..], 4), Ok((4, BodyStep::Data(b"hell"))));
    assert_eq!(reader.step(&wire[7..], 1), Ok((1, BodyStep::Data(b"o"))));
    assert!(!reader.is_in_content());
    assert_eq!(reader.step(&wire[8..], 0), Ok((5, BodyStep::NeedMore)));
    assert_eq!(reader.step(&wire[13..], 1), Ok((1, BodyStep::Data(b"!"))));
    assert_eq!(reader.step(&wire[14..], 0), Ok((7, BodyStep::End(b"\r\n"))));
    let mut reader = BodyReader::new(Framing::Length(2), PLENTY);
    assert_eq!(reader.step(b"hi", 0), Ok((0, BodyStep::NeedMore)));
    assert_eq!(reader.step(b"hi", 2), Ok((2, BodyStep::Data(b"hi"))));
    assert_eq!(reader.step(b"GET", 0), Ok((0, BodyStep::End(b""))));
}

/// A trailer section is left in the input until it is complete, and is reported in one piece.
#[test]
fn trailers_are_delivered_in_one_piece() {
    let section = b"Sum: 7\r\nSign: x\r\n\r\n";
    let wire = [b"0\r\n".as_slice(), section, b"GET"].concat();
    for first in 3..3 + section.len() {
        let mut reader = BodyReader::new(Framing::Chunked, PLENTY);
        assert_eq!(reader.step(&wire[..first], 0), Ok((3, BodyStep::NeedMore)));
        assert_eq!(reader.step(&wire[3..first], 0), Ok((0, BodyStep::NeedMore)));
        assert!(!reader.is_at_end());
        assert_eq!(reader.step(&wire[3..], 0), Ok((section.len(), BodyStep::End(section))));
        assert!(reader.is_at_end());
    }
}

/// RFC 9112 §7.1.1: "A server ought to limit the total length of chunk extensions".
#[test]
fn chunk_line_limit() {
    let line = |bytes: usize| {
        // ";x" and the size and the CRLF take five bytes.
        format!("1;x{}\r\n.\r\n0\r\n\r\n", "x".repeat(bytes - 5)).into_bytes()
    };
    let most = line(CHUNK_LINE_MAX_BYTES);
    assert_eq!(read(Framing::Chunked, PLENTY, &most), Ok((true, 1)));
    let more = line(CHUNK_LINE_MAX_BYTES + 1);
    assert_eq!(read(Framing::Chunked, PLENTY, &more), Err(Refusal::Chunk));
    // Leading zeros are limited too.
    assert_eq!(read(Framing::Chunked, PLENTY, &[b'0'; 300]), Err(Refusal::Chunk));
}

#[test]
fn trailer_limit() {
    let trailer = |bytes: usize| {
        // The name, the colon, its CRLF and the blank line take six bytes.
        format!("0\r\nX:{}\r\n\r\n", "x".repeat(bytes - 6)).into_bytes()
    };
    let most = trailer(TRAILER_MAX_BYTES);
    assert_eq!(read(Framing::Chunked, PLENTY, &most), Ok((true, 0)));
    let more = trailer(TRAILER_MAX_BYTES + 1);
    assert_eq!(read(Framing::Chunked, PLENTY, &more), Err(Refusal::HeadTooLarge));
    let many = [b"0\r\n".as_slice(), &b"X:y\r\n".repeat(TRAILER_MAX_BYTES / 5 + 1)].concat();
    assert_eq!(read(Framing::Chunked, PLENTY, &many), Err(Refusal::HeadTooLarge));
}

/// RFC 9110 §15.5.14.
#[test]
fn content_limit() {
    let ten = b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n";
    assert_eq!(read(Framing::Chunked, 10, ten), Ok((true, 10)));
    assert_eq!(read(Framing::Chunked, 9, ten), Err(Refusal::ContentTooLarge));
    // The content is refused at the size, before the data.
    assert_eq!(read(Framing::Chunked, 9, b"a\r\n"), Err(Refusal::ContentTooLarge));
    assert_eq!(read(Framing::Chunked, 0, b"0\r\n\r\n"), Ok((true, 0)));
}

/// A length is known at the start, and the reader of the content may allow it.
#[test]
fn a_length_over_the_limit() {
    let mut reader = BodyReader::new(Framing::Length(11), 10);
    assert!(!reader.fits());
    reader.set_content_max(11);
    assert!(reader.fits());
    let mut reader = BodyReader::new(Framing::Chunked, 10);
    assert!(reader.fits(), "nothing is known");
    reader.set_content_max(5);
    assert_eq!(reader.step(b"6\r\n", PLENTY), Err(Refusal::ContentTooLarge));
}

/// Every chunk has one byte of content and as many bytes of extensions as fit: they are counted.
#[test]
fn extensions_count_as_content() {
    let chunk = format!("1;{}\r\n.\r\n", "x".repeat(200));
    let charged = 1 + (1 + 1 + 200 + 2) - 18;
    let wire = |count: usize| format!("{}0\r\n\r\n", chunk.repeat(count)).into_bytes();
    let most = charged * 5;
    assert_eq!(read(Framing::Chunked, most, &wire(5)), Ok((true, 5)));
    assert_eq!(read(Framing::Chunked, most, &wire(6)), Err(Refusal::ContentTooLarge));
}
