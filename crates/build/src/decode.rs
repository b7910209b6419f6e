//! Whether stored bytes are a coding of some content: the proof that a body of somebody else's
//! archive needs. Nothing is ever held that is longer than the content should be.

use std::io::Read;

use pinion_http::coding::Coding;

use crate::limits::{PIECE_BYTES, ZSTD_WINDOW_LOG_MAX};

/// Whether `stored` decodes to exactly `content`.
pub(crate) fn decodes_to(coding: Coding, stored: &[u8], content: &[u8]) -> bool {
    match coding {
        Coding::Identity => stored == content,
        Coding::Gzip => gzip(stored, content),
        Coding::Brotli => reads_as(brotli::Decompressor::new(stored, PIECE_BYTES), content),
        Coding::Zstd => zstd::Decoder::new(stored)
            .and_then(|mut decoder| decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map(|()| decoder))
            .is_ok_and(|decoder| reads_as(decoder, content)),
    }
}

fn gzip(stored: &[u8], content: &[u8]) -> bool {
    let mut decoded = vec![0; content.len()];
    let mut decoder = libdeflater::Decompressor::new();
    let length = decoder.gzip_decompress(stored, &mut decoded);
    length == Ok(content.len()) && decoded == content
}

/// Whether `reader` gives exactly `content`; it is asked for at most one byte more.
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
    use crate::codings::{Level, codings_at};
    use crate::encode::Encoders;

    #[test]
    fn a_form_proves_its_own_content_and_no_other() {
        let content = b"the same words, again and again, the same words ".repeat(4000);
        let mut other = content.clone();
        *other.last_mut().unwrap() ^= 1;
        let mut encoders = Encoders::default();
        for list in ["gzip,br,zstd", "zopfli:1"] {
            for choice in codings_at(list, Level::Fast).unwrap() {
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
}
