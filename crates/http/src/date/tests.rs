//! RFC 9110 §5.6.7, against a calendar that counts day by day.

use super::*;

/// 784 111 777, the date of all examples in RFC 9110 §5.6.7.
const EXAMPLE: UnixSeconds = 784_111_777;

fn text(time: UnixSeconds) -> String {
    String::from_utf8(format(time).to_vec()).unwrap()
}

#[test]
fn the_example_in_all_three_forms() {
    assert_eq!(text(EXAMPLE), "Sun, 06 Nov 1994 08:49:37 GMT");
    for form in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        assert_eq!(parse(form.as_bytes(), EXAMPLE), Some(EXAMPLE), "{form}");
    }
}

/// The plain model: walk every day from 1970 to 2400 with the rules every child knows.
#[test]
fn every_day_from_1970_to_2400() {
    const NAMES: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const LONG: [&str; 7] =
        ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    const MONTHS: [(&str, u32); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let mut days: i64 = 0;
    for year in 1970..=2400u32 {
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        for (month, (month_name, length)) in MONTHS.iter().enumerate() {
            let length = length + u32::from(leap && month == 1);
            for day in 1..=length {
                // Another second of the day for every day.
                let second = (days * 7919) % 86_400;
                let time = days * 86_400 + second;
                let clock =
                    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
                let weekday = (days % 7) as usize;
                let name = NAMES[weekday];

                let fixdate = format!("{name}, {day:02} {month_name} {year} {clock} GMT");
                assert_eq!(text(time), fixdate);
                assert_eq!(parse(fixdate.as_bytes(), 0), Some(time), "{fixdate}");
                let asctime = format!("{name} {month_name} {day:>2} {clock} {year}");
                assert_eq!(parse(asctime.as_bytes(), 0), Some(time), "{asctime}");
                let long = LONG[weekday];
                let rfc850 = format!("{long}, {day:02}-{month_name}-{:02} {clock} GMT", year % 100);
                assert_eq!(parse(rfc850.as_bytes(), time), Some(time), "{rfc850}");
                days += 1;
            }
        }
    }
    assert_eq!(days, 157_420);
}

#[test]
fn iso_dates_match_unix_times() {
    for (time, iso) in [
        (784_111_777, b"1994-11-06T08:49:37"),
        (951_782_400, b"2000-02-29T00:00:00"),
        (-1, b"1969-12-31T23:59:59"),
        (FIRST - 1, b"0000-01-01T00:00:00"),
        (LAST + 1, b"9999-12-31T23:59:59"),
    ] {
        assert_eq!(&crate::date::iso(time), iso);
    }
}

/// RFC 9110 §5.6.7: a two-digit year "that appears to be more than 50 years in the future" is
/// "the most recent year in the past that had the same last two digits".
#[test]
fn two_digit_years() {
    let noon = |fixdate: &str| parse(fixdate.as_bytes(), 0).unwrap();
    for (now, two_digits, expected) in [
        ("Wed, 15 Jan 2025 12:00:00 GMT", "Monday, 01-Jan-24 00:00:00 GMT", 2024),
        ("Wed, 15 Jan 2025 12:00:00 GMT", "Monday, 01-Jan-75 00:00:00 GMT", 2075),
        ("Wed, 15 Jan 2025 12:00:00 GMT", "Tuesday, 15-Jan-75 12:00:00 GMT", 2075),
        ("Wed, 15 Jan 2025 12:00:00 GMT", "Tuesday, 15-Jan-75 12:00:01 GMT", 1975),
        ("Wed, 15 Jan 2025 12:00:00 GMT", "Monday, 01-Jan-76 00:00:00 GMT", 1976),
        ("Wed, 15 Jan 2025 12:00:00 GMT", "Monday, 01-Jan-99 00:00:00 GMT", 1999),
        ("Wed, 15 Jan 1999 12:00:00 GMT", "Monday, 01-Jan-00 00:00:00 GMT", 1900),
        ("Wed, 15 Jan 1999 12:00:00 GMT", "Monday, 01-Jan-99 00:00:00 GMT", 1999),
    ] {
        let parsed = parse(two_digits.as_bytes(), noon(now)).unwrap();
        assert_eq!(&text(parsed)[12..16], expected.to_string(), "{two_digits} seen from {now}");
    }
}

#[test]
fn malformed_dates_are_refused() {
    for bad in [
        "",
        "0",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 1995 08:49:37 GMT",
        "Thu, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sonday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov 06 08:49:37 1994 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  0 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "9999999999",
    ] {
        assert_eq!(parse(bad.as_bytes(), EXAMPLE), None, "{bad:?}");
    }
}

/// RFC 9110 §5.6.7: second = 2DIGIT; a leap second has number 60.
#[test]
fn leap_second_and_leap_day() {
    let leap = parse(b"Sat, 31 Dec 2016 23:59:60 GMT", 0);
    assert_eq!(leap, parse(b"Sun, 01 Jan 2017 00:00:00 GMT", 0));
    assert!(leap.is_some());
    assert_eq!(parse(b"Tue, 29 Feb 2000 00:00:00 GMT", 0), Some(951_782_400));
}

#[test]
fn the_ends_of_the_calendar() {
    assert_eq!(text(FIRST), "Sat, 01 Jan 0000 00:00:00 GMT");
    assert_eq!(text(LAST), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(text(FIRST - 1), text(FIRST));
    assert_eq!(text(LAST + 1), text(LAST));
    assert_eq!(text(i64::MIN), text(FIRST));
    assert_eq!(text(i64::MAX), text(LAST));
    assert_eq!(text(-1), "Wed, 31 Dec 1969 23:59:59 GMT");
    for time in [FIRST, FIRST + 60 * 86_400, -1, 0, LAST] {
        assert_eq!(parse(&format(time), 0), Some(time));
    }
    // No two-digit year has a year before the first one.
    assert_eq!(parse(b"Sunday, 06-Nov-94 08:49:37 GMT", i64::MIN), None);
    assert!(parse(b"Sunday, 06-Nov-94 08:49:37 GMT", i64::MAX).is_some());
}

proptest::proptest! {
    #[test]
    fn every_second_round_trips(time in FIRST..=LAST) {
        proptest::prop_assert_eq!(parse(&format(time), 0), Some(time));
    }

    #[test]
    fn no_text_panics(text: Vec<u8>, now: i64) {
        let _ = parse(&text, now);
    }

    #[test]
    fn nearly_dates_do_not_panic(text in "[A-Za-z]{3,9},? [0-9 ]{2}[ -][A-Z][a-z]{2}[ -][0-9]{2,4} \
                                          [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT)?", now: i64) {
        let _ = parse(text.as_bytes(), now);
    }
}
