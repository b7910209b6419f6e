//! Compression of generated content, before a version of HTTP makes frames or chunks of it
//! (docs/ARCHITECTURE.md, "Compression of dynamic responses"). Responses of an archive never come
//! here; their codings were made when the archive was built.
//!
//! An application allows it for one response, by [`Exchange::compress`] with the result of
//! [`choose`] for the request, and other responses cost nothing. [`Exchange::head`] checks whether
//! the response is suited:
//!
//! - its media type is one that gets smaller (`text/event-stream` is);
//! - its length is unknown, or worth it ([`ENCODE_MIN_BYTES`]);
//! - it is not in a coding yet, is not partial (206), and has no digest of its content;
//! - `Cache-Control: no-transform` does not forbid it (RFC 9110 §7.7).
//!
//! Such a response gets `Vary: Accept-Encoding`, regardless of the client's preference. If it is
//! compressed, it gets `Content-Encoding` and loses its `Content-Length` and `Accept-Ranges`, and a
//! strong entity tag becomes a weak one: the tag was made for other bytes (RFC 9110 §8.8.3.3), and
//! as a weak one it still shows that nothing has changed. The 304 of such a response is treated
//! alike.
//!
//! A secret and attacker-controlled content should not be compressed together: the length reveals
//! information on the secret (BREACH). That is why the application decides.
//!
//! [`Exchange::compress`]: crate::exchange::Exchange::compress
//! [`Exchange::head`]: crate::exchange::Exchange::head
//! [`ENCODE_MIN_BYTES`]: crate::limits::ENCODE_MIN_BYTES

mod compression_fields;
mod content_encoder;
mod encoder_table;

use pinion_http::content_coding::Coding;
use pinion_http::field::KnownField;
use pinion_http::negotiate;
use pinion_http::request_head::RequestHead;

pub(crate) use compression_fields::{Recoded, is_suited};
pub(crate) use encoder_table::{EncoderId, Encoders};
pub(crate) use pinion_brotli::EncoderOperation;

/// Returns the coding that a client prefers for generated content: gzip, brotli or none
/// ([`Coding::Identity`]). Of equal preferences it is gzip: at the speed that a response needs,
/// brotli gets no smaller, for twice the time and more memory (docs/decisions/0020).
#[must_use]
pub fn choose(head: &RequestHead<'_>) -> Coding {
    // An order takes the place of lengths, which are not known yet.
    const MADE: [(Coding, u64); 3] =
        [(Coding::Identity, 3), (Coding::Brotli, 2), (Coding::Gzip, 1)];
    let accepted = negotiate::accepted(head.values(KnownField::AcceptEncoding));
    let index = negotiate::choose(&accepted, MADE.into_iter());
    MADE.get(index).map_or(Coding::Identity, |(coding, _)| *coding)
}

#[cfg(test)]
mod tests;
