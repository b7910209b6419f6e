//! A stream that makes a decoder take as much memory as one can (RFC 7932 §9).

/// Writes bits, the lowest one first (RFC 7932 §1.5.1).
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(&mut self, value: u64, bits: u32) {
        for bit in 0..bits {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if value >> bit & 1 == 1 {
                *self.bytes.last_mut().expect("a byte") |= 1 << (self.used % 8);
            }
            self.used += 1;
        }
    }

    /// A prefix code with one symbol, which then takes no bits (RFC 7932 §3.4).
    fn code_of(&mut self, symbol: u64, alphabet_bits: u32) {
        self.put(1, 2);
        self.put(0, 2);
        self.put(symbol, alphabet_bits);
    }

    /// The number 256, as numbers of block types and of prefix codes are written (§9.2).
    fn count_256(&mut self) {
        self.put(1, 1);
        self.put(7, 3);
        self.put(127, 7);
    }

    /// The header of a metablock with so much content, which is not the last one.
    fn metablock(&mut self, bytes: u64, is_uncompressed: bool) {
        self.put(0, 1);
        // Six nibbles follow.
        self.put(2, 2);
        self.put(bytes - 1, 24);
        self.put(is_uncompressed.into(), 1);
    }
}

/// The window is half as long as it can be, then grows to its full length while all prefix codes
/// are there.
pub(super) fn stream() -> Vec<u8> {
    const HALF_BYTES: usize = 1 << 21;
    let mut bits = Bits::default();
    // A window of 22 bits (§9.1).
    bits.put(0b1011, 4);
    bits.metablock(HALF_BYTES as u64, true);
    bits.used = bits.used.next_multiple_of(8);
    bits.bytes.resize(bits.bytes.len() + HALF_BYTES, 0);
    bits.used += 8 * HALF_BYTES as u32;
    bits.metablock(1 << 24, false);
    for _ in 0..3 {
        bits.count_256();
        bits.code_of(0, 9);
        // The longest block, so that there is no second one.
        bits.code_of(25, 5);
        bits.put((1 << 24) - 1, 24);
    }
    // Neither postfix bits nor direct distances, and the same context mode for all block types.
    bits.put(0, 6);
    bits.put(0, 2 * 256);
    for _ in 0..2 {
        // A context map without runs, all of whose entries are 0.
        bits.count_256();
        bits.put(0, 1);
        bits.code_of(0, 8);
        bits.put(0, 1);
    }
    // Each command copies two bytes from the last distance: symbol 0 of §5.
    for alphabet_bits in [8, 10, 6] {
        for _ in 0..256 {
            bits.code_of(0, alphabet_bits);
        }
    }
    bits.bytes
}
