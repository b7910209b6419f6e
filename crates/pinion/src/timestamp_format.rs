//! Seconds in the spellings that logs and listings use, cut out of `Sun, 06 Nov 1994 08:49:37 GMT`,
//! so that the calendar itself stands in one place (`pinion_http::date`).

use pinion_http::date::{self, UnixSeconds};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the second of a time; 0 for one before 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> UnixSeconds {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(UnixSeconds::MAX)
}

/// Writes `06/Nov/1994:08:49:37 +0000`, as the common log format has it.
pub(crate) fn common_log(second: UnixSeconds) -> [u8; 26] {
    let [_, _, _, _, _, d1, d2, _, m1, m2, m3, _, y1, y2, y3, y4, _, time @ ..] =
        date::format(second);
    let mut common = *b"dd/mmm/yyyy:hh:mm:ss +0000";
    common[..11].copy_from_slice(&[d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4]);
    common[12..20].copy_from_slice(&time[..8]);
    common
}

/// Writes `1994-11-06T08:49:37Z` (RFC 3339).
pub(crate) fn rfc3339(second: UnixSeconds) -> String {
    let mut text = String::from_utf8_lossy(&date::iso(second)).into_owned();
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_formatted_as_common_log_and_rfc3339() {
        assert_eq!(&common_log(784_111_777), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn every_month_has_its_number() {
        // The 15th of each month of 1970, noon.
        let days = [14, 45, 73, 104, 134, 165, 195, 226, 257, 287, 318, 348];
        for (month, day) in (1..).zip(days) {
            let text = rfc3339(day * 86_400 + 43_200);
            assert_eq!(text, format!("1970-{month:02}-15T12:00:00Z"));
        }
    }
}
