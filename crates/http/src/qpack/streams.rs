//! The encoder stream and the decoder stream of a peer (RFC 9204 §4.3, §4.4), where neither side
//! has a dynamic table.

/// Whether the next bytes of the peer's encoder stream are such as may come; else the connection
/// must close (RFC 9204 §6).
///
/// Where the capacity is 0, setting it to 0 is all that is left (RFC 9204 §3.2.3, §4.3.1): one byte
/// each time, so nothing needs to be remembered.
#[must_use]
pub fn encoder_stream(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0x20)
}

/// The reading end of the peer's decoder stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderStream {
    /// How many bytes of a number came that goes on, its first one counted.
    within: u8,
}

/// Bytes of the longest stream number: 62 bits, of which six are in the first byte.
const NUMBER_MAX_BYTES: u8 = 10;

impl DecoderStream {
    /// Reads the next bytes, wherever they were cut; false when they are not such as may come, and
    /// the connection must close (RFC 9204 §6).
    ///
    /// A peer may say that it cancelled a stream, even where no section needed the table
    /// (RFC 9204 §2.2.2.2, §4.4.2). Acknowledgements have nothing to refer to.
    #[must_use]
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            let goes_on = match (self.within, byte) {
                (0, 0x40..=0x7f) => byte == 0x7f,
                (0, _) | (NUMBER_MAX_BYTES.., _) => return false,
                _ => byte & 0x80 != 0,
            };
            self.within = if goes_on { self.within + 1 } else { 0 };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9204 §4.3: all four instructions, with the smallest numbers and strings.
    #[test]
    fn a_table_of_no_size_can_only_be_set_to_none() {
        assert!(encoder_stream(b""));
        assert!(encoder_stream(b"\x20\x20\x20"));
        for instruction in
            [&b"\x21"[..], b"\x3f\0", b"\x3f", b"\xc0\0", b"\x80\0", b"\x40\0", b"\0"]
        {
            assert!(!encoder_stream(instruction));
            assert!(!encoder_stream(&[b"\x20", instruction].concat()));
        }
    }

    /// RFC 9204 §4.4: cancellation is 01, acknowledgement 1, increment 00.
    #[test]
    fn only_cancellations_in_any_pieces() {
        let stream = [
            &b"\x40\x7e\x7f\x00\x7f\x01\x7f\x80\x00\x44"[..],
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
        ]
        .concat();
        for cut in 0..=stream.len() {
            let mut reader = DecoderStream::default();
            assert!(reader.read(&stream[..cut]) && reader.read(&stream[cut..]), "{cut}");
            assert!(!reader.read(b"\x80"), "{cut}");
        }
        for wrong in [0x80, 0xff, 0x00, 0x01, 0x3f] {
            assert!(!DecoderStream::default().read(&[wrong]));
            assert!(!DecoderStream::default().read(&[0x41, wrong]));
        }
        let endless = [&[0x7f][..], &[0x80; 10]].concat();
        assert!(!DecoderStream::default().read(&endless));
        assert!(DecoderStream::default().read(&endless[..10]));
    }
}
