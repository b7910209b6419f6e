//! Fields that the operator of a mount sets or removes.

use pinion_client::http_client::request::OwnedFields;
use pinion_http::field::{Field, is_same_name};
use thiserror::Error;

use crate::field_forwarding::FieldClass;

/// Fields that are set or removed in the requests or in the responses of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldChanges {
    set: OwnedFields,
    removed: Vec<Box<str>>,
}

/// The messages that fields are changed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedMessage {
    /// Requests, as the upstream server gets them.
    Request,
    /// Responses, as clients get them.
    Response,
}

/// The reason why a field cannot be set or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldChangeError {
    /// It is for one connection alone (RFC 9110 §7.6.1).
    #[error("belongs to the connection; Pinion writes it itself")]
    Connection,
    /// It frames the message, or says for which host it is.
    #[error("frames the message; Pinion writes it itself")]
    Framing,
    /// The host of requests has its own setting.
    #[error("is set with `host`")]
    Host,
    /// Pinion says where a request comes from.
    #[error("says where a request comes from; Pinion writes it itself")]
    Origin,
    /// Pinion writes the date of responses.
    #[error("is written by Pinion itself")]
    Date,
    /// The site decides about it, for the whole host.
    #[error(
        "holds for the whole host: set it with `alt-svc` or `hsts`, or pass that of the upstream \
         server on with `pass-response-headers`"
    )]
    WholeHost,
}

impl FieldChanges {
    /// Sets a field. It replaces all fields of its name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.set.push(name.as_bytes(), value.as_bytes());
    }

    /// Removes all fields of a name.
    pub fn remove(&mut self, name: &str) {
        self.removed.push(name.into());
    }

    /// Returns whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    /// Returns whether fields of a name do not stay as they are. `_` counts as `-`, since programs
    /// behind a gateway cannot tell them apart (RFC 3875 §4.1.18): a client cannot slip in another
    /// field of a name that is set.
    pub(crate) fn replace(&self, name: &[u8]) -> bool {
        let is_set = |field: Field<'_>| is_same_name(name, field.name);
        !self.is_empty()
            && (self.set.iter().any(is_set)
                || self.removed.iter().any(|removed| is_same_name(name, removed.as_bytes())))
    }

    /// Returns the fields that are set.
    pub(crate) fn set_fields(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        self.set.iter()
    }
}

/// Checks that a field may be set or removed by the operator of a mount.
///
/// # Errors
/// It belongs to the connection or to Pinion.
pub fn check_changed_field(name: &str, message: ChangedMessage) -> Result<(), FieldChangeError> {
    let is_response = message == ChangedMessage::Response;
    match FieldClass::of(name.as_bytes()) {
        FieldClass::Connection => Err(FieldChangeError::Connection),
        FieldClass::Framing if name.eq_ignore_ascii_case("Host") => Err(FieldChangeError::Host),
        FieldClass::Framing => Err(FieldChangeError::Framing),
        FieldClass::Origin => Err(FieldChangeError::Origin),
        FieldClass::Date if is_response => Err(FieldChangeError::Date),
        FieldClass::Host if is_response => Err(FieldChangeError::WholeHost),
        FieldClass::Date | FieldClass::Host | FieldClass::Other => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChangedMessage::{Request, Response};

    #[test]
    fn fields_of_the_connection_and_of_pinion_cannot_be_changed() {
        for (name, in_request, in_response) in [
            ("X-A", true, true),
            ("Authorization", true, true),
            ("Cookie", true, true),
            ("Server", true, true),
            ("Host", false, false),
            ("content_length", false, false),
            ("Transfer-Encoding", false, false),
            ("Connection", false, false),
            ("Upgrade", false, false),
            ("Via", false, false),
            ("X-Forwarded-For", false, false),
            ("X-Real-IP", false, false),
            ("Forwarded", false, false),
            ("Date", true, false),
            ("Alt-Svc", true, false),
            ("Strict-Transport-Security", true, false),
        ] {
            assert_eq!(check_changed_field(name, Request).is_ok(), in_request, "{name}");
            assert_eq!(check_changed_field(name, Response).is_ok(), in_response, "{name}");
        }
    }

    #[test]
    fn a_name_is_replaced_in_any_spelling() {
        let mut changes = FieldChanges::default();
        assert!(changes.is_empty() && !changes.replace(b"X-A"));
        changes.set("X-User", "a");
        changes.remove("Accept-Encoding");
        for (name, is_replaced) in [
            ("X-User", true),
            ("x_user", true),
            ("ACCEPT-ENCODING", true),
            ("Accept", false),
            ("X-Users", false),
        ] {
            assert_eq!(changes.replace(name.as_bytes()), is_replaced, "{name}");
        }
    }
}
