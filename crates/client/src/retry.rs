//! The rules for repeating requests automatically (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
//!
//! A server may close a kept connection at any time, also while a request is on its way to it. The
//! client cannot tell whether the server has seen the request. So it repeats a request only if this
//! changes nothing, and only when the connection had been waiting in the pool: a new connection
//! that ends has another reason.

use pinion_http::method::Method;

use crate::limits::{RETRY_BUDGET_DIVISOR, RETRY_BUDGET_FREE, RETRY_BUDGET_MAX};

/// A request whose connection has ended before the response was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// The method.
    pub method: Method,
    /// Whether the connection had served another request before.
    pub is_connection_reused: bool,
    /// Whether a part of the request was given to the connection.
    pub is_sent: bool,
    /// Whether a part of the response has arrived, of any kind.
    pub has_response: bool,
    /// Whether the whole content can be sent again: there is none, or it is still in memory.
    pub is_content_kept: bool,
    /// Whether the request was repeated before.
    pub is_repeated: bool,
}

impl FailedRequest {
    /// Returns whether the request is to be sent again, on a new connection
    /// ([`crate::connection_pool::Reuse::Refused`]).
    ///
    /// It is if the connection came from the pool, no part of a response has arrived, and the
    /// request either never left, or is idempotent and can be sent as a whole. A request is
    /// repeated once.
    #[must_use]
    pub fn is_worth_another_attempt(self) -> bool {
        let is_harmless = !self.is_sent || is_idempotent(self.method);
        self.is_connection_reused
            && !self.has_response
            && !self.is_repeated
            && self.is_content_kept
            && is_harmless
    }
}

/// The budget for repetitions of the requests that a proxy forwards: one in five may be repeated
/// ([`RETRY_BUDGET_DIVISOR`]), and a few more at the beginning. When servers fail all the time,
/// repeated requests would only add to their load.
#[derive(Clone, Copy, Debug)]
pub struct RetryBudget {
    /// The budget in parts of a repetition; a request adds one.
    parts: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { parts: RETRY_BUDGET_FREE * RETRY_BUDGET_DIVISOR }
    }
}

impl RetryBudget {
    /// Counts a request.
    pub fn note_request(&mut self) {
        self.parts = (self.parts + 1).min(RETRY_BUDGET_MAX * RETRY_BUDGET_DIVISOR);
    }

    /// Takes one repetition; returns whether there was one.
    pub fn take(&mut self) -> bool {
        let left = self.parts.checked_sub(RETRY_BUDGET_DIVISOR);
        self.parts = left.unwrap_or(self.parts);
        left.is_some()
    }
}

/// Returns whether a method is safe: it requests only a response (RFC 9110 §9.2.1, RFC 10008 §2).
#[must_use]
pub fn is_safe(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace | Method::Query)
}

/// Returns whether several identical requests have the same effect as one (RFC 9110 §9.2.2): PUT,
/// DELETE and the safe methods. Methods that are not named there count as not idempotent.
#[must_use]
pub fn is_idempotent(method: Method) -> bool {
    match method {
        Method::Get
        | Method::Head
        | Method::Options
        | Method::Trace
        | Method::Query
        | Method::Put
        | Method::Delete => true,
        Method::Post | Method::Connect | Method::Patch | Method::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: FailedRequest = FailedRequest {
        method: Method::Get,
        is_connection_reused: true,
        is_sent: true,
        has_response: false,
        is_content_kept: true,
        is_repeated: false,
    };

    #[test]
    fn idempotent_requests_are_repeated_when_a_kept_connection_was_dead() {
        assert!(DEAD.is_worth_another_attempt());
        for other in [
            FailedRequest { is_connection_reused: false, ..DEAD },
            FailedRequest { has_response: true, ..DEAD },
            FailedRequest { is_content_kept: false, ..DEAD },
            FailedRequest { is_repeated: true, ..DEAD },
        ] {
            assert!(!other.is_worth_another_attempt(), "{other:?}");
        }
    }

    /// RFC 9110 §9.2.2: a client does not repeat a request with another method "unless it has some
    /// means to know that the request semantics are actually idempotent" or "to detect that the
    /// original request was never applied".
    #[test]
    fn other_requests_are_repeated_only_if_they_were_never_sent() {
        for method in [Method::Post, Method::Patch, Method::Connect, Method::Other] {
            let sent = FailedRequest { method, ..DEAD };
            assert!(!sent.is_worth_another_attempt(), "{method:?}");
            let unsent = FailedRequest { is_sent: false, ..sent };
            assert!(unsent.is_worth_another_attempt(), "{method:?}");
            let fresh = FailedRequest { is_connection_reused: false, ..unsent };
            assert!(!fresh.is_worth_another_attempt(), "{method:?}");
        }
        for method in [
            Method::Head,
            Method::Options,
            Method::Trace,
            Method::Query,
            Method::Put,
            Method::Delete,
        ] {
            assert!(FailedRequest { method, ..DEAD }.is_worth_another_attempt(), "{method:?}");
        }
    }

    #[test]
    fn one_request_in_five_may_be_repeated() {
        let mut budget = RetryBudget::default();
        fn taken(budget: &mut RetryBudget) -> impl Iterator<Item = ()> {
            std::iter::from_fn(|| budget.take().then_some(()))
        }
        assert_eq!(taken(&mut budget).count(), RETRY_BUDGET_FREE as usize);
        for requests in [0, 4, 5, 9, 50] {
            let mut budget = budget;
            (0..requests).for_each(|_| budget.note_request());
            assert_eq!(taken(&mut budget).count(), requests / 5, "{requests}");
        }
        (0..100_000).for_each(|_| budget.note_request());
        assert_eq!(taken(&mut budget).count(), RETRY_BUDGET_MAX as usize);
    }
}
