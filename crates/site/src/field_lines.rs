//! Lines of the fields of a response: their names and values, and whether a cache may store a
//! response with them.

use pinion_http::grammar;

/// Fields that say how long a response may be kept: a rule about a whole folder does not mean its
/// errors (docs/rules.md).
const STORING: [&[u8]; 2] = [b"Cache-Control", b"Expires"];

/// Returns whether two names of fields, or two directives, are the same.
pub(crate) fn is(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// Returns whether a field says how long a response may be kept.
pub(crate) fn is_storing(name: &[u8]) -> bool {
    STORING.iter().any(|other| is(name, other))
}

/// Returns whether a cache may store an error with these lines: nothing forbids it, or a field for
/// the caches of a CDN takes precedence (RFC 9213 §2.2).
pub(crate) fn may_be_stored(lines: &[u8]) -> bool {
    let mut is_forbidden = false;
    for (name, value) in lines.split_inclusive(|&byte| byte == b'\n').filter_map(split_line) {
        if is_for_shared_caches(name) {
            return true;
        }
        let mut directives = grammar::list(value);
        is_forbidden |= is(name, b"Cache-Control") && directives.any(|one| is(one, b"no-store"));
    }
    !is_forbidden
}

/// Returns whether a field takes precedence over `Cache-Control` in the caches of CDNs and proxies:
/// also the fields of one CDN, such as `Cloudflare-CDN-Cache-Control`.
fn is_for_shared_caches(name: &[u8]) -> bool {
    const TARGETED: &[u8] = b"CDN-Cache-Control";
    let end = name.len().checked_sub(TARGETED.len()).and_then(|at| name.get(at..));
    end.is_some_and(|end| is(end, TARGETED))
        || [&b"Surrogate-Control"[..], b"Edge-Control", b"X-Accel-Expires"]
            .iter()
            .any(|other| is(name, other))
}

/// Returns the first line with its end; `None` if there is no line.
pub(crate) fn first_line(lines: &[u8]) -> Option<&[u8]> {
    lines.split_inclusive(|&byte| byte == b'\n').next()
}

/// Returns the name and the value of a whole line.
pub(crate) fn split_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\r\n")?;
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((line.get(..colon)?, line.get(colon + 2..)?))
}

/// Returns whether one of these lines has this name.
pub(crate) fn has_line(lines: &[u8], name: &[u8]) -> bool {
    let mut lines = lines.split_inclusive(|&byte| byte == b'\n');
    lines.any(|line| split_line(line).is_some_and(|(other, _)| is(name, other)))
}

#[cfg(test)]
mod tests {
    use super::may_be_stored;

    #[test]
    fn errors_are_cacheable_unless_no_cache_may_store_them() {
        for (lines, expected) in [
            ("", true),
            ("X-A: 1\r\n", true),
            ("Cache-Control: no-store\r\n", false),
            ("cache-control: private, No-Store\r\nX-A: 1\r\n", false),
            ("Cache-Control: max-age=60\r\n", true),
            ("Cache-Control: no-store\r\nCDN-Cache-Control: max-age=60\r\n", true),
            ("Vercel-cdn-cache-control: max-age=60\r\nCache-Control: no-store\r\n", true),
            ("Cache-Control: no-store\r\nSurrogate-Control: max-age=60\r\n", true),
            ("Cache-Control: no-store\r\nX-Accel-Expires: 60\r\n", true),
            ("Cache-Control: no-store\r\nX-CDN: no\r\n", false),
        ] {
            assert_eq!(may_be_stored(lines.as_bytes()), expected, "{lines:?}");
        }
    }
}
