//! Decides which fields are forwarded (RFC 9110 §7.6.1).

use pinion_http::field::{Field, is_same_name};

/// The way in which a proxy treats a field because of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldClass {
    /// It is for the next server or the client alone, in either direction.
    Connection,
    /// It frames the message, which is done anew.
    Framing,
    /// `Date`, which this server writes into its responses.
    Date,
    /// It says where a request comes from, or where it is to go: values from clients are not
    /// believed.
    Origin,
    /// A response says it about the whole host, for which the site decides.
    Host,
    /// It is forwarded.
    Other,
}

impl FieldClass {
    /// Returns the class of a name. `_` counts as `-`, since programs behind a gateway cannot tell
    /// them apart (RFC 3875 §4.1.18).
    pub(crate) fn of(name: &[u8]) -> Self {
        let is = |known: &str| is_same_name(name, known);
        let any = |known: &[&str]| known.iter().any(|known| is_same_name(name, known));
        // The length distinguishes most names from all of these.
        match name.len() {
            2 if is("TE") => Self::Connection,
            3 if is("Via") => Self::Origin,
            4 if is("Host") => Self::Framing,
            4 if is("Date") => Self::Date,
            // Programs take it for the address of a proxy (CVE-2016-5385).
            5 if is("Proxy") => Self::Origin,
            6 if is("Expect") => Self::Framing,
            7 if is("Upgrade") => Self::Connection,
            7 if is("Trailer") => Self::Framing,
            7 if is("Alt-Svc") => Self::Host,
            9 if is("Forwarded") => Self::Origin,
            10 if any(&["Connection", "Keep-Alive"]) => Self::Connection,
            12 if is("Max-Forwards") => Self::Origin,
            14 if is("HTTP2-Settings") => Self::Connection,
            14 if is("Content-Length") => Self::Framing,
            16 if is("Proxy-Connection") => Self::Connection,
            17 if is("Transfer-Encoding") => Self::Connection,
            18 if is("Proxy-Authenticate") => Self::Connection,
            19 if is("Proxy-Authorization") => Self::Connection,
            25 if is("Strict-Transport-Security") => Self::Host,
            _ if ORIGIN_FRONTS.iter().any(|front| has_front(name, front)) => Self::Origin,
            _ => Self::Other,
        }
    }
}

/// Prefixes of names with which proxies tell applications the client and its request. Applications
/// believe different ones, so none of a client is forwarded.
const ORIGIN_FRONTS: [&str; 9] = [
    "Remote-",
    "X-Auth-Request-",
    "X-Authenticated-",
    "X-Forwarded-",
    "X-Original-",
    "X-Real-",
    "X-Remote-",
    "X-Rewrite-",
    "X-WebAuth-",
];

fn has_front(name: &[u8], front: &str) -> bool {
    name.get(..front.len()).is_some_and(|start| is_same_name(start, front))
}

/// The names that the `Connection` fields of a message list: fields with these names are not
/// forwarded.
#[derive(Clone, Copy)]
pub(crate) struct ListedNames<I> {
    fields: I,
    /// Most messages list no field.
    has_any: bool,
}

impl<'a, I: Iterator<Item = Field<'a>> + Clone> ListedNames<I> {
    /// Examines the fields of a message.
    pub(crate) fn of(fields: I) -> Self {
        let is_plain = |option: &[u8]| {
            [&b""[..], b"close", b"keep-alive"].iter().any(|one| option.eq_ignore_ascii_case(one))
        };
        let names = Self { fields, has_any: true };
        let has_any = names.options().any(|option| !is_plain(option));
        Self { has_any, ..names }
    }

    /// Returns how many names are listed.
    pub(crate) fn count(&self) -> usize {
        if self.has_any { self.options().count() } else { 0 }
    }

    /// Returns whether a name is listed.
    pub(crate) fn contain(&self, name: &[u8]) -> bool {
        self.has_any && self.options().any(|option| option.eq_ignore_ascii_case(name))
    }

    fn options(&self) -> impl Iterator<Item = &'a [u8]> + use<'a, I> {
        let is_connection = |field: &Field<'_>| field.name.eq_ignore_ascii_case(b"Connection");
        let lines = self.fields.clone().filter(is_connection);
        lines.flat_map(|field| field.value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_http::h1::client::request_writer::reserved_field;

    #[test]
    fn names_have_their_class_in_any_spelling() {
        for (name, class) in [
            ("te", FieldClass::Connection),
            ("KEEP-ALIVE", FieldClass::Connection),
            ("Keep_Alive", FieldClass::Connection),
            ("content_length", FieldClass::Framing),
            ("X_FORWARDED_FOR", FieldClass::Origin),
            ("x-real-ip", FieldClass::Origin),
            ("X-Forwarded-Ssl", FieldClass::Origin),
            ("remote-user", FieldClass::Origin),
            ("X_Remote_User", FieldClass::Origin),
            ("X-Forwarded-User", FieldClass::Origin),
            ("X-WEBAUTH-USER", FieldClass::Origin),
            ("Remote", FieldClass::Other),
            ("x_original_url", FieldClass::Origin),
            ("date", FieldClass::Date),
            ("strict-transport-security", FieldClass::Host),
            ("Cookie", FieldClass::Other),
            ("Hosts", FieldClass::Other),
            ("", FieldClass::Other),
        ] {
            assert_eq!(FieldClass::of(name.as_bytes()), class, "{name}");
        }
    }

    /// The client writes these itself, and refuses a request that has them.
    #[test]
    fn no_reserved_field_is_forwarded() {
        let names = [
            "Connection",
            "Content-Length",
            "Expect",
            "Host",
            "HTTP2-Settings",
            "Keep-Alive",
            "Proxy-Connection",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
        ];
        for name in names {
            assert!(reserved_field(name.as_bytes()).is_some(), "{name}");
            assert_ne!(FieldClass::of(name.as_bytes()), FieldClass::Other, "{name}");
        }
    }

    #[test]
    fn connection_lists_names() {
        let field = |name: &'static str, value: &'static str| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        let fields = [
            field("connection", "close, X-One"),
            field("Connection", " x-two ,, "),
            field("X-Three", "1"),
        ];
        let names = ListedNames::of(fields.into_iter());
        for name in ["x-one", "X-TWO", "close"] {
            assert!(names.contain(name.as_bytes()), "{name}");
        }
        for name in ["X-Three", "x-on"] {
            assert!(!names.contain(name.as_bytes()), "{name}");
        }
        let plain = [field("Connection", "keep-alive"), field("keep-alive", "1")];
        assert!(!ListedNames::of(plain.into_iter()).contain(b"keep-alive"));
    }
}
