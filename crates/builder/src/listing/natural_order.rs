//! Names in the order that people expect: `b9` before `b10`, `Readme` beside `readme`.

use std::cmp::Ordering;

/// Runs of digits are compared as numbers, all else without regard to ASCII case; names that are
/// equal so, byte by byte.
pub(super) fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let order = match (left, right) {
            ([x, ..], [y, ..]) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (number, rest) = digits(left);
                left = rest;
                let (other, rest) = digits(right);
                right = rest;
                number.len().cmp(&other.len()).then_with(|| number.cmp(other))
            }
            ([x, rest @ ..], [y, others @ ..]) => {
                (left, right) = (rest, others);
                x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase())
            }
            _ => return left.len().cmp(&right.len()).then_with(|| a.cmp(b)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Returns the digits in front, without leading zeros, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (mut number, rest) = text.split_at(end);
    while let [b'0', shorter @ ..] = number {
        number = shorter;
    }
    (number, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_numbers_are_sorted_naturally() {
        let sorted = [
            "1",
            "01",
            "2",
            "10",
            "99999999999999999999999",
            "100000000000000000000000",
            "a",
            "A.txt",
            "a1b2",
            "a1b10",
            "a2",
            "B",
            "b",
            "é",
        ];
        let mut names = sorted;
        names.sort_by(|a, b| natural(a.as_bytes(), b.as_bytes()));
        let expected = ["01", "1", "2", "10"].into_iter().chain(sorted[4..].iter().copied());
        assert!(names.iter().copied().eq(expected), "{names:?}");
    }

    proptest! {
        #[test]
        fn natural_order_is_a_total_order(
            a in "[aAb019]{0,6}",
            b in "[aAb019]{0,6}",
            c in "[aAb019]{0,6}",
        ) {
            let (a, b, c) = (a.as_bytes(), b.as_bytes(), c.as_bytes());
            prop_assert_eq!(natural(a, b), natural(b, a).reverse());
            prop_assert_eq!(natural(a, b) == Ordering::Equal, a == b);
            if natural(a, b).is_le() && natural(b, c).is_le() {
                prop_assert!(natural(a, c).is_le());
            }
        }
    }
}
