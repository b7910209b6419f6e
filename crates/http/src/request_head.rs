//! The head of a request, the same value for every protocol.

use crate::field::{Field, Fields, KnownField, KnownFieldPlaces, Values};
use crate::field_section::FieldSection;
use crate::limits::FIELD_OVERHEAD_BYTES;
use crate::method::Method;
use crate::request_target::Target;
use crate::version::Version;

/// A request head. Everything borrows from the bytes it was read from.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'h> {
    /// The method.
    pub method: Method,
    /// The token of the method as sent; the name of a [`Method::Other`].
    pub method_token: &'h [u8],
    /// The version of the message.
    pub version: Version,
    /// The target, split.
    pub target: Target<'h>,
    /// The authority the request is for: that of an absolute target wins over `Host`
    /// (RFC 9112 §3.2.2), and so does `:authority`. Valid by [`crate::host::split`]. `None` only in
    /// HTTP/1.0.
    pub authority: Option<&'h [u8]>,
    /// The protocol that an extended CONNECT would speak on its stream (RFC 8441 §4, RFC 9220 §3).
    /// Only HTTP/2 and HTTP/3 have such requests. Their target is that of a GET for the same URL;
    /// an ordinary CONNECT has no path.
    pub protocol: Option<TunnelProtocol>,
    /// All field lines, without pseudo-fields. Crumbs of a cookie (RFC 9113 §8.2.3) stay separate
    /// lines as received: a reader that needs one value joins them with `; `.
    pub fields: Fields<'h>,
    /// The positions of the known fields.
    pub known: KnownFieldPlaces,
    /// The framing of the content.
    pub framing: Framing,
    /// Whether the client may have another request on this connection (RFC 9112 §9.3): 1.1
    /// unless it said `close`, 1.0 only when it asked.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends content (RFC 9110 §10.1.1);
    /// never when there is none.
    pub expect_continue: bool,
    /// The facts that the server knows of the request beside its bytes; `None` from the parsers.
    pub identity: Option<&'h RequestIdentity>,
}

/// The facts that a server has found out about a request, or has assigned to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestIdentity {
    /// The user whose password the server has verified.
    pub user: Option<Box<str>>,
    /// The number of the request, which logs of several servers have in common.
    pub id: Option<Box<str>>,
}

/// A protocol on a stream that an extended CONNECT has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelProtocol {
    /// `websocket` (RFC 8441 §5, RFC 9220).
    WebSocket,
    /// Any other one.
    Other,
}

impl TunnelProtocol {
    /// Returns the protocol of a token. Those of `Upgrade` are equal in either case (RFC 9110
    /// §7.8).
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        if token.eq_ignore_ascii_case(b"websocket") { Self::WebSocket } else { Self::Other }
    }
}

/// The place where a step of a binary protocol stores a head: heads are large, so each is written
/// once and not passed on by value. An empty place is `None`.
pub type Place<'a> = Option<RequestHead<'a>>;

/// The section into which the fields of a head are decoded, and the place where the head is put.
pub(crate) type Room<'a> = (&'a mut FieldSection, &'a mut Place<'a>);

impl<'h> RequestHead<'h> {
    /// Returns the user whose password the server has verified, if it has verified one.
    #[inline]
    #[must_use]
    pub fn user(&self) -> Option<&'h str> {
        self.identity?.user.as_deref()
    }

    /// Returns the number that the server has given to the request, if it has given one.
    #[inline]
    #[must_use]
    pub fn request_id(&self) -> Option<&'h str> {
        self.identity?.id.as_deref()
    }

    /// Returns how large the head is, in bytes: its size after decompression, and
    /// [`FIELD_OVERHEAD_BYTES`] for each field.
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        let bytes = |field: Field<'_>| field.name.len() + field.value.len() + FIELD_OVERHEAD_BYTES;
        self.target.raw.len() + self.fields.iter().map(bytes).sum::<usize>()
    }

    /// Returns whether this is a QUERY without a media type of its content: no server may guess the
    /// meaning of its content (RFC 10008 §2).
    #[inline]
    #[must_use]
    pub fn is_untyped_query(&self) -> bool {
        self.method == Method::Query
            && self.fields.get(b"content-type").is_none_or(<[u8]>::is_empty)
    }

    /// Returns the value of the first line of a known field.
    #[inline]
    #[must_use]
    pub fn value(&self, field: KnownField) -> Option<&'h [u8]> {
        self.known.value(&self.fields, field)
    }

    /// Returns the values of all lines of a known field.
    #[inline]
    #[must_use]
    pub fn values(&self, field: KnownField) -> Values<'h> {
        self.known.values(&self.fields, field)
    }
}

/// The part of a request that preconditions (RFC 9110 §13) and ranges (RFC 9110 §14) are read from.
/// Heads have it, and so have copies of heads that outlive them.
pub trait ConditionalRequest {
    /// Returns the method.
    fn method(&self) -> Method;
    /// Returns the value of the first line of a field.
    fn first_value(&self, field: KnownField) -> Option<&[u8]>;
    /// Returns the values of all lines of a field.
    fn all_values(&self, field: KnownField) -> impl Iterator<Item = &[u8]>;
    /// Returns whether a field came in more than one line.
    fn is_repeated(&self, field: KnownField) -> bool;

    /// Returns whether a field came at all.
    #[inline]
    fn has_field(&self, field: KnownField) -> bool {
        self.first_value(field).is_some()
    }

    /// Returns whether any of the fields came.
    #[inline]
    fn has_any(&self, fields: &[KnownField]) -> bool {
        fields.iter().any(|&field| self.has_field(field))
    }
}

impl ConditionalRequest for RequestHead<'_> {
    #[inline]
    fn method(&self) -> Method {
        self.method
    }

    #[inline]
    fn first_value(&self, field: KnownField) -> Option<&[u8]> {
        self.value(field)
    }

    #[inline]
    fn all_values(&self, field: KnownField) -> impl Iterator<Item = &[u8]> {
        self.values(field)
    }

    #[inline]
    fn is_repeated(&self, field: KnownField) -> bool {
        self.known.repeated(field)
    }

    #[inline]
    fn has_field(&self, field: KnownField) -> bool {
        self.known.has(field)
    }

    #[inline]
    fn has_any(&self, fields: &[KnownField]) -> bool {
        self.known.has_any(fields)
    }
}

/// The framing of the content of a request (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No content.
    None,
    /// Content of so many bytes; never 0, which is [`Framing::None`].
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// Content of an unknown length, in frames of which the last one is marked (RFC 9113 §8.1).
    Frames,
}
