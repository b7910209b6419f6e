//! The mask of the frames of a client (RFC 6455 §5.3).

/// Bytes that a mask has, and after which it repeats.
const MASK_BYTES: usize = 4;

/// The mask of a frame from the byte on that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mask(pub(super) [u8; MASK_BYTES]);

impl Mask {
    /// Takes the mask off bytes, or puts it on. The mask stays as it was; see [`Mask::advance`].
    pub(super) fn apply(self, bytes: &mut [u8]) {
        let Mask([a, b, c, d]) = self;
        let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        let (words, rest) = bytes.as_chunks_mut();
        for bytes in words {
            *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
        }
        for (byte, mask) in rest.iter_mut().zip(self.0.iter().cycle()) {
            *byte ^= mask;
        }
    }

    /// Advances by so many bytes.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.0.rotate_left(bytes % MASK_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masking_by_words_and_pieces_equals_masking_by_bytes() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let content: Vec<u8> = (0..100).collect();
        let expected: Vec<u8> =
            content.iter().zip(key.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        for cut in 0..content.len() {
            let mut bytes = content.clone();
            let mut mask = Mask(key);
            let (front, rest) = bytes.split_at_mut(cut);
            mask.apply(front);
            mask.advance(front.len());
            mask.apply(rest);
            assert_eq!(bytes, expected, "{cut}");
        }
    }
}
