//! Paths: RFC 3986 §2.1 and §5.2.4, segment by segment on a list.

use pinion_http::request_target::{PathError, decode_path};

/// Compares the results, and checks the properties that hold for every decoded path.
pub(crate) fn check(path: &[u8]) {
    let mut scratch = Vec::new();
    let found = decode_path(path, &mut scratch).map(<[u8]>::to_vec);
    assert_eq!(found, read(path), "{:?}", path.escape_ascii().to_string());

    let Ok(decoded) = found else { return };
    assert_eq!(decoded.first(), Some(&b'/'));
    assert!(decoded.len() <= path.len());
    let mut segments = decoded[1..].split(|&byte| byte == b'/');
    assert!(segments.all(|segment| segment != b"." && segment != b".."), "a dot segment is left");
    if decoded.contains(&0) {
        return; // Only a raw NUL can be there, which no target has; escaped it matches nothing.
    }
    // Escaped and decoded again it is the same path: decoding happened exactly once.
    let escaped = escape(&decoded);
    let again = decode_path(escaped.as_bytes(), &mut scratch).map(<[u8]>::to_vec);
    assert_eq!(again, Ok(decoded));
}

fn read(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let Some(relative) = path.strip_prefix(b"/") else { return Err(PathError::Malformed) };
    let raw: Vec<&[u8]> = relative.split(|&byte| byte == b'/').collect();
    let mut never_matches = false;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let last = raw.len() - 1;
    for (index, segment) in raw.into_iter().enumerate() {
        let (segment, in_no_key) = unescape(segment)?;
        never_matches |= in_no_key;
        if segment == b".." && kept.pop().is_none() {
            return Err(PathError::AboveRoot);
        }
        if segment == b"." || segment == b".." {
            // If it is the last segment, the slash before it stays.
            if index == last {
                kept.push(Vec::new());
            }
        } else {
            kept.push(segment);
        }
    }
    if never_matches {
        return Err(PathError::NeverMatches);
    }
    Ok(kept.into_iter().flat_map(|segment| [b"/".to_vec(), segment].concat()).collect())
}

/// Returns the segment, and whether it had an escaped slash or NUL.
fn unescape(segment: &[u8]) -> Result<(Vec<u8>, bool), PathError> {
    let mut out = Vec::new();
    let mut in_no_key = false;
    let mut at = 0;
    while at < segment.len() {
        if segment[at] != b'%' {
            out.push(segment[at]);
            at += 1;
            continue;
        }
        let digits = segment.get(at + 1..at + 3).ok_or(PathError::Malformed)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(PathError::Malformed);
        }
        let digits = std::str::from_utf8(digits).unwrap();
        in_no_key |= digits == "00" || digits.eq_ignore_ascii_case("2f");
        out.push(u8::from_str_radix(digits, 16).unwrap());
        at += 3;
    }
    Ok((out, in_no_key))
}

/// Writes everything but slashes as an escape.
fn escape(path: &[u8]) -> String {
    let piece = |&byte: &u8| if byte == b'/' { "/".into() } else { format!("%{byte:02x}") };
    path.iter().map(piece).collect()
}
