//! Values of fields that are joined into one (RFC 9110 §5.3).

use crate::grammar::list;

/// Fields whose values are lists of members that a comma ends, wherever it stands outside of
/// quotes. Others have commas of their own: dates, URLs, JSON.
const LISTS: [&[u8]; 13] = [
    b"Accept-CH",
    b"Access-Control-Allow-Headers",
    b"Access-Control-Allow-Methods",
    b"Access-Control-Expose-Headers",
    b"Cache-Control",
    b"Clear-Site-Data",
    b"Content-Language",
    b"Content-Security-Policy",
    b"Content-Security-Policy-Report-Only",
    b"Critical-CH",
    b"Permissions-Policy",
    b"Timing-Allow-Origin",
    b"Vary",
];

/// The fields among them whose members are equal in either case.
const IN_EITHER_CASE: [&[u8]; 5] = [
    b"Access-Control-Allow-Headers",
    b"Access-Control-Expose-Headers",
    b"Cache-Control",
    b"Content-Language",
    b"Vary",
];

/// Joins `value` to the value of the field `name` that begins in `out` at `from`, with a comma and
/// a space. Members of a list that are there already are left out, and so is a value of any other
/// field that is.
pub fn join(out: &mut Vec<u8>, from: usize, name: &[u8], value: &[u8]) {
    let known = out.get(from..).unwrap_or_default();
    if !is_in(&LISTS, name) {
        if !has_value(known, value) {
            push(out, from, value);
        }
        return;
    }
    let is_same = |one: &[u8], other: &[u8]| {
        if is_in(&IN_EITHER_CASE, name) { one.eq_ignore_ascii_case(other) } else { one == other }
    };
    let is_new = |(rank, member): (usize, &[u8])| {
        let mut before = list(known).chain(list(value).take(rank));
        !before.any(|other| is_same(other, member))
    };
    if list(value).enumerate().all(is_new) {
        return push(out, from, value);
    }
    for member in list(value) {
        let known = out.get(from..).unwrap_or_default();
        if !list(known).any(|other| is_same(other, member)) {
            push(out, from, member);
        }
    }
}

fn push(out: &mut Vec<u8>, from: usize, value: &[u8]) {
    if out.len() > from && !value.is_empty() {
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(value);
}

fn is_in(names: &[&[u8]], name: &[u8]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Returns whether a value is one of the joined ones.
fn has_value(known: &[u8], value: &[u8]) -> bool {
    let mut rest = known;
    loop {
        if let Some(behind) = rest.strip_prefix(value)
            && (behind.is_empty() || behind.starts_with(b", "))
        {
            return true;
        }
        let Some(comma) = rest.windows(2).position(|pair| pair == b", ") else { return false };
        rest = rest.get(comma + 2..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_values_are_returned_once() {
        for (name, known, value, expected) in [
            ("Vary", "Accept-Encoding", "Origin", "Accept-Encoding, Origin"),
            ("vary", "Accept-Encoding", "accept-encoding", "Accept-Encoding"),
            ("Vary", "Accept-Encoding", "Origin,accept-encoding", "Accept-Encoding, Origin"),
            ("Vary", "Accept-Encoding", "Origin,Cookie", "Accept-Encoding, Origin,Cookie"),
            ("Vary", "Accept-Encoding", "Origin, origin", "Accept-Encoding, Origin"),
            ("Cache-Control", "public, max-age=60", "PUBLIC, immutable", CACHED),
            ("Cache-Control", "no-cache=\"a, b\"", "b", "no-cache=\"a, b\", b"),
            ("Access-Control-Allow-Methods", "GET", "get, GET", "GET, get"),
            ("Access-Control-Allow-Origin", "*", "*", "*"),
            ("Access-Control-Allow-Origin", "https://a", "https://b", "https://a, https://b"),
            ("Link", "</a,b>; rel=x", "</a,c>; rel=x", "</a,b>; rel=x, </a,c>; rel=x"),
            ("Link", "</a>; rel=x, </b>; rel=x", "</b>; rel=x", "</a>; rel=x, </b>; rel=x"),
            ("X-A", "abc", "ab", "abc, ab"),
            ("X-A", "a, b, c", "b", "a, b, c"),
            ("X-A", "", "b", "b"),
            ("X-A", "a", "", "a"),
        ] {
            let mut out = [b"before ", known.as_bytes()].concat();
            join(&mut out, 7, name.as_bytes(), value.as_bytes());
            let joined = out.get(7..).unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(joined), expected, "{name}: {known} + {value}");
        }
    }

    const CACHED: &str = "public, max-age=60, immutable";
}
