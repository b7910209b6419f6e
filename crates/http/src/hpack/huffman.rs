//! The Huffman code of RFC 7541 Appendix B, which QPACK uses too.
//!
//! The code is canonical: among codes of one length the symbols are in order, and a longer code
//! follows on from the shorter ones. So the lengths say all, and the tables are made from them.

use super::CompressionError;

/// Bits of the code of each byte, and of the symbol for the end of a string.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The symbol that never occurs in a string (RFC 7541 §5.2).
const EOS: u16 = 256;

/// Bits of the longest code.
const LONGEST: u32 = 30;

/// Bits of the codes that are found in one look; nearly all text is made of them.
const SHORT: u32 = 8;

/// Code and number of bits of each byte.
static CODES: [(u32, u8); 256] = {
    let mut codes = [(0, 0); 256];
    let mut rank = 0;
    while rank < 256 {
        let symbol = CANON.symbols[rank] as usize;
        let bits = LENGTHS[symbol];
        let first = CANON.starts[bits as usize];
        codes[symbol] = (first.code + (rank as u32 - first.rank), bits);
        rank += 1;
    }
    codes
};

/// Byte and length of the code that begins with these eight bits; a length of 0 where it is longer.
static SHORT_CODES: [(u8, u8); 256] = {
    let mut table = [(0, 0); 256];
    let mut symbol = 0;
    while symbol < 256 {
        let (code, bits) = CODES[symbol];
        if bits as u32 <= SHORT {
            let spare = SHORT - bits as u32;
            let mut at = (code << spare) as usize;
            let end = at + (1 << spare);
            while at < end {
                table[at] = (symbol as u8, bits);
                at += 1;
            }
        }
        symbol += 1;
    }
    table
};

/// The begin of the codes of one length.
#[derive(Clone, Copy)]
struct Start {
    /// The first of them.
    code: u32,
    /// The number of shorter codes.
    rank: u32,
}

struct Canon {
    /// All symbols by their codes: those with shorter ones first.
    symbols: [u16; 257],
    /// The begins by length; an additional one marks the end of the longest.
    starts: [Start; LONGEST as usize + 2],
}

static CANON_TABLE: Canon = CANON;

const CANON: Canon = {
    let mut canon =
        Canon { symbols: [0; 257], starts: [Start { code: 0, rank: 0 }; LONGEST as usize + 2] };
    let mut rank = 0;
    let mut code = 0;
    let mut bits = 1;
    while bits <= LONGEST as usize {
        code <<= 1;
        canon.starts[bits] = Start { code, rank };
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == bits {
                canon.symbols[rank as usize] = symbol as u16;
                rank += 1;
                code += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    canon.starts[bits] = Start { code: code << 1, rank };
    canon
};

// The code is complete: the last one, that of the end of a string, is all ones.
const _: () = assert!(CANON.starts[LONGEST as usize + 1].code == 1 << (LONGEST + 1));
const _: () = assert!(CANON.symbols[256] == EOS);

/// Decodes a string into `out` and returns its length. Bytes for which `out` has no room are left
/// out, but checked and counted.
pub(crate) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, CompressionError> {
    // The next bits of the input, the first one highest, and how many there are.
    let (mut window, mut bits) = (0u64, 0u32);
    let mut rest = input;
    let mut length = 0;
    while let Some(next) = rest.first_chunk() {
        window |= u64::from_be_bytes(*next) >> bits;
        let taken = (63 - bits) >> 3;
        rest = rest.get(taken as usize..).unwrap_or_default();
        bits += 8 * taken;
        while bits >= LONGEST {
            let (byte, used) = symbol(window)?;
            put(out, length, byte);
            length += 1;
            window <<= used;
            bits -= used;
        }
    }
    for &byte in rest {
        // Up to 29 bits from above and up to seven bytes are more than the window holds.
        while bits > 48 {
            let (byte, used) = symbol(window)?;
            put(out, length, byte);
            length += 1;
            window <<= used;
            bits -= used;
        }
        window |= u64::from(byte) << (56 - bits);
        bits += 8;
    }
    // RFC 7541 §5.2: the padding is less than a byte, of the first bits of the end of a string.
    window |= u64::MAX >> bits;
    while bits >= 8 || window != u64::MAX {
        let (byte, used) = symbol(window)?;
        if used > bits {
            return Err(CompressionError::Huffman);
        }
        put(out, length, byte);
        length += 1;
        window = (window << used) | (u64::MAX >> (64 - used));
        bits -= used;
    }
    Ok(length)
}

/// Returns the byte whose code the window begins with, and the length of that code.
#[inline(always)]
fn symbol(window: u64) -> Result<(u8, u32), CompressionError> {
    let (byte, bits) = SHORT_CODES[(window >> (64 - SHORT)) as usize];
    if bits != 0 { Ok((byte, u32::from(bits))) } else { long_symbol(window) }
}

/// Returns it for a code of more than eight bits.
fn long_symbol(window: u64) -> Result<(u8, u32), CompressionError> {
    let starts = CANON_TABLE.starts.iter().zip(CANON_TABLE.starts.iter().skip(1));
    for (bits, (start, next)) in (0u32..).zip(starts).skip(SHORT as usize + 1) {
        let code = (window >> (64 - bits)) as u32;
        // A longer code is not below the first code of the next length, cut to this one.
        if code < next.code >> 1 {
            let rank = (code - start.code) + start.rank;
            let symbol = CANON_TABLE.symbols.get(rank as usize).copied().unwrap_or(EOS);
            let byte = u8::try_from(symbol).map_err(|_| CompressionError::Huffman)?;
            return Ok((byte, bits));
        }
    }
    Err(CompressionError::Huffman)
}

#[inline(always)]
fn put(out: &mut [u8], at: usize, byte: u8) {
    if let Some(slot) = out.get_mut(at) {
        *slot = byte;
    }
}

/// Returns how many bytes the string takes in this code.
pub(crate) fn encoded_bytes(text: impl Iterator<Item = u8>) -> usize {
    let bits: usize = text.map(|byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of a string.
pub(crate) fn encode(out: &mut Vec<u8>, text: impl Iterator<Item = u8>) {
    let (mut window, mut bits) = (0u64, 0u32);
    for byte in text {
        let (code, length) = CODES[usize::from(byte)];
        window = (window << length) | u64::from(code);
        bits += u32::from(length);
        while bits >= 8 {
            bits -= 8;
            out.push((window >> bits) as u8);
        }
    }
    if bits > 0 {
        out.push(((window << (8 - bits)) | (0xff >> bits)) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, text.iter().copied());
        assert_eq!(out.len(), encoded_bytes(text.iter().copied()));
        out
    }

    fn decoded(code: &[u8]) -> Result<Vec<u8>, CompressionError> {
        let mut out = vec![0xaa; 2 * code.len() + 1];
        let length = decode(code, &mut out)?;
        assert!(out[length..].iter().all(|&byte| byte == 0xaa));
        out.truncate(length);
        Ok(out)
    }

    /// Rows of RFC 7541 Appendix B, one of each length there is.
    #[test]
    fn codes_of_the_appendix() {
        for (byte, code, bits) in [
            (b'0', 0x0, 5),
            (b' ', 0x14, 6),
            (b':', 0x5c, 7),
            (b'&', 0xf8, 8),
            (b'!', 0x3f8, 10),
            (b'+', 0x7fb, 11),
            (b'#', 0xffa, 12),
            (b'~', 0x1ffd, 13),
            (b'^', 0x3ffc, 14),
            (b'{', 0x7ffe, 15),
            (b'\\', 0x7fff0, 19),
            (128, 0xfffe6, 20),
            (153, 0x1f_ffdc, 21),
            (129, 0x3f_ffd2, 22),
            (1, 0x7f_ffd8, 23),
            (9, 0xff_ffea, 24),
            (199, 0x1ff_ffec, 25),
            (192, 0x3ff_ffe0, 26),
            (203, 0x7ff_ffde, 27),
            (2, 0xfff_ffe2, 28),
            (10, 0x3fff_fffc, 30),
            (13, 0x3fff_fffd, 30),
            (22, 0x3fff_fffe, 30),
        ] {
            assert_eq!(CODES[usize::from(byte)], (code, bits), "{byte}");
        }
    }

    #[test]
    fn every_byte_and_pair_round_trips_at_every_position() {
        for first in 0..=255 {
            for second in 0..=255 {
                for text in [&[first][..], &[first, second], &[first, b'0', second, b'a', first]] {
                    assert_eq!(decoded(&encoded(text)).unwrap(), text);
                }
            }
            let long = [first].repeat(50);
            assert_eq!(decoded(&encoded(&long)).unwrap(), long);
        }
        assert_eq!(decoded(b"").unwrap(), b"");
    }

    /// RFC 7541 §5.2: "Padding strictly longer than 7 bits MUST be treated as a decoding error.
    /// Padding not corresponding to the most significant bits of the code for the EOS symbol MUST
    /// be treated as a decoding error. A Huffman-encoded string literal containing the EOS symbol
    /// MUST be treated as a decoding error."
    #[test]
    fn padding_and_the_end_of_a_string() {
        // 'a' is 00011: three bits of padding.
        assert_eq!(decoded(&[0b0001_1111]).unwrap(), b"a");
        for padding in 0..7 {
            assert!(decoded(&[0b0001_1000 | padding]).is_err(), "{padding}");
        }
        // '&' is a whole byte.
        assert_eq!(decoded(&[0xf8]).unwrap(), b"&");
        for count in 1..12 {
            let ones = vec![0xff; count];
            assert_eq!(decoded(&ones), Err(CompressionError::Huffman));
            assert_eq!(decoded(&[&[0xf8], &ones[..]].concat()), Err(CompressionError::Huffman));
        }
        // The end of a string, and more of it.
        assert!(decoded(&[0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(decoded(&[0x00, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0]).is_err());
        // A long code that is cut off.
        let cut = encoded(b"\n");
        for bytes in 1..cut.len() {
            assert_eq!(decoded(&cut[..bytes]), Err(CompressionError::Huffman));
        }
    }

    /// Bytes that do not fit are counted nevertheless.
    #[test]
    fn a_small_output_buffer_counts_the_omitted_bytes() {
        let text = b"www.example.com/and so on";
        let code = encoded(text);
        for room in 0..text.len() {
            let mut out = vec![0; room];
            assert_eq!(decode(&code, &mut out), Ok(text.len()));
            assert_eq!(out, text[..room]);
        }
    }
}
