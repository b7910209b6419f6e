//! Request methods (RFC 9110 §9).

/// The methods this server knows by name. Everything else is [`Method::Other`]; its token stays
/// with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`, RFC 9110 §9.3.1.
    Get,
    /// `HEAD`, RFC 9110 §9.3.2.
    Head,
    /// `POST`, RFC 9110 §9.3.3.
    Post,
    /// `PUT`, RFC 9110 §9.3.4.
    Put,
    /// `DELETE`, RFC 9110 §9.3.5.
    Delete,
    /// `CONNECT`, RFC 9110 §9.3.6.
    Connect,
    /// `OPTIONS`, RFC 9110 §9.3.7.
    Options,
    /// `TRACE`, RFC 9110 §9.3.8.
    Trace,
    /// `PATCH`, RFC 5789.
    Patch,
    /// `QUERY`, RFC 10008: safe and idempotent as GET is, with content that describes the query.
    Query,
    /// Any other token.
    Other,
}

impl Method {
    /// Returns the method of a token. Methods are case-sensitive (RFC 9110 §9.1).
    #[inline]
    #[must_use]
    pub fn from_token(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            b"QUERY" => Method::Query,
            _ => Method::Other,
        }
    }

    /// Returns the token on the wire; empty for [`Method::Other`], whose token only the request
    /// knows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Query => "QUERY",
            Method::Other => "",
        }
    }

    /// Returns whether a request with this method is expected to have content, so that its length
    /// is stated even if that is 0 (RFC 9110 §8.6).
    #[must_use]
    pub const fn expects_content(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch | Method::Query)
    }

    /// Returns whether a request with this method asks for a representation: its conditions can
    /// end in a 304 (RFC 9110 §13.2.2). For QUERY the representation is the result of the query
    /// (RFC 10008 §2).
    #[must_use]
    pub const fn selects_representation(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Query)
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn every_known_token_round_trips() {
        for token in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
        ] {
            let method = Method::from_token(token.as_bytes());
            assert_ne!(method, Method::Other, "{token}");
            assert_eq!(method.as_str(), token);
        }
    }

    /// RFC 9110 §9.1: "The method token is case-sensitive".
    #[test]
    fn case_matters() {
        for token in ["get", "Get", "GETX", "GE", "", "BREW", "query", "Query"] {
            assert_eq!(Method::from_token(token.as_bytes()), Method::Other, "{token:?}");
        }
    }
}
