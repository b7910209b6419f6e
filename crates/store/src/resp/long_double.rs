//! Floating-point numbers with 64 bits of precision for `INCRBYFLOAT`, like the `long double` of
//! x86-64.
//!
//! A number is a mantissa times a power of two. Sums and parsed numbers are rounded to the nearest
//! one of 64 bits; the range is that of `long double`, but small numbers are not rounded further.

use super::wide_integer::WideInteger;
use crate::error::{Error, NOT_FINITE};

/// A floating-point number with 64 bits of precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongDouble {
    Finite(Finite),
    /// Infinity; the flag is true for negative infinity.
    Infinite(bool),
}

/// A mantissa, whose highest bit is set unless it is zero, times a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finite {
    is_negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// The exponent of two of the largest numbers.
const EXPONENT_MAX: i32 = 16384 - 64;
/// The least exponent of two of a number. A sum below it is zero, because the type has no bits for
/// it.
const EXPONENT_MIN: i32 = -16446 - 63;
/// Longest text of a number, in bytes, as in Redis.
const TEXT_MAX_BYTES: usize = 5 * 1024;

impl LongDouble {
    pub(crate) const ZERO: Self =
        Self::Finite(Finite { is_negative: false, mantissa: 0, exponent: 0 });

    /// Parses a number as `strtold` does: decimal, or hexadecimal with `0x`, or infinite.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_MAX_BYTES {
            return None;
        }
        let (is_negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite(is_negative));
        }
        match unsigned {
            [b'0', b'x' | b'X', digits @ ..] => parse_hexadecimal(is_negative, digits),
            _ => parse_decimal(is_negative, unsigned),
        }
    }

    pub(crate) fn is_finite(self) -> bool {
        matches!(self, Self::Finite(_))
    }

    /// Returns the text of the sum of two numbers: without an exponent, with 17 digits after the
    /// point, without trailing zeros.
    ///
    /// # Errors
    /// The sum is not finite.
    pub(crate) fn sum_text(self, other: Self) -> Result<String, Error> {
        let (Self::Finite(one), Self::Finite(two)) = (self, other) else {
            return Err(NOT_FINITE);
        };
        match one.sum(two) {
            Self::Finite(sum) => Ok(sum.text()),
            Self::Infinite(_) => Err(NOT_FINITE),
        }
    }
}

/// Splits digits with a point and an exponent. Returns the digits, the number of digits after the
/// point, and the exponent.
fn split(text: &[u8], radix: u32, exponent_mark: u8) -> Option<(Vec<u8>, i64, i64)> {
    let is_mark = |byte: &u8| byte.eq_ignore_ascii_case(&exponent_mark);
    let (number, exponent) = match text.iter().position(is_mark) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let (mut digits, mut behind_point, mut has_point) = (Vec::new(), 0, false);
    for &byte in number {
        if byte == b'.' && !has_point {
            has_point = true;
        } else {
            digits.push(char::from(byte).to_digit(radix)? as u8);
            behind_point += i64::from(has_point);
        }
    }
    if digits.is_empty() {
        return None;
    }
    let Some(exponent) = exponent else { return Some((digits, behind_point, 0)) };
    let (is_negative, exponent) = match exponent {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if exponent.is_empty() {
        return None;
    }
    let mut number = 0_i64;
    for &byte in exponent {
        /// A larger exponent than any number can have.
        const LARGEST: i64 = 1_000_000;
        let digit = char::from(byte).to_digit(10)?;
        number = (number * 10 + i64::from(digit)).min(LARGEST);
    }
    Some((digits, behind_point, if is_negative { -number } else { number }))
}

fn parse_decimal(is_negative: bool, text: &[u8]) -> Option<LongDouble> {
    let (digits, behind_point, exponent) = split(text, 10, b'e')?;
    let first = digits.iter().position(|&digit| digit != 0);
    let Some(first) = first else { return Some(zero(is_negative)) };
    let digits = &digits[first..];
    let power = exponent - behind_point;
    /// The largest exponent of ten of any number; `SMALLEST` is the least one. A text beyond either
    /// is out of range.
    const LARGEST: i64 = 4933;
    const SMALLEST: i64 = -4952;
    let magnitude = power + digits.len() as i64;
    if !(SMALLEST..=LARGEST).contains(&magnitude) {
        return None;
    }
    let mut number = WideInteger::from_digits(digits, 10);
    let power_of_ten = |power: i64| {
        let mut number = WideInteger::from(1);
        (0..power).for_each(|_| number.multiply_add(10, 0));
        number
    };
    if power >= 0 {
        (0..power).for_each(|_| number.multiply_add(10, 0));
        return rounded(is_negative, number.leading_bits(), false);
    }
    let mut divisor = power_of_ten(-power);
    // The shift is chosen so that the quotient has a few more than 64 bits.
    let shift = 66 + divisor.bits() as i64 - number.bits() as i64;
    if shift >= 0 {
        number.shift_left(shift as usize);
    } else {
        divisor.shift_left(shift.unsigned_abs() as usize);
    }
    let (quotient, has_remainder) = number.divide_to_128_bits(&divisor)?;
    let (mantissa, exponent, has_more) = WideInteger::from(quotient).leading_bits();
    let bits = (mantissa, exponent - shift, has_more);
    rounded(is_negative, bits, has_remainder)
}

fn parse_hexadecimal(is_negative: bool, text: &[u8]) -> Option<LongDouble> {
    let (digits, behind_point, exponent) = split(text, 16, b'p')?;
    if digits.iter().all(|&digit| digit == 0) {
        return Some(zero(is_negative));
    }
    let number = WideInteger::from_digits(&digits, 16);
    let (mantissa, own_exponent, has_more) = number.leading_bits();
    let bits = (mantissa, own_exponent + exponent - behind_point * 4, has_more);
    rounded(is_negative, bits, false)
}

fn zero(is_negative: bool) -> LongDouble {
    LongDouble::Finite(Finite { is_negative, mantissa: 0, exponent: 0 })
}

/// Rounds the first 128 bits of a number, which are followed by others if `has_more`, to 64 bits,
/// with ties to even. Returns `None` if there is no such number.
fn rounded(
    is_negative: bool,
    (bits, exponent, has_more): (u128, i64, bool),
    has_remainder: bool,
) -> Option<LongDouble> {
    let shift = bits.leading_zeros();
    let bits = bits << shift;
    let mut mantissa = (bits >> 64) as u64;
    let mut exponent = exponent - i64::from(shift) + 64;
    let rest = bits as u64;
    const HALF: u64 = 1 << 63;
    let is_above_half = rest > HALF || rest == HALF && (has_more || has_remainder);
    if is_above_half || rest == HALF && mantissa & 1 == 1 {
        let (sum, overflows) = mantissa.overflowing_add(1);
        mantissa = if overflows { HALF } else { sum };
        exponent += i64::from(overflows);
    }
    let exponent = i32::try_from(exponent).ok()?;
    if !(EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
        return None;
    }
    Some(LongDouble::Finite(Finite { is_negative, mantissa, exponent }))
}

impl Finite {
    fn sum(self, other: Self) -> LongDouble {
        let is_self_larger = other.mantissa == 0
            || self.mantissa != 0
                && (self.exponent, self.mantissa) >= (other.exponent, other.mantissa);
        let (large, small) = if is_self_larger { (self, other) } else { (other, self) };
        if small.mantissa == 0 {
            let is_negative = large.is_negative && (large.mantissa != 0 || small.is_negative);
            return LongDouble::Finite(Self { is_negative, ..large });
        }
        /// Number of guard bits below the mantissa during the calculation.
        const GUARD_BITS: u32 = 62;
        let one = u128::from(large.mantissa) << GUARD_BITS;
        let two = u128::from(small.mantissa) << GUARD_BITS;
        let shift = large.exponent.abs_diff(small.exponent);
        // Bits that are shifted out are combined into one sticky bit below all others.
        let shifted = two.checked_shr(shift).unwrap_or(0);
        let is_exact = shifted.checked_shl(shift).unwrap_or(0) == two && shift < u128::BITS;
        let two = shifted | u128::from(!is_exact);
        let is_sum = large.is_negative == small.is_negative;
        let bits = if is_sum { one + two } else { one - two };
        if bits == 0 {
            return LongDouble::ZERO;
        }
        let exponent = i64::from(large.exponent) - i64::from(GUARD_BITS);
        let sum = rounded(large.is_negative, (bits, exponent, false), false);
        let is_large = large.exponent > 0;
        let other =
            if is_large { LongDouble::Infinite(large.is_negative) } else { LongDouble::ZERO };
        sum.unwrap_or(other)
    }

    /// Returns the text with 17 digits after the point, without trailing zeros.
    fn text(self) -> String {
        const DIGITS: usize = 17;
        const SCALE: u128 = 100_000_000_000_000_000;
        let digits = if self.exponent >= 0 {
            let mut number = WideInteger::from(u128::from(self.mantissa));
            number.shift_left(self.exponent as usize);
            number.to_decimal() + &"0".repeat(DIGITS)
        } else {
            let scaled = u128::from(self.mantissa) * SCALE;
            let shift = self.exponent.unsigned_abs();
            let quotient = scaled.checked_shr(shift).unwrap_or(0);
            let remainder = scaled - quotient.checked_shl(shift).unwrap_or(0);
            let half = 1_u128.checked_shl(shift - 1);
            let is_up =
                half.is_some_and(|half| remainder > half || remainder == half && quotient & 1 == 1);
            format!("{:0>width$}", quotient + u128::from(is_up), width = DIGITS + 1)
        };
        let (whole, fraction) = digits.split_at(digits.len() - DIGITS);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        let is_zero = whole == "0" && fraction.is_empty();
        let sign = if self.is_negative && !is_zero { "-" } else { "" };
        format!("{sign}{whole}{point}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(one: &str, two: &str) -> Option<String> {
        let one = LongDouble::parse(one.as_bytes())?;
        one.sum_text(LongDouble::parse(two.as_bytes())?).ok()
    }

    const LONG: &str = "123456789012345678896802277657040928322355200";

    #[test]
    fn sums_are_those_of_redis() {
        // Results of redis-server 7.0.15.
        for (one, two, expected) in [
            ("0", "0.1", "0.1"),
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3.0", "1.000000000000000005", "4.00000000000000001"),
            ("-0", "0", "0"),
            ("1e-18", "0", "0"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("0x1p3", "0", "8"),
            ("1", "-1", "0"),
            ("841.92", "-841.75", "0.16999999999999998"),
            ("123456789012345678901234567890123456789012345.5", "0", LONG),
        ] {
            assert_eq!(sum(one, two).as_deref(), Some(expected), "{one} + {two}");
        }
        for text in ["", ".", "1e", "1e400000", "nan", "1x", " 1", "0x", "1e-5000"] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        let largest = "1.1897314953572317649e+4932";
        assert_eq!(sum(largest, largest), None);
        assert_eq!(sum("inf", "1"), None);
    }

    proptest! {
        /// Integers of up to 63 bits have exact sums.
        #[test]
        fn integers_have_exact_sums(one in any::<i64>(), two in any::<i64>()) {
            let (one, two) = (one / 2, two / 2);
            prop_assert_eq!(
                sum(&one.to_string(), &two.to_string()),
                Some((one + two).to_string())
            );
        }

        /// Decimal fractions of few digits have sums that are right to nearly all digits shown.
        #[test]
        fn short_fractions_have_right_sums(one in -99_999_i64..99_999, two in -99_999_i64..99_999) {
            let text = |number: i64| {
                let sign = if number < 0 { "-" } else { "" };
                let number = number.abs();
                format!("{sign}{}.{:02}", number / 100, number % 100)
            };
            let expected = text(one + two);
            let expected = expected.trim_end_matches('0').trim_end_matches('.');
            let shown = sum(&text(one), &text(two)).unwrap();
            // Hundreds have 54 bits behind the point, and a difference has no others.
            const PRECISION: f64 = 2e-16;
            let (shown, expected): (f64, f64) =
                (shown.parse().unwrap(), expected.parse().unwrap());
            prop_assert!((shown - expected).abs() <= PRECISION * expected.abs().max(1.0));
        }
    }
}
