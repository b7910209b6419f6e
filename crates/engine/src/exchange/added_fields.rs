//! The fields that an application adds to the final response of an exchange, regardless of its
//! origin.

use pinion_http::field::Field;
use pinion_http::prepared_response::SharedFields;

/// Complete field lines, in the form of HTTP/1, at most one of each name. They replace fields of
/// the response with the same names, except that `Vary` has the values of both (RFC 9110 §12.5.5).
/// A line without a value is not sent and only removes others.
#[derive(Debug, Clone, Default)]
pub struct AddedFields {
    lines: Vec<u8>,
    is_private: bool,
}

impl AddedFields {
    /// Adds field lines.
    pub fn append(&mut self, lines: &[u8]) {
        self.lines.extend_from_slice(lines);
    }

    /// Forbids caches to keep a prepared response for several users (RFC 9111 §3.5): a response
    /// with `public` gets `private` instead, and no `s-maxage`.
    pub fn set_private(&mut self) {
        self.is_private = true;
    }

    /// Returns whether a response stays unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.is_private
    }

    /// Returns the fields that are sent besides those of the response, and besides `Vary`.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        self.all().filter(|field| !field.value.is_empty() && !is_vary(field))
    }

    /// Returns the value of `Vary` for a response with these fields, if there is one among these.
    pub(crate) fn vary<'f>(&self, fields: impl Iterator<Item = Field<'f>>) -> Option<Vec<u8>> {
        let own = self.all().find(is_vary)?;
        let mut value = Vec::new();
        for field in fields.filter(is_vary).map(|field| field.value.to_vec()) {
            value.extend_from_slice(&field);
            value.extend_from_slice(b", ");
        }
        value.extend_from_slice(own.value);
        Some(value)
    }

    fn all(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        let lines = self.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(field)
    }

    /// Returns whether a field of the response is left out because of one of these.
    pub(crate) fn replace(&self, name: &[u8]) -> bool {
        self.all().any(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// Returns the field lines of a prepared response with these.
    #[must_use]
    pub fn with(&self, shared: &SharedFields<'_>) -> Vec<u8> {
        let mut lines = Vec::with_capacity(shared.h1.len() + self.lines.len());
        for line in shared.h1.split_inclusive(|byte| *byte == b'\n') {
            match field(line) {
                Some(field) if self.replace(field.name) => {}
                Some(field) if self.is_private && is_caching(&field) => {
                    lines.extend_from_slice(&private_line(&field));
                }
                _ => lines.extend_from_slice(line),
            }
        }
        let vary = self.vary(shared.h1.split(|byte| *byte == b'\n').filter_map(field));
        let vary = vary.as_deref().map(|value| Field { name: b"Vary", value });
        for Field { name, value } in self.iter().chain(vary) {
            lines.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
        lines
    }
}

fn is_vary(field: &Field<'_>) -> bool {
    field.name.eq_ignore_ascii_case(b"Vary")
}

fn is_caching(field: &Field<'_>) -> bool {
    field.name.eq_ignore_ascii_case(b"Cache-Control")
}

/// Returns the line of a `Cache-Control` without the directives for shared caches.
fn private_line(field: &Field<'_>) -> Vec<u8> {
    let directives = field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let kept = directives.filter_map(|directive| {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
        match name.to_ascii_lowercase().as_slice() {
            b"public" => Some(&b"private"[..]),
            b"s-maxage" => None,
            _ => Some(directive),
        }
    });
    let value = kept.collect::<Vec<_>>().join(&b", "[..]);
    [field.name, b": ", &value, b"\r\n"].concat()
}

/// Returns the field of a line.
fn field(line: &[u8]) -> Option<Field<'_>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    Some(Field { name, value: value.get(1..)?.trim_ascii() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_fields_replace_fields_of_the_same_name() {
        let mut added = AddedFields::default();
        added.append(b"Access-Control-Allow-Origin: a\r\n");
        added.append(b"Vary: Origin\r\nX-Gone:\r\n");
        let shared = SharedFields::h1(
            b"Content-Type: x\r\naccess-control-allow-origin: *\r\nx-gone: 1\r\n\
              Vary: Accept-Encoding\r\n",
        );
        let lines = added.with(&shared);
        let expected = "Content-Type: x\r\nAccess-Control-Allow-Origin: a\r\n\
                        Vary: Accept-Encoding, Origin\r\n";
        assert_eq!(String::from_utf8_lossy(&lines), expected);
        assert!(added.replace(b"ACCESS-CONTROL-ALLOW-ORIGIN") && !added.replace(b"allow"));
        let names: Vec<&[u8]> = added.iter().map(|field| field.name).collect();
        assert_eq!(names, [&b"Access-Control-Allow-Origin"[..]]);
        let lines = added.with(&SharedFields::h1(b""));
        assert!(lines.ends_with(b"\r\nVary: Origin\r\n"), "{}", lines.escape_ascii());
    }

    #[test]
    fn a_private_response_is_not_stored_by_shared_caches() {
        let mut added = AddedFields::default();
        assert!(added.is_empty());
        added.set_private();
        assert!(!added.is_empty());
        for (value, expected) in [
            ("public, max-age=31536000, immutable", "private, max-age=31536000, immutable"),
            ("Public,S-MaxAge=9,max-age=1", "private, max-age=1"),
            ("max-age=0, must-revalidate", "max-age=0, must-revalidate"),
        ] {
            let line = format!("Cache-Control: {value}\r\n");
            let lines = added.with(&SharedFields::h1(line.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&lines), format!("Cache-Control: {expected}\r\n"));
        }
    }
}
