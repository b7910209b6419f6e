//! The encoder stream and the decoder stream of a peer (RFC 9204 §4.3, §4.4), where this side has
//! no dynamic table.

use super::dynamic_encoder::Encoder;

/// Returns whether the next bytes of the peer's encoder stream are allowed; else the connection
/// must close (RFC 9204 §6).
///
/// Where the capacity is 0, setting it to 0 is all that is left (RFC 9204 §3.2.3, §4.3.1): one byte
/// each time, so nothing needs to be remembered.
#[must_use]
pub fn encoder_stream(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0x20)
}

/// The reading end of the peer's decoder stream, which acknowledges sections and entries of our
/// table.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderStream {
    /// Bytes of an instruction that have come and do not end it.
    within: u8,
    kind: Instruction,
    number: u64,
}

/// The instructions of a decoder (RFC 9204 §4.4).
#[derive(Clone, Copy, Debug, Default)]
enum Instruction {
    #[default]
    Acknowledge,
    Cancel,
    Increment,
}

/// Bytes of the longest number: 62 bits, of which six are in the first byte.
const NUMBER_MAX_BYTES: u8 = 10;

impl DecoderStream {
    /// Reads the next bytes, wherever they were cut. Returns false when they are invalid, and the
    /// connection must close (RFC 9204 §6): they acknowledge a section or an entry that was not
    /// sent.
    #[must_use]
    pub fn read(&mut self, bytes: &[u8], encoder: &mut Encoder) -> bool {
        bytes.iter().all(|&byte| self.read_byte(byte, encoder))
    }

    fn read_byte(&mut self, byte: u8, encoder: &mut Encoder) -> bool {
        let goes_on = if self.within == 0 {
            let (kind, prefix) = match byte {
                0x80.. => (Instruction::Acknowledge, 7),
                0x40.. => (Instruction::Cancel, 6),
                _ => (Instruction::Increment, 6),
            };
            let mask = (1 << prefix) - 1;
            // An instruction that cannot become valid is refused at its first byte.
            let is_possible = match kind {
                Instruction::Acknowledge => encoder.awaits_acknowledgement(),
                Instruction::Cancel => true,
                Instruction::Increment => encoder.awaits_increment(),
            };
            if !is_possible {
                return false;
            }
            (self.kind, self.number) = (kind, u64::from(byte & mask));
            byte & mask == mask
        } else {
            if self.within >= NUMBER_MAX_BYTES {
                return false;
            }
            self.number += u64::from(byte & 0x7f) << (7 * (self.within - 1));
            byte & 0x80 != 0
        };
        self.within = if goes_on { self.within + 1 } else { 0 };
        goes_on || self.execute(encoder)
    }

    fn execute(&self, encoder: &mut Encoder) -> bool {
        match self.kind {
            Instruction::Acknowledge => encoder.acknowledge(self.number),
            // A cancellation may name any stream (RFC 9204 §2.2.2.2).
            Instruction::Cancel => {
                encoder.cancel(self.number);
                true
            }
            Instruction::Increment => encoder.increment(self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9204 §4.3: all four instructions, with the smallest numbers and strings.
    #[test]
    fn the_zero_sized_table_accepts_only_capacity_zero() {
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
    fn without_sent_entries_only_cancellations_are_accepted() {
        let none = &mut Encoder::default();
        let stream = [
            &b"\x40\x7e\x7f\x00\x7f\x01\x7f\x80\x00\x44"[..],
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
        ]
        .concat();
        for cut in 0..=stream.len() {
            let mut reader = DecoderStream::default();
            assert!(
                reader.read(&stream[..cut], none) && reader.read(&stream[cut..], none),
                "{cut}"
            );
            assert!(!reader.read(b"\x80", none), "{cut}");
        }
        for wrong in [0x80, 0xff, 0x00, 0x01, 0x3f] {
            assert!(!DecoderStream::default().read(&[wrong], none));
            assert!(!DecoderStream::default().read(&[0x41, wrong], none));
        }
        let endless = [&[0x7f][..], &[0x80; 10]].concat();
        assert!(!DecoderStream::default().read(&endless, none));
        assert!(DecoderStream::default().read(&endless[..10], none));
    }
}
