//! Reads values that are part of HTTP: hosts, paths, methods, fields, origins and protocols.

use super::parse_duration;
use crate::directives::Kind;
use crate::settings::{AltSvc, CanonicalHost, Spoken};
use pinion_engine::settings::Protocols;
use pinion_http::grammar::{is_token, is_value_byte};
use pinion_http::host;
use pinion_site::host_selection::HostPattern;

/// Reads a field value without anything that could end the field or start another one.
pub(crate) fn field_value(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("the value is empty; give one".to_owned());
    }
    let visible = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    if !visible || text.trim() != text {
        return Err(format!("{text:?} is not a header value: visible ASCII, no space at the ends"));
    }
    Ok(text.to_owned())
}

/// Reads the path of a request as clients send it, with nothing after it.
pub(crate) fn url_path(text: &str) -> Result<String, String> {
    let sent = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if !text.starts_with('/') || !text.bytes().all(sent) {
        return Err(format!("{text:?} is not a path of a URL: /healthz is one"));
    }
    Ok(text.to_owned())
}

/// Reads `example.org`, or `*.example.org` for all below.
pub(crate) fn host(text: &str) -> Result<HostPattern, String> {
    HostPattern::parse(text).map_err(|error| format!("{text:?} {error}"))
}

/// Reads `example.org`, `example.org:8443`: the host at which everything of a server is to be
/// found.
pub(crate) fn canonical_host(text: &str) -> Result<CanonicalHost, String> {
    let wrong = || format!("{text:?} is not a host: write example.org or example.org:8443");
    let split = host::split(text.as_bytes()).map_err(|_| wrong())?;
    let name = std::str::from_utf8(split.without_dot()).map_err(|_| wrong())?;
    HostPattern::parse(name).map_err(|_| wrong())?;
    if name.contains('*') || text.ends_with(':') || split.port == Some(0) {
        return Err(wrong());
    }
    Ok(CanonicalHost { host: name.to_ascii_lowercase(), port: split.port })
}

/// Reads `h1,h2,h3`: the protocols that clients of a listener may speak.
pub(crate) fn protocols(text: &str) -> Result<Spoken, String> {
    let mut spoken = Spoken { tcp: Protocols { http1: false, http2: false }, http3: false };
    for word in text.split(',') {
        let known = match word.trim() {
            "h1" => &mut spoken.tcp.http1,
            "h2" => &mut spoken.tcp.http2,
            "h3" => &mut spoken.http3,
            _ => return Err(format!("{word:?} is none of: {}", Kind::Protocols.bounds())),
        };
        if std::mem::replace(known, true) {
            return Err(format!("{word:?} is given twice"));
        }
    }
    Ok(spoken)
}

/// Reads a value of `Alt-Svc` (RFC 7838 §3), or `off`.
pub(crate) fn alt_svc(text: &str) -> Result<AltSvc, String> {
    if text == "off" {
        return Ok(AltSvc::Off);
    }
    let value = field_value(text)?;
    if text != "clear" && !text.contains('=') {
        return Err(format!("{text:?} names no service: write h3=\":443\"; ma=86400, or off"));
    }
    Ok(AltSvc::Value(value))
}

/// Reads the value of `Strict-Transport-Security` (RFC 6797 §6.1); `None` for `off`.
pub(crate) fn hsts(text: &str) -> Result<Option<String>, String> {
    /// The minimum of the preload lists of browsers.
    const PRELOAD_MIN_SECONDS: u64 = 31_536_000;
    if text == "off" {
        return Ok(None);
    }
    let mut words = text.split(',').map(str::trim);
    let age = words.next().unwrap_or_default();
    let whole = parse_duration(age).filter(|_| !age.ends_with("ms"));
    let whole =
        whole.ok_or_else(|| format!("{age:?} is not a duration: {}", Kind::Hsts.bounds()))?;
    let seconds = whole.as_secs();
    let mut value = format!("max-age={seconds}");
    match (words.next(), words.next(), words.next()) {
        (None, _, _) => {}
        (Some("subdomains"), None, _) => value.push_str("; includeSubDomains"),
        (Some("subdomains"), Some("preload"), None) if seconds >= PRELOAD_MIN_SECONDS => {
            value.push_str("; includeSubDomains; preload");
        }
        (Some("subdomains"), Some("preload"), None) => {
            return Err("preload needs a year or more: 1y,subdomains,preload".to_owned());
        }
        _ => return Err(format!("{text:?} is none of: {}", Kind::Hsts.bounds())),
    }
    Ok(Some(value))
}

/// Reads the name of a field.
pub(crate) fn field_name(text: &str) -> Result<String, String> {
    if is_token(text.as_bytes()) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not the name of a header: {}", Kind::FieldName.bounds()))
    }
}

/// Splits a header of a request into name and value.
///
/// # Errors
/// A phrase that names the fault.
pub(crate) fn header(text: &str) -> Result<(&str, &str), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} has no colon: write 'Accept-Encoding: br'"))?;
    let value = value.trim_matches([' ', '\t']);
    if !is_token(name.as_bytes()) {
        return Err(format!("{name:?} is not a valid name of a header"));
    }
    if value.bytes().all(is_value_byte) {
        Ok((name, value))
    } else {
        Err(format!("{value:?} is not a valid value of a header"))
    }
}

/// Checks that `text` is a method.
///
/// # Errors
/// A phrase that names the fault.
pub(crate) fn method(text: &str) -> Result<(), String> {
    if is_token(text.as_bytes()) {
        Ok(())
    } else {
        Err(format!("{text:?} is not a method: {}", Kind::Method.bounds()))
    }
}

/// Reads an origin of web pages, in the form that browsers send (RFC 6454 §6.2): scheme, host, and
/// the port if it is not that of the scheme.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let wrong = || format!("{text:?} is not an origin: {}", Kind::Origin.bounds());
    let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
    let own_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return Err(wrong()),
    };
    if let Some(front) = authority.strip_suffix('/') {
        return Err(format!("{text:?}: an origin has no path; write {scheme}://{front}"));
    }
    let split = host::split(authority.as_bytes()).map_err(|_| wrong())?;
    if split.port == Some(own_port) || authority.ends_with(':') {
        let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
        return Err(format!("{text:?}: browsers leave this port out; write {scheme}://{name}"));
    }
    if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let lower = authority.to_ascii_lowercase();
        return Err(format!("{text:?}: browsers write small letters; write {scheme}://{lower}"));
    }
    let is_host = !authority.is_empty() && !authority.contains(['*', '@', '%']);
    if is_host { Ok(text.to_owned()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hsts_value_becomes_a_field_value() {
        let value = |text| hsts(text).map(Option::unwrap_or_default);
        for (text, expected) in [
            ("off", ""),
            ("0s", "max-age=0"),
            ("2h", "max-age=7200"),
            ("1y", "max-age=31536000"),
            ("52w,subdomains", "max-age=31449600; includeSubDomains"),
            ("1y,subdomains,preload", "max-age=31536000; includeSubDomains; preload"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "y",
            "1",
            "+1y",
            "1 y",
            "-1d",
            "4294967296s",
            "1000ms",
            "1y,preload",
            "1y,subdomains,x",
            "364d,subdomains,preload",
            "1y,subdomains,preload,",
            "on",
            "\u{fc}",
        ] {
            assert!(hsts(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_canonical_host_is_one_host() {
        let shown = |text| canonical_host(text).map(|found| (found.host, found.port));
        assert_eq!(shown("Example.org."), Ok(("example.org".to_owned(), None)));
        assert_eq!(shown("a.org:8443"), Ok(("a.org".to_owned(), Some(8443))));
        assert_eq!(shown("[::1]:1"), Ok(("[::1]".to_owned(), Some(1))));
        for text in ["", "*.a.org", "a.org:", "a.org:0", "a.org:65536", "https://a", "a/b", "a b"] {
            assert!(canonical_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_of_protocols_names_each_once() {
        let spoken = |http1, http2, http3| Spoken { tcp: Protocols { http1, http2 }, http3 };
        assert_eq!(protocols("h2,h1, h3"), Ok(Spoken::ALL));
        assert_eq!(protocols("h1"), Ok(spoken(true, false, false)));
        assert_eq!(protocols("h2"), Ok(spoken(false, true, false)));
        assert_eq!(protocols("h3"), Ok(spoken(false, false, true)));
        for text in ["", "h1,", "h1,h1", "H1", "http/1.1"] {
            assert!(protocols(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_field_value_cannot_start_another_field() {
        assert!(field_value("public, max-age=60").is_ok());
        for text in ["", " a", "a ", "a\r\nSet-Cookie: b", "a\0", "ä"] {
            assert!(field_value(text).is_err(), "{text:?}");
        }
    }
}
