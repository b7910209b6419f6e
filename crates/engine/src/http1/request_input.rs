//! The parsing of HTTP/1 requests into events.

use pinion_http::h1::body::BodyStep;
use pinion_http::h1::head_parser::{self, HeadStorage, Parsed};
use pinion_http::limits::{BODY_DISCARD_MAX_BYTES, Limits};
use pinion_http::refusal::Refusal;

use super::{Http1, OpenExchange};

/// The result of input that was no head.
pub(crate) enum ContentStep<'i> {
    /// There is nothing yet: more bytes are needed, or the application has to want some first.
    Nothing,
    /// Content of the request, as much as the application wants.
    Bytes(&'i [u8]),
    /// The content is complete; these are the trailers, as field lines.
    End(&'i [u8]),
    /// The content is malformed, or exceeds its limit.
    Refused(Refusal),
    /// So many bytes of unwanted content were dropped.
    Dropped(usize),
    /// More content has arrived than is dropped, or input that is no content: the connection ends.
    TooMuch(usize),
}

impl Http1 {
    /// Reads a request head.
    ///
    /// # Errors
    /// Fails if the bytes are no request.
    #[inline]
    pub(crate) fn head<'i>(
        &mut self,
        input: &'i [u8],
        storage: &'i mut HeadStorage,
        limits: &Limits,
    ) -> Result<Parsed<'i>, Refusal> {
        let Self::Head { scanned } = self else { unreachable!("a head is read between exchanges") };
        let parsed = head_parser::parse(input, std::mem::take(scanned) as usize, storage, limits);
        if let Ok(Parsed::Partial { scanned: so_far }) = &parsed {
            *scanned = *so_far as u32;
        }
        parsed
    }

    /// Reads content of the request, as far as the application wants it, or drops it. Also returns
    /// how many bytes of `input` were used.
    pub(crate) fn content<'i>(&mut self, input: &'i [u8]) -> (usize, ContentStep<'i>) {
        match self {
            Self::Head { .. } | Self::Upgraded => (0, ContentStep::Nothing),
            Self::Discard { content, dropped } => {
                let Ok((used, step)) = content.step(input, u64::MAX) else {
                    return (0, ContentStep::TooMuch(0));
                };
                match step {
                    BodyStep::NeedMore => (used, ContentStep::Nothing),
                    BodyStep::End(_) => {
                        *self = Self::IDLE;
                        (used, ContentStep::Dropped(0))
                    }
                    BodyStep::Data(data) => {
                        *dropped = dropped.saturating_add(data.len() as u32);
                        let is_too_much = u64::from(*dropped) > BODY_DISCARD_MAX_BYTES;
                        let came =
                            if is_too_much { ContentStep::TooMuch } else { ContentStep::Dropped };
                        (used, came(data.len()))
                    }
                }
            }
            Self::Exchange(OpenExchange { state, content: Some(content), .. }) => {
                let Some(wanted) = &mut state.wanted else { return (0, ContentStep::Nothing) };
                match content.step(input, *wanted) {
                    Ok((used, BodyStep::NeedMore)) => (used, ContentStep::Nothing),
                    Ok((used, BodyStep::End(section))) => (used, ContentStep::End(section)),
                    Ok((used, BodyStep::Data(data))) => {
                        *wanted -= data.len() as u64;
                        (used, ContentStep::Bytes(data))
                    }
                    Err(refusal) => (0, ContentStep::Refused(refusal)),
                }
            }
            Self::Exchange(_) => (0, ContentStep::Nothing),
        }
    }
}
