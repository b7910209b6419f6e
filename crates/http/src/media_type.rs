//! Media types (RFC 9110 §8.3.1): the few questions a static server asks about one.

/// A media type, split. Names compare without case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// `text` of `text/html; charset=utf-8`.
    pub top: &'a [u8],
    /// `html`.
    pub sub: &'a [u8],
    /// The parameters, such as `charset=utf-8`, without white space around them; empty when there
    /// are none.
    pub parameters: &'a [u8],
}

impl<'a> MediaType<'a> {
    /// Splits `type "/" subtype *( OWS ";" OWS parameter )`; `None` when that is not its form.
    /// Parameters are not checked.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<MediaType<'a>> {
        let (essence, parameters) = match memchr::memchr(b';', value) {
            Some(at) => (value.get(..at)?, value.get(at + 1..)?),
            None => (value, &[][..]),
        };
        let essence = crate::grammar::trim(essence);
        let slash = memchr::memchr(b'/', essence)?;
        let (top, sub) = (essence.get(..slash)?, essence.get(slash + 1..)?);
        if !crate::grammar::is_token(top) || !crate::grammar::is_token(sub) {
            return None;
        }
        Some(MediaType { top, sub, parameters: crate::grammar::trim(parameters) })
    }

    /// Returns whether it is this type, parameters aside.
    #[must_use]
    pub fn is(&self, top: &str, sub: &str) -> bool {
        self.top.eq_ignore_ascii_case(top.as_bytes())
            && self.sub.eq_ignore_ascii_case(sub.as_bytes())
    }

    /// Returns whether content of this type is JSON: `application/json`, or a type whose name ends
    /// in `+json` (RFC 6839 §3.1). The type of a range such as `*/*` is none.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let has_name = self.top != b"*" && !self.sub.starts_with(b"+");
        self.is("application", "json") || (has_name && self.has_suffix(b"json"))
    }

    fn has_suffix(&self, suffix: &[u8]) -> bool {
        memchr::memrchr(b'+', self.sub)
            .and_then(|at| self.sub.get(at + 1..))
            .is_some_and(|found| found.eq_ignore_ascii_case(suffix))
    }

    fn has_parameter(&self, name: &[u8]) -> bool {
        let mut rest = self.parameters;
        loop {
            let end = crate::grammar::find_unquoted(rest, b';').unwrap_or(rest.len());
            let parameter = crate::grammar::trim(rest.get(..end).unwrap_or_default());
            let key = parameter.split(|&byte| byte == b'=').next().unwrap_or_default();
            if key.eq_ignore_ascii_case(name) {
                return true;
            }
            match rest.get(end + 1..) {
                Some(next) => rest = next,
                None => return false,
            }
        }
    }
}

/// Returns whether content of this type usually gets smaller by a content coding: text, structured
/// text, and the binary formats without a compression of their own. The builder still keeps a
/// coding only when it saved enough.
#[must_use]
pub fn is_compressible(value: &[u8]) -> bool {
    let Some(media) = MediaType::parse(value) else { return false };
    media.top.eq_ignore_ascii_case(b"text")
        || [&b"json"[..], b"xml", b"text", b"yaml", b"json-seq"].iter().any(|s| media.has_suffix(s))
        || COMPRESSIBLE.iter().any(|(top, sub)| media.is(top, sub))
}

/// Returns whether the type must say `charset=utf-8`: text does, unless it says something already.
/// JSON has no such parameter and XML declares itself.
#[must_use]
pub fn needs_charset(value: &[u8]) -> bool {
    MediaType::parse(value).is_some_and(|media| {
        let is_text = media.top.eq_ignore_ascii_case(b"text")
            || media.is("application", "javascript")
            || media.is("application", "ecmascript");
        is_text && !media.has_parameter(b"charset")
    })
}

const COMPRESSIBLE: [(&str, &str); 34] = [
    ("application", "ecmascript"),
    ("application", "geo+json"),
    ("application", "javascript"),
    ("application", "json"),
    ("application", "json5"),
    ("application", "msword"),
    ("application", "n-triples"),
    ("application", "n-quads"),
    ("application", "pgp-keys"),
    ("application", "postscript"),
    ("application", "rtf"),
    ("application", "sql"),
    ("application", "toml"),
    ("application", "vnd.ms-excel"),
    ("application", "vnd.ms-fontobject"),
    ("application", "vnd.ms-opentype"),
    ("application", "vnd.ms-powerpoint"),
    ("application", "wasm"),
    ("application", "x-httpd-php"),
    ("application", "x-javascript"),
    ("application", "x-ndjson"),
    ("application", "x-sh"),
    ("application", "x-tar"),
    ("application", "xml"),
    ("application", "xml-dtd"),
    ("application", "yaml"),
    ("font", "collection"),
    ("font", "otf"),
    ("font", "ttf"),
    ("image", "bmp"),
    ("image", "vnd.microsoft.icon"),
    ("image", "x-icon"),
    ("image", "x-ms-bmp"),
    ("model", "gltf-binary"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §8.3.1.
    #[test]
    fn parts_of_a_type() {
        let html = MediaType::parse(b"Text/HTML ; Charset=\"utf-8\"").unwrap();
        assert!(html.is("text", "html"));
        assert_eq!(html.parameters, b"Charset=\"utf-8\"");
        assert_eq!(MediaType::parse(b"image/png").unwrap().parameters, b"");
        for bad in ["", "text", "/html", "text/", "te xt/html", "text/html/x", "text/\"html\""] {
            assert_eq!(MediaType::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn types_whose_content_is_json() {
        let is_json = |value: &str| MediaType::parse(value.as_bytes()).is_some_and(|t| t.is_json());
        for yes in [
            "application/json",
            "Application/JSON;charset=utf-8",
            "application/problem+json",
            "image/x.y+JSON ; a=b",
        ] {
            assert!(is_json(yes), "{yes}");
        }
        for no in [
            "text/json",
            "text/html",
            "json",
            "+json",
            "x+json",
            "/+json",
            "x/+json",
            "*/x+json",
            "application/jsonx",
            "application/a+json+xml",
            "application/*",
        ] {
            assert!(!is_json(no), "{no}");
        }
    }

    #[test]
    fn compressible_types_are_recognised() {
        for yes in [
            "text/html; charset=utf-8",
            "TEXT/CSS",
            "application/json",
            "application/ld+json",
            "image/svg+xml",
            "application/wasm",
            "font/ttf",
        ] {
            assert!(is_compressible(yes.as_bytes()), "{yes}");
        }
        for no in
            ["image/png", "font/woff2", "video/mp4", "application/zip", "application/gzip", ""]
        {
            assert!(!is_compressible(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn types_that_need_a_charset_are_recognised() {
        for yes in ["text/html", "text/plain; format=flowed", "application/javascript"] {
            assert!(needs_charset(yes.as_bytes()), "{yes}");
        }
        for no in [
            "text/html; charset=utf-8",
            "text/html;format=x; CHARSET=latin1",
            "application/json",
            "image/svg+xml",
            "text",
        ] {
            assert!(!needs_charset(no.as_bytes()), "{no}");
        }
        assert!(needs_charset(b"text/plain; x=\"; charset=\""));
    }
}
