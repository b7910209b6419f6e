//! A copy of the head of a request that outlives the bytes it was read from, for a request that is
//! responded to later.

use std::ops::Range;

use crate::field::{Field, FieldPlace, Fields, KnownFieldPlaces};
use crate::method::Method;
use crate::request_head::{Framing, RequestHead, RequestIdentity, TunnelProtocol};
use crate::request_target::{Form, Scheme, Target};
use crate::version::Version;

/// The copy. It takes as many bytes as the head, which are bounded by
/// [`HEAD_MAX_BYTES`](crate::limits::HEAD_MAX_BYTES).
#[derive(Debug)]
pub struct OwnedRequestHead {
    /// The fields, followed by everything else.
    text: Vec<u8>,
    lines: Vec<FieldPlace>,
    known: KnownFieldPlaces,
    method: Method,
    method_token: Range<usize>,
    version: Version,
    raw_target: Range<usize>,
    form: Form,
    path: Range<usize>,
    query: Option<Range<usize>>,
    target_authority: Option<Range<usize>>,
    scheme: Option<Scheme>,
    authority: Option<Range<usize>>,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    protocol: Option<TunnelProtocol>,
    identity: RequestIdentity,
}

impl OwnedRequestHead {
    /// Copies a head.
    #[must_use]
    pub fn new(head: &RequestHead<'_>) -> Self {
        Self::with_fields(head, |_| true, &[])
    }

    /// Copies a head with the fields that are to be kept, followed by others.
    #[must_use]
    pub fn with_fields(
        head: &RequestHead<'_>,
        keep: impl Fn(&Field<'_>) -> bool,
        added: &[Field<'_>],
    ) -> Self {
        let RequestHead { target, fields, .. } = head;
        let mut text = Vec::with_capacity(fields.text().len() + target.raw.len() + 256);
        let mut lines = Vec::with_capacity(fields.len() + added.len());
        let mut known = KnownFieldPlaces::default();
        let mut append = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            start..text.len()
        };
        for Field { name, value } in fields.iter().filter(keep).chain(added.iter().copied()) {
            known.add(name, lines.len());
            lines.push(FieldPlace::new(append(name), append(value)));
        }
        Self {
            method: head.method,
            method_token: append(head.method_token),
            version: head.version,
            raw_target: append(target.raw),
            form: target.form,
            path: append(target.path),
            query: target.query.map(&mut append),
            target_authority: target.authority.map(&mut append),
            scheme: target.scheme,
            authority: head.authority.map(&mut append),
            framing: head.framing,
            keep_alive: head.keep_alive,
            expect_continue: head.expect_continue,
            protocol: head.protocol,
            identity: head.identity.cloned().unwrap_or_default(),
            text,
            lines,
            known,
        }
    }

    /// Returns the head.
    #[must_use]
    pub fn head(&self) -> RequestHead<'_> {
        let part = |range: &Range<usize>| self.text.get(range.clone()).unwrap_or_default();
        RequestHead {
            method: self.method,
            method_token: part(&self.method_token),
            version: self.version,
            target: Target {
                raw: part(&self.raw_target),
                form: self.form,
                path: part(&self.path),
                query: self.query.as_ref().map(part),
                authority: self.target_authority.as_ref().map(part),
                scheme: self.scheme,
            },
            authority: self.authority.as_ref().map(part),
            fields: Fields::new(&self.text, &self.lines),
            known: self.known,
            framing: self.framing,
            keep_alive: self.keep_alive,
            expect_continue: self.expect_continue,
            protocol: self.protocol,
            identity: Some(&self.identity),
        }
    }

    /// Returns the bytes that it takes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity() + self.lines.capacity() * size_of::<FieldPlace>()
    }

    /// Sets who has sent the request.
    pub fn set_identity(&mut self, identity: RequestIdentity) {
        self.identity = identity;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::KnownField;
    use crate::h1::head_parser::{HeadStorage, Parsed, parse};
    use crate::limits::Limits;

    const TEXT: &[u8] = b"POST http://a.test/b%20c?d=e HTTP/1.1\r\nHost: a.test\r\nAccept: x\r\n\
                          Authorization: Basic YTpi\r\nAccept: y\r\nContent-Length: 7\r\n\
                          Expect: 100-continue\r\n\r\n";

    fn with_head(run: impl FnOnce(&RequestHead<'_>)) {
        let mut storage = HeadStorage::new();
        let Ok(Parsed::Head { head, .. }) = parse(TEXT, 0, &mut storage, &Limits::default()) else {
            panic!("a head")
        };
        run(&head);
    }

    #[test]
    fn a_copy_equals_its_head() {
        with_head(|head| {
            let owned = OwnedRequestHead::new(head);
            let copy = owned.head();
            let shown =
                |head: &RequestHead<'_>| format!("{:?}", RequestHead { identity: None, ..*head });
            assert_eq!(shown(&copy), shown(head));
            for field in KnownField::ALL {
                let values = |head: &RequestHead<'_>| {
                    head.values(*field).map(<[u8]>::to_vec).collect::<Vec<_>>()
                };
                assert_eq!(values(&copy), values(head), "{field:?}");
            }
            assert!(owned.held_bytes() >= TEXT.len());
        });
    }

    #[test]
    fn fields_are_left_out_and_added() {
        with_head(|head| {
            let keep = |field: &Field<'_>| !field.name.eq_ignore_ascii_case(b"authorization");
            let added = [Field { name: b"X-Request-Id", value: b"7" }];
            let mut owned = OwnedRequestHead::with_fields(head, keep, &added);
            let user = Some("a".into());
            owned.set_identity(RequestIdentity { user, id: Some("7".into()) });
            let copy = owned.head();
            assert_eq!(copy.fields.get(b"Authorization"), None);
            assert_eq!(copy.fields.get(b"x-request-id"), Some(&b"7"[..]));
            assert!(copy.values(KnownField::Accept).eq([&b"x"[..], b"y"]));
            assert_eq!((copy.user(), copy.request_id()), (Some("a"), Some("7")));
            assert_eq!((head.user(), head.request_id()), (None, None));
        });
    }
}
