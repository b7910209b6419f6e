//! Decoding in pieces is compared with decoding as a whole: the fuzz target `content_decoder`
//! checks this.
//!
//! The first byte of an input selects the coding, and whether the rest is content, which is encoded
//! here, or data that a server may have sent. The two bytes that follow select the sizes of the
//! pieces of data and of content.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use pinion_brotli::{BrotliEncoder, Decoder, EncoderMemory, EncoderOperation};
use pinion_client::content_decoder::{ContentCoding, ContentDecoder, DecodeError};
use pinion_client::limits::{DECODED_FREE_BYTES, DECODED_RATIO_MAX};

/// The bit of the first byte that selects brotli as the coding.
pub(crate) const BROTLI: u8 = 1;
/// The bit of the first byte that marks the rest as encoded data.
pub(crate) const ENCODED: u8 = 2;

/// More content than this is not compared with a second reading, which has no bound.
const COMPARED_MAX_BYTES: u64 = 2 * DECODED_FREE_BYTES;

/// Panics when decoding in pieces makes something else than decoding as a whole. Returns whether
/// the data was valid to its end.
pub(crate) fn check(input: &[u8]) -> bool {
    let [kind, pieces, rooms, rest @ ..] = input else { return false };
    let sizes = (Sizes::new(*pieces), Sizes::new(*rooms));
    let coding = match kind & BROTLI {
        0 => ContentCoding::Gzip,
        _ => ContentCoding::Brotli,
    };
    if kind & ENCODED == 0 {
        let data = encoded(coding, *kind, rest);
        let decoded = in_pieces(coding, &data, sizes);
        // A short content cannot be refused for its growth.
        assert_eq!(decoded.as_deref(), Ok(rest));
        return true;
    }
    let whole = in_pieces(coding, rest, (Sizes::Whole, Sizes::Whole));
    let cut = in_pieces(coding, rest, sizes);
    let is_too_much = |result: &Result<_, _>| *result == Err(DecodeError::Ratio);
    if is_too_much(&whole) != is_too_much(&cut) {
        // The amount of input that a decoder reads in advance depends on the pieces, so only one of
        // the two may reach the bound, when the content is about as long as the bound.
        let longest = whole.iter().chain(&cut).map(Vec::len).max().unwrap_or_default();
        assert!(longest as u64 >= DECODED_FREE_BYTES / 2, "{longest} bytes are not too much");
    } else {
        assert!(whole == cut, "{:?} and {:?}", shown(&whole), shown(&cut));
    }
    match (plainly(coding, rest), &whole) {
        (Some(expected), Ok(content)) => assert!(*content == expected, "another content"),
        (None, Err(_)) | (_, Err(DecodeError::Ratio | DecodeError::Window)) => {}
        (plain, decoded) => panic!("{:?} and {:?}", plain.map(|one| one.len()), shown(decoded)),
    }
    whole.is_ok()
}

fn shown(decoded: &Result<Vec<u8>, DecodeError>) -> Result<usize, DecodeError> {
    decoded.as_ref().map(Vec::len).map_err(|error| *error)
}

/// The sizes of pieces, one after the other.
#[derive(Clone, Copy)]
enum Sizes {
    Whole,
    Drawn { bits: u32, state: u32 },
}

impl Sizes {
    /// Draws sizes from 1 up to a power of two, which one half of the byte selects; the other half
    /// determines their sequence.
    fn new(byte: u8) -> Self {
        Self::Drawn { bits: u32::from(byte & 15), state: u32::from(byte) | 1 }
    }

    fn next(&mut self) -> usize {
        match self {
            // This is the most that a decoder gets at a time.
            Self::Whole => 1 << 20,
            Self::Drawn { bits, state } => {
                *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                1 + (*state >> 8) as usize % (1 << *bits)
            }
        }
    }
}

/// Decodes data that is given in pieces, to content that is taken in pieces.
fn in_pieces(
    coding: ContentCoding,
    data: &[u8],
    (mut pieces, mut rooms): (Sizes, Sizes),
) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = ContentDecoder::new(coding);
    let (mut content, mut waiting, mut rest) = (Vec::new(), Vec::new(), data);
    while !rest.is_empty() {
        let piece;
        (piece, rest) = rest.split_at(pieces.next().min(rest.len()));
        waiting.extend_from_slice(piece);
        loop {
            let (room, before) = (rooms.next(), content.len());
            let used = match decoder.decode(&waiting, &mut content, room) {
                Ok(used) => used,
                Err(error) => {
                    content.truncate(before);
                    let again = decoder.decode(data, &mut content, room);
                    assert_eq!((again, decoder.end()), (Err(error), Err(error)));
                    assert_eq!(content.len(), before, "content behind an error");
                    return Err(error);
                }
            };
            let written = content.len() - before;
            assert!(written <= room, "{written} bytes where there was room for {room}");
            waiting.drain(..used);
            let given_bytes = (data.len() - rest.len() - waiting.len()) as u64;
            let bound = (given_bytes * DECODED_RATIO_MAX).max(DECODED_FREE_BYTES);
            assert!(content.len() as u64 <= bound, "{} of {given_bytes}", content.len());
            if used == 0 && written == 0 {
                break;
            }
        }
    }
    decoder.end().map(|()| content)
}

/// Encodes content: in one stream of brotli, or in one or two members of gzip.
fn encoded(coding: ContentCoding, kind: u8, content: &[u8]) -> Vec<u8> {
    let level = kind >> 2;
    if coding == ContentCoding::Gzip {
        let cut = if level & 8 == 0 { 0 } else { content.len() / 2 };
        let (front, back) = content.split_at(cut);
        let member = |content: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(u32::from(level & 7)));
            encoder.write_all(content).expect("into memory");
            encoder.finish().expect("into memory")
        };
        return [if cut == 0 { Vec::new() } else { member(front) }, member(back)].concat();
    }
    let (quality, window_log) = (2 + (level & 7), 10 + (level >> 3));
    let mut encoder =
        BrotliEncoder::new(&EncoderMemory::new(quality), quality, window_log, content.len());
    let (mut data, mut rest) = (Vec::new(), content);
    loop {
        let mut piece = [0; 4096];
        let step = encoder.step(EncoderOperation::Finish, rest, &mut piece).expect("an encoder");
        data.extend_from_slice(&piece[..step.written]);
        rest = &rest[step.read..];
        if step.is_done {
            return data;
        }
    }
}

/// Decodes data in the plain way of its library, without bounds. Returns `None` if it is not valid
/// to its end.
fn plainly(coding: ContentCoding, data: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    if coding == ContentCoding::Brotli {
        if !data.is_empty() {
            Decoder::new(data).take(COMPARED_MAX_BYTES).read_to_end(&mut content).ok()?;
        }
        return Some(content);
    }
    let mut rest = data;
    while !rest.is_empty() && (content.is_empty() && rest.len() == data.len() || is_member(rest)) {
        let mut member = GzDecoder::new(rest);
        member.by_ref().take(COMPARED_MAX_BYTES).read_to_end(&mut content).ok()?;
        rest = member.into_inner();
    }
    Some(content)
}

/// Returns whether the data after a member of gzip is another one.
fn is_member(data: &[u8]) -> bool {
    data.starts_with(&[0x1f, 0x8b])
}
