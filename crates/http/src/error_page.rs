//! The built-in error pages: small static bytes, as HTML, as text or as problem details.

use crate::prepared_response::{Prepared, PreparedBody, SharedFields};

/// A page and its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageContent {
    /// The value of `Content-Type`.
    pub content_type: &'static [u8],
    /// The content.
    pub body: &'static [u8],
}

/// The form of an error page. A client chooses it by `Accept`
/// ([`preferred_error_format`](crate::negotiate::preferred_error_format)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    /// A page for a browser.
    #[default]
    Html,
    /// Plain text.
    Text,
    /// Problem details, which are JSON (RFC 9457).
    ProblemDetails,
}

/// The media type of problem details (RFC 9457 §3).
pub const PROBLEM_TYPE: &[u8] = b"application/problem+json";

/// Defines the table of security fields, and field lines with them.
macro_rules! security_fields {
    ($($name:literal: $value:literal,)+) => {
        /// The security fields of every response, unless the site disables or replaces them.
        pub const SECURITY_FIELDS: &[(&str, &str)] = &[$(($name, $value)),+];

        /// Field lines of a generated response where no site brings its own: never cached, and the
        /// [`SECURITY_FIELDS`].
        pub const BUILT_IN_FIELDS: &[u8] =
            concat!("Cache-Control: no-store\r\n", $($name, ": ", $value, "\r\n"),+).as_bytes();
    };
}

security_fields! {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "strict-origin-when-cross-origin",
    "X-Frame-Options": "SAMEORIGIN",
}

/// Returns the response that is the built-in page of a status in this format, with `fields`.
#[must_use]
pub const fn response(status: u16, error_format: ErrorFormat, fields: &[u8]) -> Prepared<'_> {
    let page = page(status, error_format);
    Prepared {
        shared: SharedFields::h1(fields),
        content_type: Some(page.content_type),
        content_length: Some(page.body.len() as u64),
        body: PreparedBody::Bytes(page.body),
        ..Prepared::empty(status)
    }
}

/// Returns the response to a client that speaks TLS on a port without TLS: plain text, for people
/// who read the bytes.
#[must_use]
pub const fn response_to_tls(fields: &[u8]) -> Prepared<'_> {
    const TEXT: &[u8] = b"400 Bad Request\n\
        This port speaks plain HTTP, and the request came over TLS (https).\n";
    text_response(TEXT, fields)
}

/// Returns the response to a client that speaks plain HTTP on a port with TLS: plain text, for
/// people who read the bytes.
#[must_use]
pub const fn response_to_plain(fields: &[u8]) -> Prepared<'_> {
    const TEXT: &[u8] = b"400 Bad Request\n\
        This port speaks TLS (https), and the request came as plain HTTP.\n";
    text_response(TEXT, fields)
}

const fn text_response<'a>(text: &'static [u8], fields: &'a [u8]) -> Prepared<'a> {
    Prepared {
        shared: SharedFields::h1(fields),
        content_type: Some(b"text/plain; charset=utf-8"),
        content_length: Some(text.len() as u64),
        body: PreparedBody::Bytes(text),
        ..Prepared::empty(400)
    }
}

macro_rules! html {
    ($code:literal, $title:literal, $text:literal) => {
        concat!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
            $code,
            " ",
            $title,
            "</title>\n<style>\n",
            ":root{color-scheme:light dark}\n",
            "body{margin:15vh auto;max-width:32rem;padding:0 1.5rem;",
            "font:1rem/1.5 system-ui,sans-serif}\n",
            "h1{font-size:1.5rem;margin:0}\np{margin:.5rem 0;opacity:.75}\n",
            "</style>\n</head>\n<body>\n<h1>",
            $code,
            " ",
            $title,
            "</h1>\n<p>",
            $text,
            "</p>\n</body>\n</html>\n"
        )
    };
}

/// A page in each format.
struct ErrorPageForms {
    html: &'static str,
    text: &'static str,
    problem_details: &'static str,
}

impl ErrorPageForms {
    const fn page(&self, error_format: ErrorFormat) -> PageContent {
        let (content_type, body): (&[u8], &str) = match error_format {
            ErrorFormat::Html => (b"text/html; charset=utf-8", self.html),
            ErrorFormat::Text => (b"text/plain; charset=utf-8", self.text),
            ErrorFormat::ProblemDetails => (PROBLEM_TYPE, self.problem_details),
        };
        PageContent { content_type, body: body.as_bytes() }
    }
}

macro_rules! page_forms {
    ($code:literal, $title:literal, $text:literal) => {
        ErrorPageForms {
            html: html!($code, $title, $text),
            text: concat!($code, " ", $title, "\n", $text, "\n"),
            problem_details: concat!(
                "{\"title\":\"",
                $title,
                "\",\"status\":",
                $code,
                ",\"detail\":\"",
                $text,
                "\"}\n"
            ),
        }
    };
}

macro_rules! pages {
    ($($code:literal $title:literal $text:literal,)*) => {
        /// Returns the page of a status in this format. A status without a page of its own gets
        /// that of its class: 400 below 500, else 500. Problem details never name another status.
        #[must_use]
        pub const fn page(status: u16, error_format: ErrorFormat) -> PageContent {
            match status {
                $($code => page_forms!($code, $title, $text).page(error_format),)*
                _ if matches!(error_format, ErrorFormat::ProblemDetails) => {
                    PageContent { content_type: PROBLEM_TYPE, body: other_problem(status) }
                }
                0..500 => page(400, error_format),
                _ => page(500, error_format),
            }
        }

        /// The statuses that have a page of their own: those of all responses made here.
        pub const STATUSES: &[u16] = &[$($code),*];
    };
}

pages! {
    400 "Bad Request" "The request is malformed.",
    401 "Unauthorized" "This page needs a user name and a password.",
    403 "Forbidden" "You do not have permission to see this page.",
    404 "Not Found" "There is no page at this address.",
    405 "Method Not Allowed" "This address does not support the method of the request.",
    408 "Request Timeout" "The request took too long to arrive.",
    411 "Length Required" "The request has content without a length, which the server needs.",
    412 "Precondition Failed" "The page has changed since you loaded it.",
    413 "Content Too Large" "The request is larger than the server accepts.",
    414 "URI Too Long" "The address is longer than the server accepts.",
    416 "Range Not Satisfiable" "The file does not have the requested range of bytes.",
    417 "Expectation Failed" "The server does not support the Expect header of the request.",
    421 "Misdirected Request" "This server has no site for this host name.",
    426 "Upgrade Required" "The server does not support this version of the protocol.",
    429 "Too Many Requests" "Too many requests have been sent. Please try again later.",
    431 "Request Header Fields Too Large" "The request has larger headers than the server accepts.",
    500 "Internal Server Error" "Something went wrong on the server.",
    501 "Not Implemented" "The server does not support this kind of request.",
    502 "Bad Gateway" "The server behind this one sent no valid response.",
    503 "Service Unavailable" "The site is not available at the moment. Please try again later.",
    504 "Gateway Timeout" "The server behind this one did not respond in time.",
    505 "HTTP Version Not Supported" "The server does not support this version of HTTP.",
    508 "Loop Detected" "The request has passed this server before.",
}

macro_rules! problems {
    ($($code:literal $title:literal,)*) => {
        /// Returns the problem details of a status that only a site itself sends, such as with a
        /// page of its own.
        const fn other_problem(status: u16) -> &'static [u8] {
            match status {
                $($code => {
                    concat!("{\"title\":\"", $title, "\",\"status\":", $code, "}\n").as_bytes()
                })*
                FIRST_ERROR..=LAST_ERROR => &UNNAMED_PROBLEMS[(status - FIRST_ERROR) as usize],
                // No response with another status has an error page.
                _ => b"{\"type\":\"about:blank\"}\n",
            }
        }

        /// The statuses that have problem details and no page of their own.
        #[cfg(test)]
        const OTHER_STATUSES: &[u16] = &[$($code),*];
    };
}

problems! {
    402 "Payment Required",
    406 "Not Acceptable",
    407 "Proxy Authentication Required",
    409 "Conflict",
    410 "Gone",
    415 "Unsupported Media Type",
    422 "Unprocessable Content",
    423 "Locked",
    424 "Failed Dependency",
    425 "Too Early",
    428 "Precondition Required",
    451 "Unavailable For Legal Reasons",
    506 "Variant Also Negotiates",
    507 "Insufficient Storage",
    510 "Not Extended",
    511 "Network Authentication Required",
}

const FIRST_ERROR: u16 = 400;
const LAST_ERROR: u16 = 599;

/// The problem details of all statuses without a registered name: they have no title.
static UNNAMED_PROBLEMS: [[u8; 15]; (LAST_ERROR - FIRST_ERROR) as usize + 1] = {
    let mut problems = [*b"{\"status\":000}\n"; (LAST_ERROR - FIRST_ERROR) as usize + 1];
    let mut at = 0;
    while at < problems.len() {
        let status = at + FIRST_ERROR as usize;
        let digits = [status / 100, status / 10 % 10, status % 10];
        let mut digit = 0;
        while digit < digits.len() {
            problems[at][10 + digit] += digits[digit] as u8;
            digit += 1;
        }
        at += 1;
    }
    problems
};

/// Returns the page of 421 for a request with the scheme https on a connection that is not
/// encrypted (RFC 9110 §7.4): the host may well be one of this server.
#[must_use]
pub const fn unencrypted_https_page(error_format: ErrorFormat) -> PageContent {
    page_forms!(
        421,
        "Misdirected Request",
        "This server does not accept https requests over this connection."
    )
    .page(error_format)
}

/// Returns the page of 400 for a QUERY without the type of its content (RFC 10008 §2).
#[must_use]
pub const fn untyped_query_page(error_format: ErrorFormat) -> PageContent {
    page_forms!(400, "Bad Request", "A QUERY needs a Content-Type.").page(error_format)
}

#[cfg(test)]
mod tests {
    use super::ErrorFormat::{Html, ProblemDetails, Text};
    use super::{
        BUILT_IN_FIELDS, ErrorFormat, OTHER_STATUSES, PROBLEM_TYPE, PageContent, STATUSES, page,
        response, unencrypted_https_page, untyped_query_page,
    };

    #[test]
    fn every_page_contains_its_status_and_reason() {
        for &code in STATUSES {
            let title = format!("{code} {}", crate::status::reason(code));
            let html = core::str::from_utf8(page(code, Html).body).unwrap();
            let text = core::str::from_utf8(page(code, Text).body).unwrap();
            assert!(html.contains(&format!("<title>{title}</title>")), "{code}");
            assert!(html.contains(&format!("<h1>{title}</h1>")), "{code}");
            assert!(text.starts_with(&format!("{title}\n")), "{code}");
            assert!(page(code, Html).content_type.starts_with(b"text/html"));
            assert!(page(code, Text).content_type.starts_with(b"text/plain"));
        }
    }

    #[test]
    fn a_response_is_the_page_with_its_type_and_length() {
        let response = response(431, Text, BUILT_IN_FIELDS);
        assert_eq!(response.status, 431);
        assert_eq!(response.content_type, Some(&b"text/plain; charset=utf-8"[..]));
        assert_eq!(response.content_length, Some(page(431, Text).body.len() as u64));
        let fields = core::str::from_utf8(response.shared.h1).unwrap();
        for line in ["Cache-Control: no-store", "X-Content-Type-Options: nosniff"] {
            assert!(fields.split_terminator("\r\n").any(|found| found == line), "{fields}");
        }
    }

    #[test]
    fn other_statuses_get_the_page_of_their_class() {
        assert_eq!(page(418, Text), page(400, Text));
        assert_eq!(page(507, Html), page(500, Html));
        assert_eq!(page(0, Html), page(400, Html));
        assert_eq!(page(u16::MAX, Text), page(500, Text));
    }

    /// RFC 9457 §3.1: `title` is the reason, and `status` that of the response, if it is there. No
    /// text has a character that JSON escapes.
    #[test]
    fn problem_details_contain_their_status_and_reason() {
        for status in 400..600 {
            let problem = page(status, ProblemDetails);
            assert_eq!(problem.content_type, PROBLEM_TYPE, "{status}");
            let body = core::str::from_utf8(problem.body).unwrap();
            let title = crate::status::reason(status);
            let front = format!("{{\"title\":\"{title}\",\"status\":{status}");
            if STATUSES.contains(&status) {
                let text = core::str::from_utf8(page(status, Text).body).unwrap();
                let detail = text.lines().nth(1).expect("a sentence");
                assert!(!detail.contains(['"', '\\']), "{detail}");
                assert_eq!(body, format!("{front},\"detail\":\"{detail}\"}}\n"));
            } else if OTHER_STATUSES.contains(&status) {
                assert_eq!(body, format!("{front}}}\n"));
            } else {
                assert_eq!(title, "Unknown", "{status} has a name");
                assert_eq!(body, format!("{{\"status\":{status}}}\n"));
            }
        }
    }

    /// A page about one reason for a status differs from the usual page in its sentence alone.
    #[test]
    fn pages_about_a_reason_have_the_status_and_its_name() {
        for (status, of_reason) in [
            (421, unencrypted_https_page as fn(ErrorFormat) -> PageContent),
            (400, untyped_query_page),
        ] {
            let text = core::str::from_utf8(of_reason(Text).body).unwrap();
            let usual = core::str::from_utf8(page(status, Text).body).unwrap();
            let sentences = [usual, text].map(|text| text.lines().nth(1).expect("a sentence"));
            assert_ne!(sentences[0], sentences[1]);
            for error_format in [Html, Text, ProblemDetails] {
                let body = core::str::from_utf8(of_reason(error_format).body).unwrap();
                let usual = core::str::from_utf8(page(status, error_format).body).unwrap();
                assert_eq!(body, usual.replace(sentences[0], sentences[1]));
            }
        }
    }
}
