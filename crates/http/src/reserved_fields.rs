//! The fields that the server writes or reads itself, and the parties that therefore cannot set
//! them: one table for every place in which fields are taken from a site, a script, a program or a
//! client.

use crate::field::is_same_name;

/// Ways in which fields enter a message or leave it. In each, other fields are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldUses(u8);

impl FieldUses {
    /// Messages of HTTP/2 and HTTP/3, which have no fields of the connection (RFC 9113 §8.2.2, RFC
    /// 9114 §4.2).
    pub const MULTIPLEXED: Self = Self(1);
    /// Messages of any version: the encoder writes their framing, connection and time.
    pub const ENCODED: Self = Self(1 << 1);
    /// Field lines of a site, which its archive stores once for many responses.
    pub const SHARED_BLOCK: Self = Self(1 << 2);
    /// Responses of scripts.
    pub const SCRIPT: Self = Self(1 << 3);
    /// Responses of programs by CGI, FastCGI or SCGI (RFC 3875 §6.3).
    pub const CGI_RESPONSE: Self = Self(1 << 4);
    /// Variables of programs, which get these fields in another form or not at all (RFC 3875
    /// §4.1.18).
    pub const CGI_VARIABLES: Self = Self(1 << 5);
    /// Requests that the server sends to other servers.
    pub const OUTGOING_REQUEST: Self = Self(1 << 6);
    /// Requests that are explained and never sent.
    pub const EXPLAINED_REQUEST: Self = Self(1 << 7);

    /// The uses in which all fields of a single connection (RFC 9110 §7.6.1) are reserved.
    const HOP_BY_HOP: Self = Self::SHARED_BLOCK
        .or(Self::SCRIPT)
        .or(Self::CGI_RESPONSE)
        .or(Self::CGI_VARIABLES)
        .or(Self::OUTGOING_REQUEST);

    /// Returns these uses and those.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Each reserved field in its usual spelling, and the uses in which it is reserved.
const RESERVED: &[(&str, FieldUses)] = {
    use FieldUses as U;
    &[
        ("Allow", U::SHARED_BLOCK),
        ("Connection", U::HOP_BY_HOP.or(U::MULTIPLEXED).or(U::ENCODED).or(U::EXPLAINED_REQUEST)),
        (
            "Content-Length",
            U::SHARED_BLOCK
                .or(U::SCRIPT)
                .or(U::CGI_VARIABLES)
                .or(U::OUTGOING_REQUEST)
                .or(U::ENCODED)
                .or(U::EXPLAINED_REQUEST),
        ),
        ("Content-Location", U::SHARED_BLOCK),
        ("Content-Range", U::SHARED_BLOCK),
        // Its variable is `CONTENT_TYPE`.
        ("Content-Type", U::CGI_VARIABLES),
        ("Date", U::SHARED_BLOCK.or(U::SCRIPT).or(U::ENCODED)),
        ("ETag", U::SHARED_BLOCK),
        ("Expect", U::CGI_VARIABLES.or(U::OUTGOING_REQUEST).or(U::EXPLAINED_REQUEST)),
        ("Host", U::CGI_VARIABLES.or(U::OUTGOING_REQUEST)),
        ("HTTP2-Settings", U::CGI_RESPONSE.or(U::CGI_VARIABLES).or(U::OUTGOING_REQUEST)),
        ("Keep-Alive", U::HOP_BY_HOP.or(U::MULTIPLEXED).or(U::ENCODED).or(U::EXPLAINED_REQUEST)),
        ("Last-Modified", U::SHARED_BLOCK),
        ("Location", U::SHARED_BLOCK),
        // Programs take it for the address of a proxy (CVE-2016-5385).
        ("Proxy", U::CGI_VARIABLES),
        ("Proxy-Authorization", U::CGI_VARIABLES),
        ("Proxy-Connection", U::HOP_BY_HOP.or(U::MULTIPLEXED).or(U::EXPLAINED_REQUEST)),
        // Programs give the status in it (RFC 3875 §6.3.3).
        ("Status", U::CGI_RESPONSE),
        ("TE", U::HOP_BY_HOP),
        ("Trailer", U::HOP_BY_HOP.or(U::EXPLAINED_REQUEST)),
        (
            "Transfer-Encoding",
            U::HOP_BY_HOP.or(U::MULTIPLEXED).or(U::ENCODED).or(U::EXPLAINED_REQUEST),
        ),
        ("Upgrade", U::HOP_BY_HOP.or(U::MULTIPLEXED).or(U::EXPLAINED_REQUEST)),
    ]
};

/// Returns whether a field, by its name in any case, is reserved in one of these uses.
#[must_use]
pub fn is_reserved(name: &[u8], uses: FieldUses) -> bool {
    let is_match = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    RESERVED.iter().any(|(known, reserved)| reserved.0 & uses.0 != 0 && is_match(known))
}

/// Returns the usual spelling of a field that is reserved in one of these uses. `_` counts as `-`,
/// since programs behind a gateway cannot distinguish them (RFC 3875 §4.1.18).
#[must_use]
pub fn reserved_name(name: &[u8], uses: FieldUses) -> Option<&'static str> {
    let is_match = |&&(known, reserved): &&(&str, FieldUses)| {
        reserved.0 & uses.0 != 0 && is_same_name(name, known)
    };
    RESERVED.iter().find(is_match).map(|&(known, _)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All fields of one connection, from RFC 9110 §7.6.1, RFC 9112 §9.3 and RFC 9113 §3.2.1.
    const CONNECTION_FIELDS: [&str; 7] = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
    ];

    #[test]
    fn fields_of_the_connection_are_reserved_in_every_use_from_outside() {
        for use_bit in 0..8 {
            let uses = FieldUses(1 << use_bit);
            if uses.0 & FieldUses::HOP_BY_HOP.0 == 0 {
                continue;
            }
            for name in CONNECTION_FIELDS {
                assert!(is_reserved(name.to_ascii_uppercase().as_bytes(), uses), "{name} {uses:?}");
                assert_eq!(reserved_name(name.as_bytes(), uses), Some(name));
            }
        }
    }

    #[test]
    fn the_framing_of_a_message_is_reserved_wherever_it_is_encoded() {
        for name in ["content-length", "transfer-encoding", "connection", "keep-alive", "date"] {
            assert!(is_reserved(name.as_bytes(), FieldUses::ENCODED), "{name}");
        }
        assert!(!is_reserved(b"content-length", FieldUses::MULTIPLEXED));
        assert!(!is_reserved(b"content-type", FieldUses::SCRIPT));
    }

    #[test]
    fn an_underscore_is_a_hyphen_only_where_programs_read_the_name() {
        assert_eq!(
            reserved_name(b"transfer_encoding", FieldUses::OUTGOING_REQUEST),
            Some("Transfer-Encoding"),
        );
        assert!(!is_reserved(b"transfer_encoding", FieldUses::SCRIPT));
    }

    #[test]
    fn the_table_is_sorted_without_duplicates() {
        let key = |row: &(&str, FieldUses)| row.0.to_ascii_lowercase();
        assert!(RESERVED.windows(2).all(|rows| key(&rows[0]) < key(&rows[1])));
    }
}
