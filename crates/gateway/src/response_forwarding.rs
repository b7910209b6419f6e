//! The fields of a response as the client gets them (RFC 9110 §7.6).

use pinion_http::field::Field;

use crate::connection_fields::{FieldClass, ListedNames};

/// Returns the fields of a response that are forwarded, and behind them those lines of `defaults`,
/// each with a name, a colon, a space and a value, that the response has no field of.
pub fn forwarded<'a>(
    fields: impl Iterator<Item = Field<'a>> + Clone,
    defaults: &'a [u8],
) -> impl Iterator<Item = Field<'a>> + Clone {
    let listed = ListedNames::of(fields.clone());
    let is_forwarded = move |field: &Field<'_>| {
        matches!(FieldClass::of(field.name), FieldClass::Other | FieldClass::Origin)
            && !listed.contain(field.name)
    };
    let own = fields.filter(is_forwarded);
    let known = own.clone();
    let is_missing = move |default: &Field<'_>| {
        !known.clone().any(|field| field.name.eq_ignore_ascii_case(default.name))
    };
    own.chain(lines(defaults).filter(is_missing))
}

/// Returns the fields of an interim response or of trailers that are forwarded.
pub fn forwarded_interim<'a>(
    fields: impl Iterator<Item = Field<'a>> + Clone,
) -> impl Iterator<Item = Field<'a>> + Clone {
    forwarded(fields, b"")
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

    fn names(fields: &[(&'static str, &'static str)], defaults: &'static str) -> String {
        let fields = fields
            .iter()
            .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() });
        let shown = forwarded(fields, defaults.as_bytes()).map(|field| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            format!("{}={}", text(field.name), text(field.value))
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn fields_of_the_connection_and_of_the_host_stay_here() {
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
}
