//! Dates of fields: seconds since 1970 to IMF-fixdate and back (RFC 9110 §5.6.7).

/// Seconds since 1970-01-01 00:00:00 UTC, leap seconds not counted.
pub type UnixSeconds = i64;

/// Bytes of an IMF-fixdate.
pub const DATE_BYTES: usize = 29;

/// 0000-01-01 00:00:00, the first second [`format`] can write.
pub const FIRST: UnixSeconds = -62_167_219_200;

/// 9999-12-31 23:59:59, the last second [`format`] can write.
pub const LAST: UnixSeconds = 253_402_300_799;

/// Writes `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside of the years 0 to 9999 are clamped.
#[inline]
#[must_use]
pub fn format(time: UnixSeconds) -> [u8; DATE_BYTES] {
    let since_year_zero = time.clamp(FIRST, LAST).abs_diff(FIRST);
    let days = (since_year_zero / DAY) as u32;
    let second = (since_year_zero % DAY) as u32;
    let (year, month, day) = civil(days);

    let mut text = *b"Sat, 00 Jan 0000 00:00:00 GMT";
    // 0000-01-01 was a Saturday in the proleptic calendar.
    put(&mut text, 0, NAMES_FROM_SATURDAY[(days % 7) as usize]);
    put(&mut text, 5, two_digits(day));
    put(&mut text, 8, MONTHS[(month - 1) as usize]);
    put(&mut text, 12, two_digits(year / 100));
    put(&mut text, 14, two_digits(year % 100));
    put(&mut text, 17, two_digits(second / 3600));
    put(&mut text, 20, two_digits(second / 60 % 60));
    put(&mut text, 23, two_digits(second % 60));
    text
}

const DAY: u64 = 86_400;

const NAMES_FROM_SATURDAY: [[u8; 3]; 7] =
    [*b"Sat", *b"Sun", *b"Mon", *b"Tue", *b"Wed", *b"Thu", *b"Fri"];

const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct",
    *b"Nov", *b"Dec",
];

/// Year, month 1..=12 and day 1..=31 of a day counted from 0000-01-01.
///
/// Neri and Schneider, "Euclidean affine functions and their application to calendar algorithms"
/// (2023), proposition 6.3: years begin in March, so the leap day is the last one, and each
/// division by a constant is a multiplication.
#[inline]
fn civil(days: u32) -> (u32, u32, u32) {
    // One era of 400 years is added, so that days before March of year 0 stay positive.
    let day = days + DAYS_PER_ERA - DAYS_BEFORE_MARCH_OF_LEAP_YEAR;
    let quarters = 4 * day + 3;
    let century = quarters / DAYS_PER_ERA;
    let quarters = (quarters % DAYS_PER_ERA) | 3;
    let year_of_century = quarters / 1461;
    let day_of_year = quarters % 1461 / 4;
    let months = 2141 * day_of_year + 197_913;
    let month = months >> 16;
    let day = (months & 0xffff) / 2141 + 1;
    let after_december = u32::from(day_of_year >= 306);
    let year = 100 * century + year_of_century + after_december - 400;
    (year, month - 12 * after_december, day)
}

const DAYS_PER_ERA: u32 = 146_097;
const DAYS_BEFORE_MARCH_OF_LEAP_YEAR: u32 = 60;

#[inline]
fn two_digits(value: u32) -> [u8; 2] {
    let digit = |value: u32| b'0' + (value % 10) as u8;
    [digit(value / 10), digit(value)]
}

#[inline(always)]
fn put<const N: usize>(text: &mut [u8; DATE_BYTES], at: usize, piece: [u8; N]) {
    text[at..at + N].copy_from_slice(&piece);
}
