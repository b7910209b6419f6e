use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).expect("into memory");
    encoder.finish().expect("into memory")
}

/// Gives the data in pieces, takes the content in pieces, and returns all of it.
fn decode(
    coding: ContentCoding,
    data: &[u8],
    (piece, room): (usize, usize),
) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = ContentDecoder::new(coding);
    let (mut content, mut waiting) = (Vec::new(), Vec::new());
    for piece in data.chunks(piece) {
        waiting.extend_from_slice(piece);
        loop {
            let mut out = Vec::new();
            let used = decoder.decode(&waiting, &mut out, room)?;
            assert!(out.len() <= room);
            waiting.drain(..used);
            content.extend_from_slice(&out);
            if used == 0 && out.is_empty() {
                break;
            }
        }
    }
    decoder.end().map(|()| content)
}

proptest! {
    #[test]
    fn gzip_is_decoded_in_pieces_of_any_size(
        parts in prop::collection::vec(prop::collection::vec(0_u8..4, 0..5000), 1..3),
        piece in 1_usize..2000,
        room in 1_usize..3000,
    ) {
        // Each part is a member of its own.
        let data: Vec<u8> = parts.iter().flat_map(|part| gzip(part)).collect();
        let content = decode(ContentCoding::Gzip, &data, (piece, room));
        prop_assert_eq!(content, Ok(parts.concat()));
    }

    #[test]
    fn damaged_data_is_never_more_than_an_error(
        content in prop::collection::vec(any::<u8>(), 0..3000),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut data = gzip(&content);
        for (at, flip) in flips {
            let at = at.index(data.len());
            data[at] ^= flip;
        }
        data.truncate(cut.index(data.len()) + 1);
        // The data has a checksum and the length of the content, so it is not decoded to another.
        if let Ok(decoded) = decode(ContentCoding::Gzip, &data, (100, 100)) {
            prop_assert!(decoded == content || decoded.is_empty());
        }
        let _any = decode(ContentCoding::Brotli, &data, (100, 100));
    }
}

#[test]
fn truncated_gzip_is_incomplete() {
    let data = gzip(b"some content");
    for bytes in 1..data.len() {
        let cut = data.get(..bytes).expect("shorter");
        let expected = Err(DecodeError::Incomplete(ContentCoding::Gzip));
        assert_eq!(decode(ContentCoding::Gzip, cut, (7, 7)), expected, "{bytes}");
    }
    assert_eq!(decode(ContentCoding::Gzip, b"", (1, 1)), Ok(Vec::new()));
}

/// Data after the last member is ignored as a whole, wherever it is cut, even if a part of it looks
/// like another member.
#[test]
fn data_after_the_last_gzip_member_is_ignored() {
    let first = gzip(b"content");
    for padding in [&b"\0"[..], b"\0\0\0\0\0", b"\x1f", b"\x1f\x1f", b"text"] {
        let data = [&first, padding, &gzip(b"no content")].concat();
        for piece in 1..data.len() + 1 {
            let content = decode(ContentCoding::Gzip, &data, (piece, 50));
            assert_eq!(content.as_deref(), Ok(&b"content"[..]), "{padding:?} in {piece}");
        }
    }
}

#[test]
fn bombs_are_refused() {
    let bomb = gzip(&vec![0; 64 << 20]);
    let bound = (bomb.len() as u64 * DECODED_RATIO_MAX).max(DECODED_FREE_BYTES) as usize;
    let mut decoder = ContentDecoder::new(ContentCoding::Gzip);
    let (mut at, mut content) = (0, 0);
    let error = loop {
        let mut out = Vec::new();
        match decoder.decode(&bomb[at..], &mut out, 10_000) {
            Ok(used) => (at, content) = (at + used, content + out.len()),
            Err(error) => break error,
        }
    };
    assert_eq!(error, DecodeError::Ratio);
    assert!(content <= bound, "{content}");
    // A small content is accepted, however short its compressed form is.
    let small = gzip(&vec![0; DECODED_FREE_BYTES as usize]);
    let content = decode(ContentCoding::Gzip, &small, (100_000, 100_000)).expect("decoded");
    assert_eq!(content.len() as u64, DECODED_FREE_BYTES);
}

#[test]
fn brotli_with_a_huge_window_is_refused() {
    // WBITS of 23, 24 and 22 (RFC 7932 §9.1).
    for (first, is_refused) in [(0b1101, true), (0b1111, true), (0b1011, false)] {
        let data = [first, 0xff, 0xff, 0xff, 0xff, 0xff];
        let decoded = decode(ContentCoding::Brotli, &data, (9, 9));
        assert_eq!(decoded == Err(DecodeError::Window), is_refused, "{decoded:?}");
    }
}

#[test]
fn codings_are_parsed_from_their_names() {
    assert_eq!(ContentCoding::of(b"gzip"), Some(ContentCoding::Gzip));
    assert_eq!(ContentCoding::of(b" X-GZIP"), Some(ContentCoding::Gzip));
    assert_eq!(ContentCoding::of(b"Br"), Some(ContentCoding::Brotli));
    for other in [&b"deflate"[..], b"gzip, br", b"identity", b"", b"zstd"] {
        assert_eq!(ContentCoding::of(other), None);
    }
}
