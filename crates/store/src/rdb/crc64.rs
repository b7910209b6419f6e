//! The checksum of payloads: CRC-64 by Jones, with reflected bits and without initial value.

/// The polynomial 0xad93d23594c935a9 with its bits reversed.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut rest = index as u64;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[index] = rest;
        index += 1;
    }
    table
};

/// Returns the CRC-64 checksum of bytes.
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |rest, &byte| TABLE[usize::from(rest as u8 ^ byte)] ^ rest >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc64_matches_the_published_check_value() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
