//! Parsing and formatting of numbers, as Redis does it.

/// Parses an integer in canonical form: no sign but `-`, no leading zero, no space.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // 19 digits are below 2^64.
        number = number * 10 + u64::from(digit - b'0');
    }
    if is_negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// Parses an integer that is not negative.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if text.len() <= 20 && text.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// Parses a floating-point number as `strtod` does: decimal, hexadecimal or infinite. Returns
/// `None` for NaN, and for numbers that are too large or too near to zero for the type.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    /// Number of digits up to which each integer is exact.
    const EXACT_DIGITS: usize = 15;
    if (1..=EXACT_DIGITS).contains(&text.len()) && text.iter().all(u8::is_ascii_digit) {
        let number = text.iter().fold(0_u64, |all, digit| all * 10 + u64::from(digit - b'0'));
        return Some(number as f64);
    }
    let (is_negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let number = match unsigned {
        [b'0', b'x' | b'X', digits @ ..] => parse_hexadecimal(digits)?,
        [b'0'..=b'9' | b'.', ..] => {
            let number: f64 = std::str::from_utf8(unsigned).ok()?.parse().ok()?;
            let mut mantissa = unsigned.iter().take_while(|it| !matches!(it, b'e' | b'E'));
            let is_zero = mantissa.all(|it| matches!(it, b'0' | b'.'));
            Some(number).filter(|it| it.is_finite() && (*it != 0.0 || is_zero))?
        }
        _ => {
            let is = |name: &[u8]| unsigned.eq_ignore_ascii_case(name);
            (is(b"inf") || is(b"infinity")).then_some(f64::INFINITY)?
        }
    };
    Some(if is_negative { -number } else { number })
}

/// Parses hexadecimal digits with a point and an exponent of two, without `0x`. Digits beyond the
/// precision of the type are cut off.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let exponent_at = text.iter().position(|it| matches!(it, b'p' | b'P'));
    let (digits, mut exponent) = match exponent_at {
        None => (text, 0),
        Some(at) => {
            let exponent = text[at + 1..].strip_prefix(b"+").unwrap_or(&text[at + 1..]);
            let exponent = std::str::from_utf8(exponent).ok()?.parse::<i32>().ok()?;
            (&text[..at], exponent)
        }
    };
    let (mut mantissa, mut has_digits, mut is_fraction) = (0_u64, false, false);
    for &byte in digits {
        if byte == b'.' && !is_fraction {
            is_fraction = true;
            continue;
        }
        let digit = char::from(byte).to_digit(16)?;
        has_digits = true;
        // Sixty bits are more than the precision of the type.
        let fits = mantissa >> 56 == 0;
        if fits {
            mantissa = mantissa << 4 | u64::from(digit);
        }
        let shift = i32::from(!fits) - i32::from(is_fraction);
        exponent = exponent.checked_add(shift * 4)?;
    }
    let number = mantissa as f64 * 2_f64.powi(exponent);
    (has_digits && number.is_finite()).then_some(number)
}

/// The text of an integer.
pub(crate) struct IntegerText {
    bytes: [u8; 20],
    start: usize,
}

impl IntegerText {
    pub(crate) fn new(number: i64) -> Self {
        let mut text = Self::unsigned(number.unsigned_abs());
        if number < 0 {
            text.start -= 1;
            text.bytes[text.start] = b'-';
        }
        text
    }

    pub(crate) fn unsigned(mut number: u64) -> Self {
        let mut bytes = [0; 20];
        let mut start = bytes.len();
        loop {
            start -= 1;
            bytes[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { bytes, start };
            }
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_canonical_integers_are_parsed() {
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "0x1"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
    }

    #[test]
    fn floating_point_numbers_are_parsed_in_all_forms_of_redis() {
        for (text, number) in [
            ("1", 1.0),
            ("-1.5e3", -1500.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("iNf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e999", 0.0),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(number), "{text}");
        }
        let others = [
            "", "+", "++1", "--inf", "nan", "1e400", "1e-400", "0x", "0xp1", "1 ", " 1", "1x", ".",
            "1e", "e1",
        ];
        for text in others {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_f64(b"-0").map(f64::to_bits), Some((-0.0_f64).to_bits()));
    }

    proptest! {
        #[test]
        fn integers_are_read_as_they_are_written(number in any::<i64>()) {
            let text = IntegerText::new(number);
            prop_assert_eq!(text.as_bytes(), number.to_string().into_bytes());
            prop_assert_eq!(parse_i64(text.as_bytes()), Some(number));
        }

        #[test]
        fn digits_are_parsed_to_the_nearest_number(text in "[0-9]{1,20}") {
            prop_assert_eq!(parse_f64(text.as_bytes()), text.parse::<f64>().ok());
        }
    }
}
