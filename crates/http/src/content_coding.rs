//! Content codings (RFC 9110 §8.4.1).

/// A content coding a representation may be stored in. The numbers are part of the archive format
/// and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Coding {
    /// No coding.
    Identity = 0,
    /// `gzip`, RFC 1952.
    Gzip = 1,
    /// `br`, RFC 7932.
    Brotli = 2,
    /// `zstd`, RFC 8878, RFC 9659.
    Zstd = 3,
}

impl Coding {
    /// All codings, in the order of their numbers.
    pub const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// Returns the token of `Content-Encoding` and `Accept-Encoding`.
    #[must_use]
    pub const fn token(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// Returns the usual file name ending, without the dot; empty for identity.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Gzip => "gz",
            Coding::Brotli => "br",
            Coding::Zstd => "zst",
        }
    }

    /// Returns the coding of a token, case-insensitive, with `x-gzip` for `gzip` (RFC 9110
    /// §8.4.1.3).
    #[must_use]
    pub fn from_token(token: &[u8]) -> Option<Coding> {
        if token.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Coding::Gzip);
        }
        Coding::ALL.into_iter().find(|c| token.eq_ignore_ascii_case(c.token().as_bytes()))
    }

    /// Returns the coding of a stored number.
    #[inline]
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Coding> {
        match number {
            0 => Some(Coding::Identity),
            1 => Some(Coding::Gzip),
            2 => Some(Coding::Brotli),
            3 => Some(Coding::Zstd),
            _ => None,
        }
    }

    /// Returns the stored number.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Coding;

    #[test]
    fn numbers_and_tokens_round_trip() {
        for (number, coding) in (0..).zip(Coding::ALL) {
            assert_eq!(coding.number(), number);
            assert_eq!(Coding::from_number(number), Some(coding));
            assert_eq!(Coding::from_token(coding.token().as_bytes()), Some(coding));
        }
        assert_eq!(Coding::from_number(4), None);
    }

    /// RFC 9110 §8.4.1: "All content codings are case-insensitive"; §8.4.1.3: x-gzip is gzip.
    #[test]
    fn tokens_are_case_insensitive() {
        assert_eq!(Coding::from_token(b"GZip"), Some(Coding::Gzip));
        assert_eq!(Coding::from_token(b"X-GZIP"), Some(Coding::Gzip));
        assert_eq!(Coding::from_token(b"BR"), Some(Coding::Brotli));
        assert_eq!(Coding::from_token(b"deflate"), None);
        assert_eq!(Coding::from_token(b""), None);
    }
}
