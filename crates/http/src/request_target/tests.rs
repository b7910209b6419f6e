//! RFC 9112 §3.2 (forms) and RFC 3986 §5.2.4 (dot segments).

use super::*;

fn get(raw: &str) -> Result<Target<'_>, TargetError> {
    Target::parse(Method::Get, raw.as_bytes())
}

#[test]
fn origin_form() {
    for (raw, path, query) in [
        ("/", "/", None),
        ("/where?q=now", "/where", Some("q=now")),
        ("/?", "/", Some("")),
        ("/a?b?c", "/a", Some("b?c")),
        ("//a//b", "//a//b", None),
        ("/%zz?%", "/%zz", Some("%")),
        ("/~u/-._!$&'()*+,;=:@", "/~u/-._!$&'()*+,;=:@", None),
        ("/?a[]=/:@", "/", Some("a[]=/:@")),
        ("/http://x/", "/http://x/", None),
    ] {
        let target = get(raw).unwrap();
        assert_eq!(target.form, Form::Origin, "{raw}");
        assert_eq!(target.raw, raw.as_bytes());
        assert_eq!(target.path, path.as_bytes(), "{raw}");
        assert_eq!(target.query, query.map(str::as_bytes), "{raw}");
        assert_eq!((target.authority, target.scheme), (None, None));
    }
}

/// A target has the unreserved and reserved characters of RFC 3986 §2 and "%", but no fragment (RFC
/// 9112 §3.2.1). In addition, it has the characters that the URL standard does not percent-encode
/// in a path, or in a query.
#[test]
fn bytes_of_a_target() {
    let uri = b"!$%&'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_\
                abcdefghijklmnopqrstuvwxyz~";
    for byte in 0..=255u8 {
        let is_target =
            |front: &[u8]| Target::parse(Method::Get, &[front, &[byte]].concat()).is_ok();
        let name = char::from(byte);
        let in_uri = uri.contains(&byte);
        assert_eq!(is_uri_byte(byte), in_uri, "{name:?}");
        assert_eq!(is_target(b"//"), in_uri || b"|^".contains(&byte), "{name:?} in a path");
        assert_eq!(is_target(b"/?"), in_uri || b"|^{}`\\".contains(&byte), "{name:?} in a query");
        assert_eq!(is_target(b"http://a/?"), is_target(b"/?"), "{name:?}");
    }
}

#[test]
fn a_query_does_not_excuse_the_path() {
    assert_eq!(get("/{a}?{b}"), Err(TargetError));
    let target = get("/a|b?{c}").unwrap();
    assert_eq!((target.path, target.query), (&b"/a|b"[..], Some(&b"{c}"[..])));
}

/// RFC 9112 §3.2.2: "a server MUST accept the absolute-form in requests".
#[test]
fn absolute_form() {
    for (raw, scheme, authority, path, query) in [
        ("http://a/", Scheme::Http, "a", "/", None),
        ("HTTP://A:80/b?c", Scheme::Http, "A:80", "/b", Some("c")),
        ("https://[::1]:8443", Scheme::Https, "[::1]:8443", "/", None),
        ("http://a?b", Scheme::Http, "a", "/", Some("b")),
        ("http://a//b", Scheme::Http, "a", "//b", None),
    ] {
        let target = get(raw).unwrap();
        assert_eq!(target.form, Form::Absolute, "{raw}");
        assert_eq!(target.scheme, Some(scheme), "{raw}");
        assert_eq!(target.authority, Some(authority.as_bytes()), "{raw}");
        assert_eq!(target.path, path.as_bytes(), "{raw}");
        assert_eq!(target.query, query.map(str::as_bytes), "{raw}");
    }
}

#[test]
fn malformed_targets_are_refused() {
    for raw in [
        "",
        "a",
        "index.html",
        "*",
        "**",
        "?a",
        "#",
        "http:/a",
        "http://",
        "http:///a",
        "http://u@a/",
        "http://u:p@a/",
        "http://a:b/",
        "http://a b/",
        "http://a/#b",
        "http://a#b",
        "http://[::1/",
        "ftp://a/",
        "a:80",
        "mailto:a@b",
        "\\",
        "/\\",
        "/a b",
        "/\u{fc}",
    ] {
        assert_eq!(get(raw), Err(TargetError), "{raw:?}");
    }
}

/// RFC 9112 §3.2.3: "used for CONNECT requests"; RFC 9110 §9.3.6: the port is not optional.
#[test]
fn authority_form() {
    let target = Target::parse(Method::Connect, b"a.example:443").unwrap();
    assert_eq!(target.form, Form::Authority);
    assert_eq!(target.authority, Some(&b"a.example:443"[..]));
    assert_eq!(target.path, b"");
    for raw in ["a", "a:", "/", "/a", "http://a/", "*", "u@a:1", ""] {
        let target = Target::parse(Method::Connect, raw.as_bytes());
        assert_eq!(target, Err(TargetError), "{raw}");
    }
}

/// RFC 9112 §3.2.4: "only used for a server-wide OPTIONS request", and the form that a proxy makes
/// of it.
#[test]
fn asterisk_form() {
    let star = Target::parse(Method::Options, b"*").unwrap();
    assert_eq!((star.form, star.path), (Form::Asterisk, &b"*"[..]));
    let whole_server = Target::parse(Method::Options, b"http://a:80").unwrap();
    assert_eq!((whole_server.form, whole_server.path), (Form::Asterisk, &b"*"[..]));
    assert_eq!(whole_server.authority, Some(&b"a:80"[..]));
    for raw in ["http://a/", "http://a?"] {
        let one = Target::parse(Method::Options, raw.as_bytes()).unwrap();
        assert_eq!((one.form, one.path), (Form::Absolute, &b"/"[..]), "{raw}");
    }
}

fn decode(path: &str) -> Result<String, PathError> {
    let mut scratch = Vec::new();
    let decoded = decode_path(path.as_bytes(), &mut scratch)?;
    Ok(String::from_utf8(decoded.to_vec()).unwrap())
}

#[test]
fn plain_paths_are_returned_unchanged() {
    for path in ["/", "/a", "/a/b.html", "/a.", "/a..b", "/a./b", "//", "/a//b/", "/[x]:@"] {
        let mut scratch = vec![0; 3];
        let decoded = decode_path(path.as_bytes(), &mut scratch).unwrap();
        assert_eq!(decoded, path.as_bytes());
        assert!(core::ptr::eq(decoded, path.as_bytes()), "{path} was copied");
    }
}

#[test]
fn escapes_are_decoded_once() {
    for (path, decoded) in [
        ("/%41", "/A"),
        ("/a%20b", "/a b"),
        ("/%7Euser", "/~user"),
        ("/%2541", "/%41"),
        ("/%252e%252e/", "/%2e%2e/"),
        ("/%c3%BC", "/ü"),
        ("/%3F%23", "/?#"),
        ("/a%5Cb", "/a\\b"),
        ("/%0A", "/\n"),
    ] {
        assert_eq!(decode(path).as_deref(), Ok(decoded), "{path}");
    }
}

#[test]
fn nested_escapes_are_decoded_completely() {
    for (path, decoded) in [
        ("/plain", "/plain"),
        ("/%41%2F", "/A/"),
        ("/%252e%252E", "/.."),
        ("/%25252541", "/A"),
        ("/%2525252541", "/%41"),
        ("/%", "/%"),
        ("/%4", "/%4"),
        ("/%zz%41", "/%zzA"),
    ] {
        assert_eq!(decode_repeatedly(path.as_bytes()), decoded.as_bytes(), "{path}");
    }
}

/// RFC 3986 §5.2.4; `%2E` is a dot because it is unreserved (§2.3).
#[test]
fn dot_segments_are_removed_once() {
    for (path, decoded) in [
        ("/.", "/"),
        ("/./", "/"),
        ("/./a", "/a"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/a/../b", "/b"),
        ("/a/b/c/./../../g", "/a/g"),
        ("/a//../b", "/a/b"),
        ("//..", "/"),
        ("//../a", "/a"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        ("/...", "/..."),
        ("/.../..", "/"),
        ("/.a", "/.a"),
        ("/..a/..", "/"),
        ("/a/.%252e/b", "/a/.%2e/b"),
    ] {
        assert_eq!(decode(path).as_deref(), Ok(decoded), "{path}");
    }
}

#[test]
fn above_the_root_is_bad() {
    for path in ["/..", "/../", "/a/../..", "/%2e%2e", "/./..", "/a/b/../../../c", "//../../a"] {
        assert_eq!(decode(path), Err(PathError::AboveRoot), "{path}");
    }
    assert_eq!(PathError::AboveRoot.status(), 400);
}

#[test]
fn broken_escapes_are_bad() {
    for path in ["/%", "/%4", "/%zz", "/%4g", "/a%", "/%%41", "/%+1", "", "a", "*", "%2f"] {
        assert_eq!(decode(path), Err(PathError::Malformed), "{path}");
    }
    assert_eq!(PathError::Malformed.status(), 400);
}

/// An escaped slash or NUL is in no key, at whatever position, but does not hide other errors.
#[test]
fn escaped_slash_and_nul_match_nothing() {
    for path in ["/a%2Fb", "/%2f", "/%00", "/a/..%2f", "/%2e%2e%2f", "/a%2fb/.."] {
        assert_eq!(decode(path), Err(PathError::NeverMatches), "{path}");
    }
    assert_eq!(PathError::NeverMatches.status(), 404);
    assert_eq!(decode("/a%2Fb/../.."), Err(PathError::AboveRoot));
    assert_eq!(decode("/%00%"), Err(PathError::Malformed));
}

#[test]
fn scratch_keeps_nothing_of_the_last_path() {
    let mut scratch = Vec::new();
    assert_eq!(decode_path(b"/%61/long/path", &mut scratch), Ok(&b"/a/long/path"[..]));
    assert_eq!(decode_path(b"/%62", &mut scratch), Ok(&b"/b"[..]));
    let capacity = scratch.capacity();
    assert_eq!(decode_path(b"/%63/d", &mut scratch), Ok(&b"/c/d"[..]));
    assert_eq!(scratch.capacity(), capacity);
}
