//! Content identity: the blake3 digest of stored bytes, the one of a whole archive, and the entity
//! tag of a representation.

use crate::layout::{FORMAT_VERSION, MAGIC, SectionKind, SectionRow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pinion_http::content_coding::Coding;
use zerocopy::IntoBytes;

/// blake3 of a body as stored, or of an archive. Shown as 64 hexadecimal digits; zeros by default.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the digest of a body. A caller with many bodies computes it on its own threads and
    /// hands it to [`Writer::body`](crate::Writer::body).
    pub fn of(stored: &[u8]) -> Digest {
        Digest(*blake3::hash(stored).as_bytes())
    }

    /// Returns the digest of an archive: over magic, version and the rows of its section table,
    /// without those of signatures, which are made of it.
    pub(crate) fn of_archive(rows: &[SectionRow]) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&MAGIC);
        hasher.update(&FORMAT_VERSION.to_le_bytes());
        for row in rows.iter().filter(|row| row.kind.get() != SectionKind::SIGNATURES.0) {
            hasher.update(row.as_bytes());
        }
        Digest(*hasher.finalize().as_bytes())
    }
}

impl core::fmt::Display for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// Opaque entity tag without its quotes (RFC 9110 §8.8.3): base64url of 16 bytes, always strong.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ETag(pub [u8; 22]);

impl ETag {
    /// Returns the tag of a representation: 16 bytes of blake3 over the digest of its stored bytes,
    /// the number of its coding and its media type. So equal bytes under another type or coding
    /// have another tag, and the same build gives the same tag everywhere.
    pub fn of(stored: &Digest, media_type: &[u8], coding: Coding) -> ETag {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&stored.0);
        hasher.update(&[coding as u8]);
        hasher.update(media_type);
        let mut tag = [0; 22];
        let hash = hasher.finalize();
        let written = URL_SAFE_NO_PAD.encode_slice(&hash.as_bytes()[..16], &mut tag);
        debug_assert_eq!(written, Ok(tag.len()), "16 bytes have 22 characters");
        ETag(tag)
    }

    /// Returns the characters, to stand between quotes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Debug for ETag {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_depends_on_content_type_and_coding() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let tag = ETag::of(&a, b"text/css", Coding::Identity);
        assert_eq!(tag, ETag::of(&a, b"text/css", Coding::Identity));
        assert_ne!(tag, ETag::of(&b, b"text/css", Coding::Identity));
        assert_ne!(tag, ETag::of(&a, b"text/html", Coding::Identity));
        assert_ne!(tag, ETag::of(&a, b"text/css", Coding::Gzip));
        assert!(
            tag.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
        );
    }
}
