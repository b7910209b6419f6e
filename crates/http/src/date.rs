//! Dates of fields: seconds since 1970 to IMF-fixdate and back (RFC 9110 §5.6.7).

/// Seconds since 1970-01-01 00:00:00 UTC, leap seconds not counted.
pub type UnixSeconds = i64;

/// Bytes of an IMF-fixdate.
pub const DATE_BYTES: usize = 29;

/// 0000-01-01 00:00:00, the first second [`format()`] can write.
pub const FIRST: UnixSeconds = -62_167_219_200;

/// 9999-12-31 23:59:59, the last second [`format()`] can write.
pub const LAST: UnixSeconds = 253_402_300_799;

/// Formats a time as `Sun, 06 Nov 1994 08:49:37 GMT`. Times outside of the years 0 to 9999 are
/// clamped.
#[inline]
#[must_use]
pub fn format(time: UnixSeconds) -> [u8; DATE_BYTES] {
    let mut text = TEMPLATE;
    write(&mut text, time);
    text
}

/// The template that [`write()`] completes: the bytes that are the same in every date.
pub const TEMPLATE: [u8; DATE_BYTES] = *b"Sat, 00 Jan 0000 00:00:00 GMT";

/// Writes a date over a [`TEMPLATE`] where it stands. Copying a date that was just written makes
/// the processor wait for its single bytes to be stored, so a response head is written in place.
#[inline]
pub fn write(text: &mut [u8; DATE_BYTES], time: UnixSeconds) {
    let (days, second) = days_and_seconds(time);
    let (year, month, day) = civil(days);
    let (minute, second) = (second / 60, second % 60);
    // 0000-01-01 was a Saturday in the proleptic calendar.
    put(text, 0, NAMES_FROM_SATURDAY[(days % 7) as usize]);
    put(text, 5, two_digits(day));
    put(text, 8, MONTHS[(month - 1) as usize]);
    put(text, 12, two_digits(year / 100));
    put(text, 14, two_digits(year % 100));
    put(text, 17, two_digits(minute / 60));
    put(text, 20, two_digits(minute % 60));
    put(text, 23, two_digits(second));
}

/// Formats a time as `1994-11-06T08:49:37`, the beginning of RFC 3339. Times outside of the years 0
/// to 9999 are clamped.
#[must_use]
pub fn iso(time: UnixSeconds) -> [u8; 19] {
    let (year, month, day, second) = split(time);
    let minute = second / 60;
    let pairs = [year / 100, year % 100, month, day, minute / 60, minute % 60, second % 60];
    let [y1, y2, month, day, hour, minute, second] = pairs.map(two_digits);
    let mut text = *b"yyyy-mm-ddThh:mm:ss";
    for (at, pair) in
        [(0, y1), (2, y2), (5, month), (8, day), (11, hour), (14, minute), (17, second)]
    {
        text[at..at + 2].copy_from_slice(&pair);
    }
    text
}

/// Reads a date in any of the three forms of RFC 9110 §5.6.7; `None` when it is none of them or
/// no day of the calendar. The name of the day is read but not compared with the date.
///
/// Parses a date. `now` gives a two-digit year its century: the date is at most 50 years ahead.
#[must_use]
pub fn parse(text: &[u8], now: UnixSeconds) -> Option<UnixSeconds> {
    imf_fixdate(text).or_else(|| asctime(text)).or_else(|| rfc850(text, now))
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`.
fn imf_fixdate(text: &[u8]) -> Option<UnixSeconds> {
    let text: &[u8; DATE_BYTES] = text.try_into().ok()?;
    let [n0, n1, n2, b',', b' ', d0, d1, b' ', m0, m1, m2, b' ', rest @ ..] = text else {
        return None;
    };
    let [y0, y1, y2, y3, b' ', time @ .., b' ', b'G', b'M', b'T'] = rest else { return None };
    short_day_name([*n0, *n1, *n2])?;
    let year = number(&[*y0, *y1, *y2, *y3])?;
    seconds(year, month([*m0, *m1, *m2])?, number(&[*d0, *d1])?, time_of_day(time)?)
}

/// Parses `Sun Nov  6 08:49:37 1994`.
fn asctime(text: &[u8]) -> Option<UnixSeconds> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let [n0, n1, n2, b' ', m0, m1, m2, b' ', d0, d1, b' ', rest @ ..] = text else { return None };
    let [time @ .., b' ', y0, y1, y2, y3] = rest else { return None };
    short_day_name([*n0, *n1, *n2])?;
    let day = if *d0 == b' ' { number(&[*d1])? } else { number(&[*d0, *d1])? };
    let year = number(&[*y0, *y1, *y2, *y3])?;
    seconds(year, month([*m0, *m1, *m2])?, day, time_of_day(time)?)
}

/// Parses `Sunday, 06-Nov-94 08:49:37 GMT`.
fn rfc850(text: &[u8], now: UnixSeconds) -> Option<UnixSeconds> {
    let comma = memchr::memchr(b',', text)?;
    let (name, rest) = text.split_at_checked(comma)?;
    if !LONG_DAY_NAMES.contains(&name) {
        return None;
    }
    let rest: &[u8; 24] = rest.try_into().ok()?;
    let [b',', b' ', d0, d1, b'-', m0, m1, m2, b'-', y0, y1, b' ', rest @ ..] = rest else {
        return None;
    };
    let [time @ .., b' ', b'G', b'M', b'T'] = rest else { return None };
    let (month, day) = (month([*m0, *m1, *m2])?, number(&[*d0, *d1])?);
    let time = time_of_day(time)?;
    let year_of_century = number(&[*y0, *y1])?;
    let (this_year, this_month, this_day, now_time) = split(now);
    let year = this_year - this_year % 100 + year_of_century;
    // RFC 9110 §5.6.7: more than 50 years in the future means the most recent year in the past
    // with the same two digits.
    let is_far = (year, month, day, time) > (this_year + 50, this_month, this_day, now_time);
    seconds(if is_far { year.checked_sub(100)? } else { year }, month, day, time)
}

const DAY_SECONDS: u64 = 86_400;

const NAMES_FROM_SATURDAY: [[u8; 3]; 7] =
    [*b"Sat", *b"Sun", *b"Mon", *b"Tue", *b"Wed", *b"Thu", *b"Fri"];

const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct",
    *b"Nov", *b"Dec",
];

/// Days since 0000-01-01 and seconds of the day, after clamping.
#[inline]
fn days_and_seconds(time: UnixSeconds) -> (u32, u32) {
    let since_year_zero = time.clamp(FIRST, LAST).abs_diff(FIRST);
    ((since_year_zero / DAY_SECONDS) as u32, (since_year_zero % DAY_SECONDS) as u32)
}

/// Returns year, month, day and second of the day.
fn split(time: UnixSeconds) -> (u32, u32, u32, u32) {
    let (days, second) = days_and_seconds(time);
    let (year, month, day) = civil(days);
    (year, month, day, second)
}

/// Returns year, month 1..=12 and day 1..=31 of a day counted from 0000-01-01.
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

/// Returns two decimal digits of a number below 100.
#[inline]
fn two_digits(value: u32) -> [u8; 2] {
    TWO_DIGITS[value as usize % TWO_DIGITS.len()]
}

/// The digits of each number. The length is a power of two, so that no access needs a check of the
/// length.
static TWO_DIGITS: [[u8; 2]; 128] = {
    let mut table = [[0; 2]; 128];
    let mut value = 0;
    while value < 100 {
        table[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    table
};

#[inline(always)]
fn put<const N: usize>(text: &mut [u8; DATE_BYTES], at: usize, piece: [u8; N]) {
    text[at..at + N].copy_from_slice(&piece);
}

/// Returns the time of a civil date; `None` when the calendar has no such day.
fn seconds(year: u32, month: u32, day: u32, time: u32) -> Option<UnixSeconds> {
    let is_leap = year.is_multiple_of(if year.is_multiple_of(100) { 400 } else { 4 });
    let month_days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day == 0 || day > month_days {
        return None;
    }
    // Years that begin in March, as in `civil`; one more era keeps January of year 0 positive.
    let year = year + 400 - u32::from(month <= 2);
    let month = if month <= 2 { month + 9 } else { month - 3 };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days + DAYS_BEFORE_MARCH_OF_LEAP_YEAR - DAYS_PER_ERA;
    Some(FIRST + i64::from(days) * DAY_SECONDS as i64 + i64::from(time))
}

/// Parses `08:49:37` to seconds. A leap second (60) counts as the first second of the next minute.
fn time_of_day(text: &[u8]) -> Option<u32> {
    let &[h0, h1, b':', m0, m1, b':', s0, s1] = text else { return None };
    let (hour, minute, second) = (number(&[h0, h1])?, number(&[m0, m1])?, number(&[s0, s1])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Digits only; at most four of them.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0'))
    })
}

/// Returns the number of a month, 1 to 12.
fn month(name: [u8; 3]) -> Option<u32> {
    (1..).zip(MONTHS).find(|&(_, month)| month == name).map(|(number, _)| number)
}

fn short_day_name(name: [u8; 3]) -> Option<()> {
    NAMES_FROM_SATURDAY.contains(&name).then_some(())
}

const LONG_DAY_NAMES: [&[u8]; 7] =
    [b"Saturday", b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday"];

#[cfg(test)]
mod tests;
