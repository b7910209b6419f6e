//! Content: limits, and what the reader says about itself.

use pinion_http::h1::body::{BodyReader, Step};
use pinion_http::limits::{CHUNK_LINE_MAX_BYTES, TRAILER_MAX_BYTES};
use pinion_http::refusal::Refusal;
use pinion_http::request::Framing;

const PLENTY: u64 = 1 << 40;

/// The last step of reading all of it, and how many bytes of content there were.
fn read(framing: Framing, content_max: u64, wire: &[u8]) -> Result<(bool, usize), Refusal> {
    let mut reader = BodyReader::new(framing, content_max);
    let (mut at, mut content) = (0, 0);
    loop {
        let (bytes, step) = reader.step(&wire[at..])?;
        at += bytes;
        match step {
            Step::Data(data) => content += data.len(),
            Step::NeedMore => return Ok((false, content)),
            Step::End => return Ok((true, content)),
        }
    }
}

#[test]
fn no_content() {
    let mut reader = BodyReader::new(Framing::None, PLENTY);
    assert!(reader.is_at_end());
    assert_eq!(reader.step(b"GET /"), Ok((0, Step::End)));
}

#[test]
fn a_length_leaves_the_next_request_alone() {
    let mut reader = BodyReader::new(Framing::Length(5), PLENTY);
    assert_eq!(reader.known_remaining(), 5);
    assert_eq!(reader.step(b"he"), Ok((2, Step::Data(b"he"))));
    assert_eq!(reader.step(b""), Ok((0, Step::NeedMore)));
    assert_eq!(reader.known_remaining(), 3);
    assert_eq!(reader.step(b"lloGET /"), Ok((3, Step::Data(b"llo"))));
    assert!(reader.is_at_end());
    assert_eq!(reader.step(b"GET /"), Ok((0, Step::End)));
}

#[test]
fn data_is_handed_on_as_it_comes() {
    let mut reader = BodyReader::new(Framing::Chunked, PLENTY);
    assert_eq!(reader.step(b"5\r\nhe"), Ok((5, Step::Data(b"he"))));
    assert_eq!(reader.known_remaining(), 3);
    assert_eq!(reader.step(b"llo\r"), Ok((3, Step::Data(b"llo"))));
    assert_eq!(reader.step(b"\r\n0\r\n\r\nGET"), Ok((7, Step::End)));
    assert!(reader.is_at_end());
}

/// RFC 9112 §7.1.1: "A server ought to limit the total length of chunk extensions".
#[test]
fn chunk_line_limit() {
    let line = |bytes: usize| {
        // ";x" and the size and the CRLF take five.
        format!("1;x{}\r\n.\r\n0\r\n\r\n", "x".repeat(bytes - 5)).into_bytes()
    };
    let most = line(CHUNK_LINE_MAX_BYTES);
    assert_eq!(read(Framing::Chunked, PLENTY, &most), Ok((true, 1)));
    let more = line(CHUNK_LINE_MAX_BYTES + 1);
    assert_eq!(read(Framing::Chunked, PLENTY, &more), Err(Refusal::Chunk));
    // Leading zeros end there too.
    assert_eq!(read(Framing::Chunked, PLENTY, &[b'0'; 300]), Err(Refusal::Chunk));
}

#[test]
fn trailer_limit() {
    let trailer = |bytes: usize| {
        // The name, the colon, its CRLF and the blank line take six.
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
    // It is refused at the size, before the data.
    assert_eq!(read(Framing::Chunked, 9, b"a\r\n"), Err(Refusal::ContentTooLarge));
    assert_eq!(read(Framing::Chunked, 0, b"0\r\n\r\n"), Ok((true, 0)));
}

/// One byte of content in every chunk with as many bytes of extensions as fit: they are charged.
#[test]
fn extensions_count_as_content() {
    let chunk = format!("1;{}\r\n.\r\n", "x".repeat(200));
    let charged = 1 + (1 + 1 + 200 + 2) - 18;
    let wire = |count: usize| format!("{}0\r\n\r\n", chunk.repeat(count)).into_bytes();
    let most = charged * 5;
    assert_eq!(read(Framing::Chunked, most, &wire(5)), Ok((true, 5)));
    assert_eq!(read(Framing::Chunked, most, &wire(6)), Err(Refusal::ContentTooLarge));
}
