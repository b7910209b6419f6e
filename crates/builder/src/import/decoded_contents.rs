//! Stored forms → the content itself. kawipiko stores each content in one form only.

use std::borrow::Cow;

use pinion_http::content_coding::Coding;

use crate::limits::IMPORTED_MAX_BYTES;
use crate::verify_coding::{DecodeError, decoded, gzip_bytes};

/// Stored bytes and their coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredBytes<'a> {
    Identity(&'a [u8]),
    Gzip(&'a [u8]),
    Brotli(&'a [u8]),
}

/// The reason why a content cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentFault {
    /// The stored bytes are not valid in their coding.
    #[error("its {0} form is damaged")]
    Damaged(&'static str),
    /// More content than [`IMPORTED_MAX_BYTES`].
    #[error("more than {IMPORTED_MAX_BYTES} bytes of content")]
    TooLong,
}

/// The compression ratio of Brotli for text, in bytes for each stored one: only the memory that is
/// reserved for it depends on this.
const BROTLI_RATIO: u64 = 6;

impl<'a> StoredBytes<'a> {
    /// Returns the length of the stored bytes.
    pub(super) fn bytes(self) -> u64 {
        let (StoredBytes::Identity(bytes) | StoredBytes::Gzip(bytes) | StoredBytes::Brotli(bytes)) =
            self;
        bytes.len() as u64
    }

    /// Returns the coding.
    pub(super) fn coding(self) -> Coding {
        match self {
            StoredBytes::Identity(_) => Coding::Identity,
            StoredBytes::Gzip(_) => Coding::Gzip,
            StoredBytes::Brotli(_) => Coding::Brotli,
        }
    }

    /// Returns about how long the content is.
    pub(super) fn likely_bytes(self) -> u64 {
        match self {
            StoredBytes::Identity(bytes) => bytes.len() as u64,
            StoredBytes::Gzip(bytes) => gzip_bytes(bytes).unwrap_or_default(),
            StoredBytes::Brotli(bytes) => bytes.len() as u64 * BROTLI_RATIO,
        }
    }

    /// Returns the content.
    pub(super) fn content(self) -> Result<Cow<'a, [u8]>, ContentFault> {
        match self {
            StoredBytes::Identity(bytes) => Ok(Cow::Borrowed(bytes)),
            StoredBytes::Gzip(bytes) => opened(Coding::Gzip, bytes).map(Cow::Owned),
            StoredBytes::Brotli(bytes) => opened(Coding::Brotli, bytes).map(Cow::Owned),
        }
    }
}

/// Returns the content, decoded.
fn opened(coding: Coding, stored: &[u8]) -> Result<Vec<u8>, ContentFault> {
    decoded(coding, stored, IMPORTED_MAX_BYTES).map_err(|error| match error {
        DecodeError::Damaged => ContentFault::Damaged(coding.token()),
        DecodeError::TooLong => ContentFault::TooLong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding_options::CodingEffort;
    use crate::encode::Encoders;

    #[test]
    fn encoded_contents_are_decoded() {
        for length in [0, 1, 1000, 70_000, 3_000_000] {
            let content: Vec<u8> = b"kawipiko ".iter().copied().cycle().take(length).collect();
            let mut encoders = Encoders::default();
            for choice in CodingEffort::Best.codings() {
                let Some(encoded) = encoders.encode(choice, &content) else { continue };
                let stored = match choice.coding() {
                    Coding::Gzip => StoredBytes::Gzip(&encoded.stored),
                    _ => StoredBytes::Brotli(&encoded.stored),
                };
                assert!(stored.content().unwrap() == content);
                // Whatever is cut off or changed is noticed, or does not matter.
                let StoredBytes::Gzip(gzip) = stored else { continue };
                let cut = &gzip[..gzip.len() - 1];
                assert!(StoredBytes::Gzip(cut).content().is_err());
            }
        }
        assert_eq!(StoredBytes::Identity(b"x").content().unwrap(), &b"x"[..]);
    }

    #[test]
    fn contents_that_were_never_encoded_are_damaged() {
        for bytes in
            [&b""[..], b"x", b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"Hello world!\xff\xff\xff\xff"]
        {
            assert_eq!(StoredBytes::Gzip(bytes).content(), Err(ContentFault::Damaged("gzip")));
            assert_eq!(StoredBytes::Brotli(bytes).content(), Err(ContentFault::Damaged("br")));
        }
    }
}
