//! Checks whether stored bytes are a coding of some content: the proof that a body of an archive
//! from elsewhere needs. Also decodes content. No buffer ever grows beyond the length that the
//! content should have, or may have.

use std::io::Read;

use libdeflater::{Decompressor, crc32};
use pinion_http::content_coding::Coding;

use crate::limits::{
    DEFLATE_RATIO_MAX, PIECE_BYTES, ZSTD_READ_WINDOW_LOG_MAX, ZSTD_WINDOW_LOG_MAX,
};

/// The reason why a content cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The bytes are not valid in the coding.
    Damaged,
    /// There is more content than may be.
    TooLong,
}

/// Decodes all of `stored`, which gives at most `most` bytes.
pub(crate) fn decoded(coding: Coding, stored: &[u8], most: u64) -> Result<Vec<u8>, DecodeError> {
    match coding {
        Coding::Identity if stored.len() as u64 > most => Err(DecodeError::TooLong),
        Coding::Identity => Ok(stored.to_vec()),
        Coding::Gzip => gunzip(stored, most),
        Coding::Brotli => read_all(pinion_brotli::Decoder::new(stored), most),
        Coding::Zstd => {
            let mut decoder = zstd::Decoder::new(stored).map_err(|_| DecodeError::Damaged)?;
            let window = decoder.window_log_max(ZSTD_READ_WINDOW_LOG_MAX);
            window.map_err(|_| DecodeError::Damaged)?;
            read_all(decoder, most)
        }
    }
}

/// Returns the length that the end of a gzip stream announces (RFC 1952 §2.3.1), if the stream can
/// hold so many bytes.
pub(crate) fn gzip_bytes(stored: &[u8]) -> Option<u64> {
    let length = u64::from(u32::from_le_bytes(*stored.last_chunk()?));
    Some(length).filter(|&length| length <= stored.len() as u64 * DEFLATE_RATIO_MAX)
}

fn gunzip(stored: &[u8], most: u64) -> Result<Vec<u8>, DecodeError> {
    const MAGIC: &[u8] = b"\x1f\x8b";
    let length = gzip_bytes(stored).filter(|_| stored.starts_with(MAGIC));
    let length = length.ok_or(DecodeError::Damaged)?;
    let length = usize::try_from(length).ok().filter(|&length| length as u64 <= most);
    let mut content = vec![0; length.ok_or(DecodeError::TooLong)?];
    match Decompressor::new().gzip_decompress(stored, &mut content) {
        Ok(bytes) if bytes == content.len() && ends_with_check(stored, &content) => Ok(content),
        _ => Err(DecodeError::Damaged),
    }
}

/// Returns whether a gzip stream ends with the check of a content. Further members may follow the
/// first (RFC 1952 §2.2), which is all that is decoded.
fn ends_with_check(stored: &[u8], content: &[u8]) -> bool {
    let end = stored.last_chunk::<8>().and_then(|end| end.first_chunk::<4>());
    end.is_some_and(|check| u32::from_le_bytes(*check) == crc32(content))
}

fn read_all(reader: impl Read, most: u64) -> Result<Vec<u8>, DecodeError> {
    let mut content = Vec::new();
    reader.take(most + 1).read_to_end(&mut content).map_err(|_| DecodeError::Damaged)?;
    if content.len() as u64 > most { Err(DecodeError::TooLong) } else { Ok(content) }
}

/// Returns whether `stored` decodes to exactly `content`.
pub(crate) fn decodes_to(coding: Coding, stored: &[u8], content: &[u8]) -> bool {
    match coding {
        Coding::Identity => stored == content,
        Coding::Gzip => gzip(stored, content),
        Coding::Brotli => reads_as(pinion_brotli::Decoder::new(stored), content),
        Coding::Zstd => zstd::Decoder::new(stored)
            .and_then(|mut decoder| decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map(|()| decoder))
            .is_ok_and(|decoder| reads_as(decoder, content)),
    }
}

fn gzip(stored: &[u8], content: &[u8]) -> bool {
    let mut decoded = vec![0; content.len()];
    let mut decoder = Decompressor::new();
    let length = decoder.gzip_decompress(stored, &mut decoded);
    length == Ok(content.len()) && decoded == content && ends_with_check(stored, content)
}

/// Returns whether `reader` gives exactly `content`; it is asked for at most one byte more.
fn reads_as(mut reader: impl Read, mut content: &[u8]) -> bool {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let Ok(length) = reader.read(&mut piece) else { return false };
        let read = piece.get(..length).unwrap_or_default();
        match (length, content.strip_prefix(read)) {
            (0, _) => return content.is_empty(),
            (_, Some(rest)) => content = rest,
            (_, None) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding_options::{CodingEffort, codings_at};
    use crate::encode::Encoders;

    #[test]
    fn a_coded_body_verifies_only_its_own_content() {
        let content = b"the same words, again and again, the same words ".repeat(4000);
        let mut other = content.clone();
        *other.last_mut().unwrap() ^= 1;
        let mut encoders = Encoders::default();
        for list in ["gzip,br,zstd", "zopfli:1"] {
            for choice in codings_at(list, CodingEffort::Fast).unwrap() {
                let stored = encoders.encode(choice, &content).unwrap().stored;
                let coding = choice.coding();
                assert!(decodes_to(coding, &stored, &content), "{choice}");
                for wrong in [&other[..], &content[1..], &content[..10], &[], &stored] {
                    assert!(!decodes_to(coding, &stored, wrong), "{choice}");
                }
                assert!(!decodes_to(coding, &stored[..stored.len() - 1], &content), "{choice}");
                assert!(!decodes_to(coding, &content, &content), "{choice}");
            }
        }
    }

    /// Browsers would decode them all.
    #[test]
    fn a_gzip_stream_of_several_members_is_not_cut_short() {
        let choice = codings_at("gzip", CodingEffort::Fast).unwrap()[0];
        let stored =
            |content: &[u8]| Encoders::default().encode(choice, content).unwrap().stored.to_vec();
        let (one, other) = ([b'a'; 1000], [b'b'; 1000]);
        let both = [stored(&one), stored(&other)].concat();
        assert_eq!(decoded(Coding::Gzip, &stored(&one), 1000).as_deref(), Ok(&one[..]));
        assert_eq!(decoded(Coding::Gzip, &both, 1000), Err(DecodeError::Damaged));
        assert!(!decodes_to(Coding::Gzip, &both, &one));
    }
}
