//! The fields of a response as the client gets them (RFC 9110 §7.6).

use pinion_http::field::{Field, is_same_name};

use crate::field_changes::FieldChanges;
use crate::field_forwarding::{FieldClass, ListedNames};
use crate::path_prefix::PathRewrite;
use crate::upstream::{Upstream, UpstreamHost};
use crate::upstream_group::{PassedFields, UpstreamOptions};

/// The changes of the fields of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseChanges<'a> {
    changes: &'a FieldChanges,
    passed: PassedFields,
    location: Option<&'a [u8]>,
}

impl<'a> ResponseChanges<'a> {
    /// Changes fields as the options say. `location` takes the place of the value of `Location`.
    #[must_use]
    pub fn new(options: &'a UpstreamOptions, location: Option<&'a [u8]>) -> Self {
        Self { changes: &options.response_fields, passed: options.passed_fields, location }
    }

    /// Changes fields as an operator says, and passes those on that hold for the whole host.
    #[must_use]
    pub(crate) fn of(changes: &'a FieldChanges, passed: PassedFields) -> Self {
        Self { changes, passed, location: None }
    }

    fn is_forwarded(&self, name: &[u8]) -> bool {
        let is_passed = match FieldClass::of(name) {
            FieldClass::Other | FieldClass::Origin => true,
            FieldClass::Host if is_same_name(name, "Alt-Svc") => self.passed.alt_svc,
            FieldClass::Host => self.passed.hsts,
            FieldClass::Connection | FieldClass::Framing | FieldClass::Date => false,
        };
        is_passed && !self.changes.replace(name)
    }

    fn changed(&self, field: Field<'a>) -> Field<'a> {
        match self.location {
            Some(value) if field.name.eq_ignore_ascii_case(b"Location") => Field { value, ..field },
            _ => field,
        }
    }
}

/// Fields that most responses have at most, the defaults included.
const USUAL_FIELDS: usize = 24;

/// Returns the fields of a response that are forwarded, and after them those lines of `defaults`,
/// each with a name, a colon, a space and a value, that the response has no field of.
pub fn forwarded<'a>(
    fields: impl Iterator<Item = Field<'a>> + Clone,
    changes: ResponseChanges<'a>,
    defaults: &'a [u8],
) -> Vec<Field<'a>> {
    let listed = ListedNames::of(fields.clone());
    let is_forwarded =
        |field: &Field<'_>| changes.is_forwarded(field.name) && !listed.contain(field.name);
    let own = fields.filter(is_forwarded).map(|field| changes.changed(field));
    let mut forwarded = Vec::with_capacity(USUAL_FIELDS);
    forwarded.extend(own.chain(changes.changes.set_fields()));
    let own = forwarded.len();
    for default in lines(defaults) {
        let is_default = |field: &Field<'_>| field.name.eq_ignore_ascii_case(default.name);
        if !forwarded.iter().take(own).any(is_default) {
            forwarded.push(default);
        }
    }
    forwarded
}

/// Returns the fields of an interim response or of trailers that are forwarded: without those that
/// the operator removes, or sets in the final response.
pub fn forwarded_interim<'a>(
    fields: impl Iterator<Item = Field<'a>> + Clone,
    changes: &'a FieldChanges,
) -> impl Iterator<Item = Field<'a>> + Clone {
    let listed = ListedNames::of(fields.clone());
    let is_forwarded = move |field: &Field<'_>| {
        matches!(FieldClass::of(field.name), FieldClass::Other | FieldClass::Origin)
            && !listed.contain(field.name)
            && !changes.replace(field.name)
    };
    fields.filter(is_forwarded)
}

/// Returns the value of `Location` as the client gets it, if the upstream server means itself by
/// it: a path below its own path leads below the path of the mount, and its own host is left out.
/// `asked` is the host that the client asks for.
#[must_use]
pub fn location_for_client(
    value: &[u8],
    upstream: &Upstream,
    rewrite: Option<&PathRewrite>,
    asked: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let (origin, rest) = split_origin(value)?;
    let end = rest.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(rest.len());
    let (path, behind) = rest.split_at_checked(end)?;
    let path = if path.is_empty() { b"/" } else { path };
    let for_client = match rewrite {
        Some(rewrite) => rewrite.to_client(path)?,
        None => path.to_vec(),
    };
    let front: &[u8] = match origin {
        None => b"",
        Some(LocationOrigin { text, authority }) => {
            let is = |host: &[u8]| authority.eq_ignore_ascii_case(host);
            let own = match &upstream.host {
                UpstreamHost::Fixed(host) => host.as_bytes(),
                UpstreamHost::Client | UpstreamHost::Upstream => b"",
            };
            if asked.is_some_and(is) {
                text
            } else if is(upstream.url.authority().as_bytes()) || is(own) {
                b""
            } else {
                return None;
            }
        }
    };
    // Two slashes at the beginning would name a host, and browsers take a backslash for a slash
    // and leave out tabs and line ends (URL Standard §4.4).
    let is_unclear = |byte: &u8| *byte == b'\\' || byte.is_ascii_control();
    if front.is_empty() && (for_client.starts_with(b"//") || for_client.iter().any(is_unclear)) {
        return None;
    }
    let changed = [front, &for_client, behind].concat();
    (changed != value).then_some(changed)
}

/// The scheme and the host of a URL.
struct LocationOrigin<'v> {
    text: &'v [u8],
    authority: &'v [u8],
}

/// Splits the value of `Location` into its origin, if it has one, and the rest. Returns `None` for
/// a relative path and for other schemes.
fn split_origin(value: &[u8]) -> Option<(Option<LocationOrigin<'_>>, &[u8])> {
    if value.starts_with(b"/") && !value.starts_with(b"//") {
        return Some((None, value));
    }
    let has = |scheme: &&[u8]| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(has)?;
    let behind = value.get(scheme.len()..)?;
    let end = behind.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (authority, rest) = behind.split_at_checked(end.unwrap_or(behind.len()))?;
    let text = value.get(..scheme.len() + authority.len())?;
    Some((Some(LocationOrigin { text, authority }), rest))
}

/// Returns the fields of whole lines.
fn lines(text: &[u8]) -> impl Iterator<Item = Field<'_>> + Clone {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        Some(Field { name, value: value.get(1..)?.trim_ascii() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_prefix::PathPrefix;

    fn changed(
        fields: &[(&'static str, &'static str)],
        options: &UpstreamOptions,
        defaults: &'static str,
    ) -> String {
        let fields = fields
            .iter()
            .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() });
        let changes = ResponseChanges::new(options, None);
        let shown = forwarded(fields, changes, defaults.as_bytes()).into_iter().map(|field| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            format!("{}={}", text(field.name), text(field.value))
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn names(fields: &[(&'static str, &'static str)], defaults: &'static str) -> String {
        changed(fields, &UpstreamOptions::default(), defaults)
    }

    #[test]
    fn connection_and_host_fields_are_not_forwarded() {
        let fields = [
            ("Connection", "X-Hop"),
            ("X-Hop", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "3"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Alt-Svc", "h3=\":443\""),
            ("strict-transport-security", "max-age=1"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
        ];
        assert_eq!(names(&fields, ""), "Set-Cookie=a=1 Set-Cookie=b=2");
    }

    #[test]
    fn defaults_are_added_where_the_response_has_no_such_field() {
        let defaults = "X-Frame-Options: DENY\r\nStrict-Transport-Security: max-age=9\r\n";
        let fields =
            [("x-frame-options", "SAMEORIGIN"), ("Strict-Transport-Security", "max-age=1")];
        assert_eq!(
            names(&fields, defaults),
            "x-frame-options=SAMEORIGIN Strict-Transport-Security=max-age=9"
        );
    }

    #[test]
    fn fields_are_set_removed_and_passed_on() {
        let mut options = UpstreamOptions::default();
        options.response_fields.set("X-App", "pinion");
        options.response_fields.remove("X-Powered-By");
        let fields = [
            ("x-app", "node"),
            ("X-Powered-By", "node"),
            ("Alt-Svc", "h3=\":443\""),
            ("Strict-Transport-Security", "max-age=1"),
        ];
        assert_eq!(changed(&fields, &options, "X-App: default\r\n"), "X-App=pinion");
        options.passed_fields = PassedFields { alt_svc: true, hsts: false };
        assert_eq!(changed(&fields, &options, ""), "Alt-Svc=h3=\":443\" X-App=pinion");
        options.passed_fields = PassedFields { alt_svc: false, hsts: true };
        let defaults = "Strict-Transport-Security: max-age=9\r\n";
        let expected = "Strict-Transport-Security=max-age=1 X-App=pinion";
        assert_eq!(changed(&fields, &options, defaults), expected);
    }

    #[test]
    fn removed_fields_are_in_no_interim_response_and_no_trailers() {
        let mut changes = FieldChanges::default();
        changes.set("X-App", "pinion");
        changes.remove("X-Powered-By");
        let names = ["X-App", "Link", "x_powered_by", "X-Powered-By", "X-Sum", "Alt-Svc"];
        let fields = names.iter().map(|name| Field { name: name.as_bytes(), value: b"v" });
        let kept: Vec<&[u8]> =
            forwarded_interim(fields, &changes).map(|field| field.name).collect();
        assert_eq!(kept, [&b"Link"[..], b"X-Sum"]);
    }

    #[test]
    fn the_location_of_the_upstream_server_becomes_that_of_the_mount() {
        let rewrite = PathRewrite::new(PathPrefix::new("/api"), "/v1").expect("a path");
        let upstream = Upstream::parse("http://127.0.0.1:3000").expect("a URL");
        let location = |value: &str, rewrite| {
            let asked = Some(&b"example.org"[..]);
            let changed = location_for_client(value.as_bytes(), &upstream, rewrite, asked);
            changed.map(|value| String::from_utf8(value).expect("text"))
        };
        for (value, rewritten, plain) in [
            ("/v1/users?a#b", Some("/api/users?a#b"), None),
            ("/v1", Some("/api"), None),
            ("/v11", None, None),
            ("/login", None, None),
            ("users", None, None),
            ("http://127.0.0.1:3000/v1/x", Some("/api/x"), Some("/v1/x")),
            ("http://127.0.0.1:3000", None, Some("/")),
            ("http://127.0.0.1:3000?a", None, Some("/?a")),
            ("HTTPS://EXAMPLE.org/v1/x", Some("HTTPS://EXAMPLE.org/api/x"), None),
            ("https://example.org/x", None, None),
            ("https://other.example/v1/x", None, None),
            ("http://127.0.0.1:3001/v1/x", None, None),
            ("//127.0.0.1:3000/v1/x", None, None),
            ("http://127.0.0.1:3000//evil.example", None, None),
            ("http://127.0.0.1:3000/\\evil.example", None, None),
            ("http://127.0.0.1:3000/\t/evil.example", None, None),
            ("mailto:a@b", None, None),
        ] {
            assert_eq!(location(value, Some(&rewrite)).as_deref(), rewritten, "{value}");
            assert_eq!(location(value, None).as_deref(), plain, "{value}");
        }
        let fixed = Upstream { host: UpstreamHost::Fixed("app.internal".into()), ..upstream };
        let value = b"http://app.internal/v1/x";
        let changed = location_for_client(value, &fixed, Some(&rewrite), None);
        assert_eq!(changed.as_deref(), Some(&b"/api/x"[..]));
        // A mount at the root whose upstream server has a path.
        let below = PathRewrite::new(PathPrefix::new("/"), "/app").expect("a path");
        let changed = location_for_client(b"/app//evil.example", &fixed, Some(&below), None);
        assert_eq!(changed, None);
    }
}
