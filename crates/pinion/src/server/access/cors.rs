//! Requests of pages of other origins (CORS, Fetch Standard §3.2 and §4.8): which of them may read
//! the responses of a part of a site.

use pinion_http::method::Method;
use pinion_http::request_head::RequestHead;
use std::fmt::Write as _;

/// Fields of responses that a server with this setting decides about alone: those of a script or
/// of another server are left out.
const DECIDED: [&str; 3] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Expose-Headers",
];

/// The permissions of pages of other origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CorsPolicy {
    pub(crate) origins: AllowedOrigins,
    /// Methods beside GET, HEAD and POST, which need no permission.
    pub(crate) methods: Vec<String>,
    /// Fields of requests beside those that need no permission; `*` for all but `Authorization`.
    pub(crate) headers: Vec<String>,
    /// Fields of responses that pages may read beside those that need no permission.
    pub(crate) exposed_headers: Vec<String>,
    /// How long a browser may keep the response to a preflight request.
    pub(crate) max_age_seconds: Option<u32>,
    /// Whether requests may have cookies and passwords.
    pub(crate) allows_credentials: bool,
}

/// Whose pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllowedOrigins {
    /// The pages of every origin.
    Any,
    /// The pages of these origins, as browsers write them (RFC 6454 §6.2).
    Only(Vec<String>),
}

impl Default for AllowedOrigins {
    fn default() -> Self {
        Self::Only(Vec::new())
    }
}

impl CorsPolicy {
    /// Returns the lines of fields for the response to any request.
    pub(crate) fn response_fields(&self, head: &RequestHead<'_>) -> String {
        let mut lines = self.origin_fields(head);
        if !self.exposed_headers.is_empty() && lines.contains(": ") {
            let names = self.exposed_headers.join(", ");
            let _infallible = write!(lines, "Access-Control-Expose-Headers: {names}\r\n");
        }
        // A line without a value only takes the place of another one.
        for name in DECIDED {
            if !lines.contains(&format!("{name}:")) {
                let _infallible = write!(lines, "{name}:\r\n");
            }
        }
        lines
    }

    /// Returns the lines of fields for the response to a preflight request.
    pub(crate) fn preflight_fields(&self, head: &RequestHead<'_>) -> String {
        let mut lines = self.origin_fields(head);
        let is_allowed = lines.contains("Access-Control-Allow-Origin");
        if is_allowed && !self.methods.is_empty() {
            let methods = self.methods.join(", ");
            let _infallible = write!(lines, "Access-Control-Allow-Methods: {methods}\r\n");
        }
        if is_allowed && !self.headers.is_empty() {
            let headers = self.headers.join(", ");
            let _infallible = write!(lines, "Access-Control-Allow-Headers: {headers}\r\n");
        }
        if let (true, Some(seconds)) = (is_allowed, self.max_age_seconds) {
            let _infallible = write!(lines, "Access-Control-Max-Age: {seconds}\r\n");
        }
        lines
    }

    fn allowed_origin<'p>(&'p self, head: &RequestHead<'_>) -> Option<&'p str> {
        let origin = origin_of(head)?;
        match &self.origins {
            AllowedOrigins::Any => Some("*"),
            AllowedOrigins::Only(origins) => {
                let mut origins = origins.iter().map(String::as_str);
                origins.find(|known| known.as_bytes() == origin)
            }
        }
    }

    fn origin_fields(&self, head: &RequestHead<'_>) -> String {
        let mut lines = String::new();
        if let Some(origin) = self.allowed_origin(head) {
            let _infallible = write!(lines, "Access-Control-Allow-Origin: {origin}\r\n");
            if self.allows_credentials {
                lines.push_str("Access-Control-Allow-Credentials: true\r\n");
            }
        }
        if self.origins != AllowedOrigins::Any {
            // Also for a response without an origin: a cache must not give it to a page.
            lines.push_str("Vary: Origin\r\n");
        }
        lines
    }
}

/// Returns the origin of the page that a request comes from, if there is exactly one.
fn origin_of<'h>(head: &RequestHead<'h>) -> Option<&'h [u8]> {
    let mut origins = head.fields.all(b"origin");
    origins.next().filter(|_| origins.next().is_none())
}

/// Returns whether a request asks for permission to send another one (Fetch Standard §3.2.2).
pub(crate) fn is_preflight(head: &RequestHead<'_>) -> bool {
    head.method == Method::Options
        && origin_of(head).is_some()
        && head.fields.get(b"access-control-request-method").is_some()
}

#[cfg(test)]
mod tests;
