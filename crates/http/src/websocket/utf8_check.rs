//! Whether text that comes in pieces is UTF-8 (RFC 3629).

/// Most bytes of a character of which some are missing.
const PARTIAL_MAX_BYTES: usize = 3;

/// Checks text piece by piece. A byte that no text can have where it is fails at once, before the
/// character is complete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Utf8Check {
    /// The bytes of a character that is not complete, and one more.
    partial: [u8; PARTIAL_MAX_BYTES + 1],
    partial_bytes: usize,
}

/// The text is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUtf8;

impl Utf8Check {
    /// Checks the next piece.
    pub(super) fn push(&mut self, mut piece: &[u8]) -> Result<(), NotUtf8> {
        while self.partial_bytes > 0
            && let Some((&byte, rest)) = piece.split_first()
        {
            piece = rest;
            let Some(free) = self.partial.get_mut(self.partial_bytes) else { return Err(NotUtf8) };
            *free = byte;
            self.partial_bytes += 1;
            match core::str::from_utf8(self.partial()) {
                Ok(_) => self.partial_bytes = 0,
                Err(error) if error.error_len().is_some() => return Err(NotUtf8),
                Err(_) => {}
            }
        }
        let Err(error) = core::str::from_utf8(piece) else { return Ok(()) };
        if error.error_len().is_some() {
            return Err(NotUtf8);
        }
        let rest = piece.get(error.valid_up_to()..).unwrap_or_default();
        let Some(partial) = self.partial.get_mut(..rest.len()) else { return Err(NotUtf8) };
        partial.copy_from_slice(rest);
        self.partial_bytes = rest.len();
        Ok(())
    }

    /// Checks that the text may end here.
    pub(super) fn end(&self) -> Result<(), NotUtf8> {
        if self.partial_bytes == 0 { Ok(()) } else { Err(NotUtf8) }
    }

    fn partial(&self) -> &[u8] {
        self.partial.get(..self.partial_bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the position of the first byte after which the text cannot become UTF-8 any more.
    fn first_wrong(bytes: &[u8]) -> Option<usize> {
        (1..=bytes.len()).find(|&end| {
            let part = bytes.get(..end).unwrap_or_default();
            core::str::from_utf8(part).is_err_and(|error| error.error_len().is_some())
        })
    }

    fn check(bytes: &[u8], piece_bytes: usize) {
        let mut check = Utf8Check::default();
        let mut end = 0;
        for piece in bytes.chunks(piece_bytes) {
            let was_good = check.push(piece).is_ok();
            end += piece.len();
            let is_wrong = first_wrong(bytes).is_some_and(|wrong| wrong <= end);
            assert_eq!(was_good, !is_wrong, "{} up to {end}", bytes.escape_ascii());
            if is_wrong {
                return;
            }
        }
        let is_utf8 = core::str::from_utf8(bytes).is_ok();
        assert_eq!(check.end().is_ok(), is_utf8, "{}", bytes.escape_ascii());
    }

    proptest! {
        #[test]
        fn a_check_in_pieces_equals_a_check_of_the_whole(
            text in "\\PC{0,20}", noise in proptest::collection::vec(any::<u8>(), 0..4),
            at in 0_usize..30, piece_bytes in 1_usize..8,
        ) {
            let mut bytes = text.into_bytes();
            let at = at.min(bytes.len());
            bytes.splice(at..at, noise);
            check(&bytes, piece_bytes);
        }
    }

    /// Autobahn's cases 6.4 fail at the byte after which a character cannot be valid any more.
    #[test]
    fn an_invalid_byte_fails_within_its_character() {
        for (start, wrong) in [
            (&b"\xf4"[..], 0x90),
            (b"\xe0", 0x80),
            (b"\xed", 0xa0),
            (b"\xf0", 0x8f),
            (b"", 0xf5),
            (b"", 0xc1),
            (b"\xf0\x90", b'a'),
        ] {
            let mut check = Utf8Check::default();
            for byte in start {
                assert_eq!(check.push(&[*byte]), Ok(()));
            }
            assert_eq!(check.push(&[wrong]), Err(NotUtf8), "{start:x?} {wrong:x}");
        }
    }
}
