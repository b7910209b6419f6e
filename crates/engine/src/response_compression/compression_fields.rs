//! The fields of a generated response: whether it is suited to be compressed, and their changes if
//! it is.

use pinion_http::content_coding::Coding;
use pinion_http::field::Field;
use pinion_http::grammar::list;
use pinion_http::media_type::is_compressible;
use pinion_http::status::never_has_content;

use crate::limits::ENCODE_MIN_BYTES;

/// Fields of a response whose content must stay as it is: it is in a coding already, is partial, or
/// comes with a digest (RFC 9530, and those before it).
const FIXED: [&[u8]; 6] = [
    b"Content-Encoding",
    b"Content-Range",
    b"Content-Digest",
    b"Repr-Digest",
    b"Digest",
    b"Content-MD5",
];

/// The status without new content; its fields are those of a 200 (RFC 9110 §15.4.5).
const NOT_MODIFIED: u16 = 304;
const PARTIAL_CONTENT: u16 = 206;

/// Returns whether a response may be compressed, and is worth it. That depends on nothing but the
/// response, so that its `Vary` is the same for all clients.
pub(crate) fn is_suited<'f>(
    status: u16,
    fields: impl Iterator<Item = Field<'f>>,
    length: Option<u64>,
) -> bool {
    let is_short = length.is_some_and(|bytes| bytes < ENCODE_MIN_BYTES);
    let has_content = !never_has_content(status) && status != PARTIAL_CONTENT && !is_short;
    if !has_content && status != NOT_MODIFIED {
        return false;
    }
    // A response without content need not have a content type.
    let mut gets_smaller = status == NOT_MODIFIED;
    for Field { name, value } in fields {
        if FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(name)) {
            return false;
        }
        if name.eq_ignore_ascii_case(b"Content-Type") {
            gets_smaller = is_compressible(value);
        }
        let is_no_transform = |member: &[u8]| member.eq_ignore_ascii_case(b"no-transform");
        if name.eq_ignore_ascii_case(b"Cache-Control") && list(value).any(is_no_transform) {
            return false;
        }
    }
    gets_smaller
}

/// The changed fields of a suited response.
pub(crate) struct Recoded {
    /// The coding in which the content is sent.
    coding: Coding,
    /// Whether it has content in that coding.
    has_content: bool,
    /// The value of `Vary`, the application's own members first.
    vary: Vec<u8>,
    /// The entity tag as a weak one, if it is a strong one.
    weak_tag: Option<Vec<u8>>,
}

impl Recoded {
    /// Computes the changes for the fields of a response with this status.
    pub(crate) fn new<'f>(
        coding: Coding,
        status: u16,
        fields: impl Iterator<Item = Field<'f>>,
    ) -> Self {
        let mut vary = Vec::new();
        let mut weak_tag = None;
        let mut varies = false;
        for Field { name, value } in fields {
            if name.eq_ignore_ascii_case(b"Vary") {
                let covers = |member: &[u8]| {
                    member == b"*" || member.eq_ignore_ascii_case(b"Accept-Encoding")
                };
                varies |= list(value).any(covers);
                append_member(&mut vary, value);
            } else if name.eq_ignore_ascii_case(b"ETag") && !value.starts_with(b"W/") {
                weak_tag = (coding != Coding::Identity).then(|| [b"W/", value].concat());
            }
        }
        if !varies {
            append_member(&mut vary, b"Accept-Encoding");
        }
        Self { coding, has_content: status != NOT_MODIFIED, vary, weak_tag }
    }

    /// Returns the fields that are sent in their place.
    pub(crate) fn apply<'s, 'f: 's>(
        &'s self,
        fields: impl Iterator<Item = Field<'f>> + Clone,
    ) -> impl Iterator<Item = Field<'s>> + Clone {
        let is_coded = self.coding != Coding::Identity;
        let stays = move |field: &Field<'_>| {
            let is_vary = field.name.eq_ignore_ascii_case(b"Vary");
            let is_of_bytes = is_coded && field.name.eq_ignore_ascii_case(b"Accept-Ranges");
            !is_vary && !is_of_bytes
        };
        let kept = fields.filter(stays).map(move |field: Field<'f>| -> Field<'s> {
            match &self.weak_tag {
                Some(tag) if field.name.eq_ignore_ascii_case(b"ETag") => {
                    Field { name: field.name, value: tag }
                }
                _ => field,
            }
        });
        let token = self.coding.token().as_bytes();
        let coding = Field { name: b"Content-Encoding", value: token };
        let coding = (is_coded && self.has_content).then_some(coding);
        kept.chain(coding).chain([Field { name: b"Vary", value: &self.vary[..] }])
    }
}

fn append_member(members: &mut Vec<u8>, member: &[u8]) {
    if !members.is_empty() {
        members.extend_from_slice(b", ");
    }
    members.extend_from_slice(member);
}
