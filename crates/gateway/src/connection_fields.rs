//! Fields that belong to one connection and are not forwarded (RFC 9110 §7.6.1).

use pinion_http::field::Field;

/// Fields that are not forwarded in either direction, whether or not `Connection` names them.
const CONNECTION_FIELDS: [&str; 9] = [
    "Connection",
    "HTTP2-Settings",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Transfer-Encoding",
    "Upgrade",
];

/// The names that the `Connection` fields of a message list, in addition to those that are never
/// forwarded.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionNames<I>(I);

impl<'a, I: Iterator<Item = Field<'a>> + Clone> ConnectionNames<I> {
    /// Looks at the fields of a message.
    pub(crate) fn of(fields: I) -> Self {
        Self(fields)
    }

    /// Whether a field belongs to the connection.
    pub(crate) fn contain(&self, name: &[u8]) -> bool {
        is_one_of(name, &CONNECTION_FIELDS) || self.is_listed(name)
    }

    fn is_listed(&self, name: &[u8]) -> bool {
        let connection = self.0.clone().filter(|field| is_same(field.name, "Connection"));
        connection
            .flat_map(|field| field.value.split(|byte| *byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
    }
}

/// Whether a name is one of these. `_` counts as `-`, since programs behind a gateway cannot tell
/// them apart (RFC 3875 §4.1.18).
pub(crate) fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| is_same(name, one))
}

pub(crate) fn is_same(name: &[u8], known: &str) -> bool {
    let is_same_byte = |(one, other): (&u8, &u8)| {
        one.eq_ignore_ascii_case(other) || (*one == b'_' && *other == b'-')
    };
    name.len() == known.len() && name.iter().zip(known.as_bytes()).all(is_same_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_are_known_or_listed() {
        let field = |name: &'static str, value: &'static str| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        let fields = [
            field("connection", "close, X-One"),
            field("Connection", " x-two ,, "),
            field("X-Three", "1"),
        ];
        let names = ConnectionNames::of(fields.into_iter());
        for name in ["CONNECTION", "close", "x-one", "X-TWO", "te", "Keep_Alive", "upgrade"] {
            assert!(names.contain(name.as_bytes()), "{name}");
        }
        for name in ["X-Three", "x-on", "", "Trailer", "Host"] {
            assert!(!names.contain(name.as_bytes()), "{name}");
        }
    }
}
