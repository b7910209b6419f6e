//! Ranges: RFC 9110 §14.1.2 with wide numbers, and for short representations byte by byte.

use pinion_http::limits::RANGES_MAX;
use pinion_http::range::{ByteRange, Ranges, parse};

/// The first byte selects the length of the representation, and the rest is the value of the field.
pub(crate) fn check(data: &[u8]) {
    let [length, value @ ..] = data else { return };
    let length = match length {
        short @ 0..=199 => u64::from(*short),
        long => u64::MAX >> (long - 200),
    };
    let found = parse(value, length);
    let expected = read(value, length);
    match (&found, &expected) {
        (Ranges::Ignore, Reading::Ignore) | (Ranges::Unsatisfiable, Reading::Unsatisfiable) => {}
        (Ranges::Satisfiable(set), Reading::Wanted(wanted)) => compare(set.as_slice(), wanted),
        _ => panic!("found {found:?}, expected {expected:?}"),
    }
}

fn compare(found: &[ByteRange], wanted: &[(u64, u64)]) {
    assert!(!found.is_empty() && found.len() <= wanted.len());
    for (index, range) in found.iter().enumerate() {
        assert!(range.first <= range.last);
        for other in &found[index + 1..] {
            let apart = range.last.checked_add(1).is_some_and(|next| next < other.first)
                || other.last.checked_add(1).is_some_and(|next| next < range.first);
            assert!(apart, "{range:?} and {other:?} touch");
        }
        // It begins and ends where a wanted range does, so nothing was invented.
        assert!(wanted.iter().any(|&(first, _)| first == range.first));
        assert!(wanted.iter().any(|&(_, last)| last == range.last));
    }
    // Every wanted range is in exactly one of them, and they have the order of the request.
    let place = |&(first, last): &(u64, u64)| {
        found.iter().position(|range| range.first <= first && last <= range.last).expect("lost")
    };
    let mut places: Vec<usize> = Vec::new();
    for range in wanted {
        let place = place(range);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    assert_eq!(places, (0..found.len()).collect::<Vec<_>>(), "order");
    // Without gaps: each byte of a merged range is wanted. The ends of wanted ranges suffice.
    for range in found {
        let mut reached = range.first;
        while reached <= range.last {
            let next = wanted
                .iter()
                .filter(|&&(first, last)| first <= reached && reached <= last)
                .map(|&(_, last)| last)
                .max();
            reached = next.expect("a byte nobody asked for") + 1;
        }
    }
}

#[derive(Debug)]
enum Reading {
    Ignore,
    Unsatisfiable,
    /// The satisfiable ranges, clamped, in their order.
    Wanted(Vec<(u64, u64)>),
}

fn read(value: &[u8], length: u64) -> Reading {
    let Ok(value) = std::str::from_utf8(value) else { return Reading::Ignore };
    let Some((unit, set)) = value.split_once('=') else { return Reading::Ignore };
    if !unit.eq_ignore_ascii_case("bytes") {
        return Reading::Ignore;
    }
    let specs: Vec<&str> = set.split(',').map(|spec| spec.trim_matches([' ', '\t'])).collect();
    let specs: Vec<&str> = specs.into_iter().filter(|spec| !spec.is_empty()).collect();
    if specs.is_empty() || specs.len() > RANGES_MAX {
        return Reading::Ignore;
    }
    // An empty representation is sent as a whole, for any requested range.
    if length == 0 {
        return Reading::Ignore;
    }
    let length = u128::from(length);
    let mut wanted = Vec::new();
    for spec in specs {
        let Some((first, last)) = spec.split_once('-') else { return Reading::Ignore };
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Reading::Ignore;
        };
        let (first, last) = match (first, last) {
            (None, None) => return Reading::Ignore,
            (Some(first), Some(last)) if last < first => return Reading::Ignore,
            (Some(first), Some(last)) => (first, last.min(length - 1)),
            (Some(first), None) => (first, length - 1),
            (None, Some(0)) => (length, length - 1),
            (None, Some(suffix)) => (length.saturating_sub(suffix), length - 1),
        };
        if first < length {
            wanted.push((first as u64, last as u64));
        }
    }
    if wanted.is_empty() { Reading::Unsatisfiable } else { Reading::Wanted(wanted) }
}

/// Returns `Some(None)` when there is no number; beyond 30 digits all numbers are the same.
fn number(digits: &str) -> Option<Option<u128>> {
    if !digits.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    match (digits.is_empty(), significant.len()) {
        (true, _) => Some(None),
        (false, 0) => Some(Some(0)),
        // The crate reads all numbers beyond 64 bits as the largest of them.
        (false, _) => {
            let value = significant.parse::<u128>().unwrap_or(u128::MAX);
            Some(Some(value.min(u128::from(u64::MAX))))
        }
    }
}
