//! The encoding of a field of a hash: the length of its name with a bit for whether it expires, the
//! time of expiry (6 bytes, if there is one), the name, and the value.

/// A field with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EncodedField<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The time of expiry, in milliseconds since 1970.
    pub(crate) expiry_ms: Option<u64>,
}

/// Number of bytes of a time of expiry. Milliseconds since 1970 fit into 48 bits until the year
/// 10889.
pub(super) const EXPIRY_BYTES: usize = 6;

impl EncodedField<'_> {
    /// Returns whether the field has expired by `now_ms`.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_some_and(|at| at <= now_ms)
    }

    /// Appends the head of the field, which is everything before the value.
    pub(super) fn encode_head(&self, bytes: &mut Vec<u8>) {
        let has_expiry = usize::from(self.expiry_ms.is_some());
        encode_number(self.name.len() << 1 | has_expiry, bytes);
        if let Some(expiry_ms) = self.expiry_ms {
            bytes.extend_from_slice(&encode_expiry(expiry_ms));
        }
        bytes.extend_from_slice(self.name);
    }

    /// Returns the number of bytes of the head, which is everything before the value.
    pub(super) fn head_bytes(&self) -> usize {
        let expiry_bytes = if self.expiry_ms.is_some() { EXPIRY_BYTES } else { 0 };
        number_bytes(self.name.len() << 1) + expiry_bytes + self.name.len()
    }
}

pub(super) fn encode_expiry(expiry_ms: u64) -> [u8; EXPIRY_BYTES] {
    let [bytes @ .., _, _] = expiry_ms.to_le_bytes();
    bytes
}

pub(super) fn decode_expiry(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..EXPIRY_BYTES].copy_from_slice(&bytes[..EXPIRY_BYTES]);
    u64::from_le_bytes(all)
}

/// Decodes a head at the start of the bytes. Returns the name, the expiry, and the number of bytes
/// of the head.
pub(super) fn decode_head(bytes: &[u8]) -> (&[u8], Option<u64>, usize) {
    let (number, mut at) = decode_number(bytes);
    let mut expiry_ms = None;
    if number & 1 == 1 {
        expiry_ms = Some(decode_expiry(&bytes[at..]));
        at += EXPIRY_BYTES;
    }
    let end = at + (number >> 1);
    (&bytes[at..end], expiry_ms, end)
}

/// Appends a number as a varint: groups of seven bits, each but the last one with its highest bit
/// set.
pub(super) fn encode_number(mut number: usize, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Decodes a varint at the start of the bytes. Returns the number, and its number of bytes.
pub(super) fn decode_number(bytes: &[u8]) -> (usize, usize) {
    let (mut number, mut shift) = (0, 0);
    for (index, &byte) in bytes.iter().enumerate() {
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return (number, index + 1);
        }
    }
    unreachable!("numbers are whole: they are only written above")
}

/// Returns the number of bytes of a varint.
pub(super) fn number_bytes(number: usize) -> usize {
    let bits = usize::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}
