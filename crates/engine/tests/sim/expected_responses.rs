//! The expected responses on a stream of HTTP/2 or HTTP/3, by the model of
//! [`request_model`](crate::request_model).

use crate::request_model::{Kind, Request, mapped, pattern, sum_of};

/// The response to a request.
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) content: Vec<u8>,
    pub(crate) has_trailers: bool,
    /// Whether the response must never look complete.
    pub(crate) is_broken: bool,
}

impl Expected {
    /// Returns the expected response to a request; `comes` says whether its content arrives.
    pub(crate) fn of(request: &Request, comes: bool) -> Expected {
        let (id, bytes) = (request.id, request.size as usize);
        let trailers = if request.chunks.is_some() { "checked: in" } else { "" };
        let (status, content) = match request.kind {
            kind if !comes && kind.sums() => (
                408,
                pinion_http::error_page::page(408, pinion_http::error_page::ErrorFormat::Html)
                    .body
                    .to_vec(),
            ),
            Kind::Small | Kind::Unread | Kind::Hasty | Kind::Hints => (200, pattern(id, bytes)),
            Kind::Mapped | Kind::Pieces => (200, mapped(id, bytes).to_vec()),
            Kind::Fill => (200, pattern(id, bytes)),
            Kind::Echo => (200, request.content.clone()),
            kind if kind.waits() => (200, pattern(id, 20)),
            Kind::Nothing => (
                500,
                pinion_http::error_page::page(500, pinion_http::error_page::ErrorFormat::Html)
                    .body
                    .to_vec(),
            ),
            Kind::Abort | Kind::Cut | Kind::Short => (200, pattern(id, 9)),
            Kind::Upgrade => (0, Vec::new()),
            kind => {
                assert!(kind.sums(), "{kind:?}");
                (200, sum_of(&request.content, trailers).into_bytes())
            }
        };
        Expected {
            status,
            content: if request.head_only { Vec::new() } else { content },
            has_trailers: matches!(request.kind, Kind::Fill | Kind::Pieces) && !request.head_only,
            is_broken: matches!(
                request.kind,
                Kind::Abort | Kind::Cut | Kind::Short | Kind::Upgrade
            ),
        }
    }
}
