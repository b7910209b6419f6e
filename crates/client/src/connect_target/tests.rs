//! Tests of URLs and of the targets that they name.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn read(url: &str) -> Result<String, UrlError> {
    ConnectTarget::from_url(url).map(|(target, rest)| format!("{target} {rest}"))
}

#[test]
fn urls_name_an_origin() {
    for (url, expected) in [
        ("http://example.org", "http://example.org "),
        ("http://example.org/", "http://example.org /"),
        ("HTTPS://Example.ORG/Path?q#f", "https://example.org /Path?q#f"),
        ("http://example.org?q=http://other/", "http://example.org ?q=http://other/"),
        ("http://example.org#@other", "http://example.org #@other"),
        ("http://example.org:80/", "http://example.org /"),
        ("http://example.org:/", "http://example.org /"),
        ("https://example.org:443", "https://example.org "),
        ("https://example.org:80", "https://example.org:80 "),
        ("http://example.org:65535", "http://example.org:65535 "),
        ("http://example.org:00081", "http://example.org:81 "),
        ("http://localhost:8080/x", "http://localhost:8080 /x"),
        ("http://my_host-1", "http://my_host-1 "),
        ("http://example.org.", "http://example.org "),
        ("http://192.0.2.1:8080", "http://192.0.2.1:8080 "),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1] /"),
        ("https://[::1]:8443", "https://[::1]:8443 "),
        ("http://[::ffff:192.0.2.1]:", "http://[::ffff:192.0.2.1] "),
        // UTS #46: lower case, Punycode; full-width characters are the ASCII ones.
        ("http://Bücher.example:81/ü", "http://xn--bcher-kva.example:81 /ü"),
        ("http://bücher。example", "http://xn--bcher-kva.example "),
        ("http://ｅxample.org", "http://example.org "),
        ("http://XN--bcher-KVA.example", "http://xn--bcher-kva.example "),
        ("http://１２７.0.0.1", "http://127.0.0.1 "),
        ("http://0x7f.1.example", "http://0x7f.1.example "),
    ] {
        assert_eq!(read(url).as_deref(), Ok(expected), "{url}");
    }
}

#[test]
fn refused_urls_name_the_reason() {
    let host = |text: &str| UrlError::Host(text.to_owned());
    let port = |text: &str| UrlError::Port(text.to_owned());
    let number = |text: &str| UrlError::NumericHost(text.to_owned());
    for (url, error) in [
        ("", UrlError::Scheme),
        ("example.org", UrlError::Scheme),
        ("http:/example.org", UrlError::Scheme),
        ("ftp://example.org", UrlError::Scheme),
        ("file:///etc/passwd", UrlError::Scheme),
        (" http://example.org", UrlError::Scheme),
        ("http://", UrlError::NoHost),
        ("http:///path", UrlError::NoHost),
        ("http://:80", UrlError::NoHost),
        ("http://user@example.org", UrlError::UserInformation),
        ("http://user:secret@example.org", UrlError::UserInformation),
        ("http://example.org@[::1]", UrlError::UserInformation),
        ("http://ü@example.org", UrlError::UserInformation),
        ("http://example.org:0", port("0")),
        ("http://example.org:65536", port("65536")),
        ("http://example.org:+80", port("+80")),
        ("http://example.org:80:80", port("80:80")),
        ("http://example.org:8 0", port("8 0")),
        ("http://[::1]:0", port("0")),
        ("http://::1", port(":1")),
        ("http://[::1", port(":1")),
        ("http://[::1]x", host("[::1]x")),
        ("http://[fe80::1%25eth0]", host("[fe80::1%25eth0]")),
        ("http://[v1.x]", host("[v1.x]")),
        ("http://[127.0.0.1]", host("[127.0.0.1]")),
        ("http://example.org\\@other", UrlError::UserInformation),
        ("http://example.org\\", host("example.org\\")),
        ("http://exam ple.org", host("exam ple.org")),
        ("http://example.org\r\nX: y", port(" y")),
        ("http://example.org\r\n", host("example.org\r\n")),
        ("http://a\0b", host("a\0b")),
        ("http://a..b", host("a..b")),
        ("http://.", host(".")),
        ("http://example%2eorg", host("example%2eorg")),
        ("http://a!b", host("a!b")),
        // Some programs read 127.0.0.1 here.
        ("http://127.1", number("127.1")),
        ("http://2130706433", number("2130706433")),
        ("http://0x7f000001", number("0x7f000001")),
        ("http://0177.0.0.1", number("0177.0.0.1")),
        ("http://127.0.0.1.", number("127.0.0.1.")),
        ("http://256.0.0.1", number("256.0.0.1")),
        ("http://1.2.3.4.5", number("1.2.3.4.5")),
        ("http://example.0X", number("example.0X")),
        ("http://１２７.1", number("127.1")),
        ("http://a.xn--", UrlError::International("a.xn--".into())),
        ("http://xn--a", UrlError::International("xn--a".into())),
        (
            "http://a\u{ad}b\u{fffd}.example",
            UrlError::International("a\u{ad}b\u{fffd}.example".into()),
        ),
    ] {
        assert_eq!(read(url), Err(error), "{url:?}");
    }
    let label = "x".repeat(LABEL_MAX_BYTES + 1);
    assert_eq!(
        read(&format!("http://{label}.org")),
        Err(UrlError::TooLong(format!("{label}.org")))
    );
    let longest = ["x".repeat(LABEL_MAX_BYTES).as_str(); 4].join(".");
    assert!(read(&format!("http://{}", &longest[2..])).is_ok(), "253 bytes");
    assert!(matches!(read(&format!("http://{longest}")), Err(UrlError::TooLong(_))));
}

#[test]
fn unix_sockets_have_absolute_paths() {
    let target = ConnectTarget::unix(Path::new("/run/app.sock")).expect("a path");
    assert_eq!(target.to_string(), "unix:/run/app.sock");
    assert_eq!((target.host_field().as_str(), target.is_tls()), ("localhost", false));
    assert_eq!(target.tls_server_name(), None);
    let longest = format!("/{}", "x".repeat(UNIX_PATH_MAX_BYTES - 1));
    assert!(ConnectTarget::unix(Path::new(&longest)).is_ok());
    let target = ConnectTarget::unix(Path::new("@app")).expect("an abstract name");
    assert_eq!(target.to_string(), "unix:@app");
    for path in ["", "app.sock", "@", "@a\0b", "/a\0b", &format!("{longest}x")] {
        let error = UrlError::UnixPath(path.to_owned());
        assert_eq!(ConnectTarget::unix(Path::new(path)), Err(error), "{path:?}");
    }
}

#[test]
fn certificates_are_for_the_host_of_the_url() {
    let name = |url| {
        let (target, _) = ConnectTarget::from_url(url).expect(url);
        target.tls_server_name().map(|name| name.to_str().into_owned())
    };
    assert_eq!(name("https://Example.org.:8443").as_deref(), Some("example.org"));
    assert_eq!(name("https://192.0.2.1").as_deref(), Some("192.0.2.1"));
    assert_eq!(name("https://[2001:db8::1]").as_deref(), Some("2001:db8::1"));
    assert_eq!(name("https://bücher.example").as_deref(), Some("xn--bcher-kva.example"));
    assert_eq!(name("http://example.org"), None);
    assert_eq!(name("https://-a.example"), None);
}

/// RFC 6761 §6.3: "localhost." and names below it.
#[test]
fn localhost_and_names_below_it_are_recognised() {
    let is_localhost = |name| HostName::parse(name).expect(name).is_localhost();
    for name in ["localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.localhost."] {
        assert!(is_localhost(name), "{name}");
    }
    for name in ["localhost.example", "notlocalhost", "localhost4", "local"] {
        assert!(!is_localhost(name), "{name}");
    }
}

#[test]
fn a_trailing_dot_makes_a_name_absolute() {
    let name = HostName::parse("Example.org.").expect("a name");
    assert_eq!((name.as_str(), name.is_absolute()), ("example.org", true));
    assert_ne!(name, HostName::parse("example.org").expect("a name"));
}

proptest! {
    /// A target that is read from a text is a valid authority of RFC 9110 (the other parser of the
    /// workspace agrees), is read back as the same target, and has no port 0.
    #[test]
    fn targets_round_trip(
        text in "(?i)https?://[a-z0-9.:\\[\\]@%_\\\\ü。１-]{0,20}[/?#a-z]{0,4}"
    ) {
        if let Ok((target, rest)) = ConnectTarget::from_url(&text) {
            let host = target.host_field();
            let split = pinion_http::host::split(host.as_bytes());
            prop_assert!(split.is_ok_and(|authority| authority.port != Some(0)), "{}", host);
            prop_assert!(text.ends_with(rest));
            let (again, _) = ConnectTarget::from_url(&target.to_string()).expect("its own text");
            prop_assert_eq!(again.to_string(), target.to_string());
        }
    }

    #[test]
    fn any_text_is_a_target_or_an_error(text in "\\PC{0,40}", host in "\\PC{0,20}") {
        let _ = ConnectTarget::from_url(&text);
        if let Ok((target, _)) = ConnectTarget::from_url(&format!("http://{host}")) {
            prop_assert!(target.host_field().is_ascii());
        }
    }

    /// No text that a resolver of the C library reads as an IPv4 address is a name.
    #[test]
    fn numbers_are_never_names(parts in prop::collection::vec("(0[xX])?[0-9a-fA-F]{1,8}", 1..5)) {
        let text = parts.join(".");
        let last = parts.last().expect("a part");
        if let Ok(name) = HostName::parse(&text) {
            let digits = last.to_ascii_lowercase();
            prop_assert!(digits.bytes().any(|b| !b.is_ascii_digit()), "{}", name);
            prop_assert!(!digits.starts_with("0x"), "{}", name);
        }
    }
}
