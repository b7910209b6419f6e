//! Content identity: the blake3 digest of stored bytes, and the entity tag made of it.

use pinion_http::coding::Coding;

/// blake3 of a body as stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of a body. A caller with many bodies computes it on its own threads and hands it
    /// to [`Writer::body`](crate::Writer::body).
    pub fn of(stored: &[u8]) -> Digest {
        Digest(*blake3::hash(stored).as_bytes())
    }
}

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Opaque entity tag without its quotes (RFC 9110 §8.8.3): base64url of 16 bytes, always strong.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ETag(pub [u8; 22]);

impl ETag {
    /// The tag of a representation: 16 bytes of blake3 over the digest of its stored bytes, the
    /// number of its coding and its media type. So equal bytes under another type or coding have
    /// another tag, and the same build gives the same tag everywhere.
    pub fn of(stored: &Digest, media_type: &[u8], coding: Coding) -> ETag {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&stored.0);
        hasher.update(&[coding as u8]);
        hasher.update(media_type);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        ETag(base64url(bytes))
    }

    /// The characters, to stand between quotes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Debug for ETag {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// RFC 4648 §5 without padding: 128 bits are 21 characters of 6 bits and one of 2.
fn base64url(bytes: [u8; 16]) -> [u8; 22] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = u128::from_be_bytes(bytes);
    core::array::from_fn(|place| {
        let sextet = match place {
            21 => number << 4,
            _ => number >> (122 - 6 * place),
        };
        ALPHABET[(sextet & 63) as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_agrees_with_known_answers() {
        assert_eq!(&base64url([0; 16]), b"AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(&base64url([0xff; 16]), b"_____________________w");
        let counting = core::array::from_fn(|i| i as u8);
        assert_eq!(&base64url(counting), b"AAECAwQFBgcICQoLDA0ODw");
    }

    #[test]
    fn a_tag_depends_on_content_type_and_coding() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let tag = ETag::of(&a, b"text/css", Coding::Identity);
        assert_eq!(tag, ETag::of(&a, b"text/css", Coding::Identity));
        assert_ne!(tag, ETag::of(&b, b"text/css", Coding::Identity));
        assert_ne!(tag, ETag::of(&a, b"text/html", Coding::Identity));
        assert_ne!(tag, ETag::of(&a, b"text/css", Coding::Gzip));
    }
}
