//! Status codes: reason phrases and ready HTTP/1.1 status lines (RFC 9110 §15).

macro_rules! statuses {
    ($($code:literal $reason:literal,)*) => {
        /// Returns the reason phrase of a status code; `"Unknown"` for a code the registry does not
        /// know.
        #[must_use]
        pub const fn reason(status: u16) -> &'static str {
            match status {
                $($code => $reason,)*
                _ => "Unknown",
            }
        }

        const LINES: [&[u8]; LINE_COUNT] = {
            let mut lines: [&[u8]; LINE_COUNT] = [b""; LINE_COUNT];
            $(lines[$code - FIRST as usize] =
                concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes();)*
            lines
        };

        #[cfg(test)]
        const KNOWN: &[u16] = &[$($code),*];
    };
}

/// Returns the whole HTTP/1.1 status line with its CRLF, for every code of the registry.
///
/// A server answers with the highest version it speaks, so the line says `HTTP/1.1` to a 1.0
/// client too (RFC 9110 §2.5). A code that the registry does not know has no reason phrase
/// (RFC 9112 §4); outside of 100..=599 it is 500.
#[inline]
#[must_use]
pub fn status_line_h1(status: u16) -> &'static [u8] {
    match LINE_TABLE.get(usize::from(status.wrapping_sub(FIRST))) {
        Some(line) if !line.is_empty() => line,
        _ => bare_line(status),
    }
}

/// The content that a response may have because of its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusContent {
    /// Any content.
    Any,
    /// Content of no bytes, whose length the head says (RFC 9110 §15.3.6).
    Empty,
    /// No content and no length, for any method (RFC 9110 §6.4.1).
    None,
}

/// Returns the content that a response with this status may have.
#[inline]
#[must_use]
pub const fn status_content(status: u16) -> StatusContent {
    match status {
        ..200 | 204 | 304 => StatusContent::None,
        205 => StatusContent::Empty,
        _ => StatusContent::Any,
    }
}

/// Returns whether a response with this status has no content for any method (RFC 9110 §6.4.1).
#[inline]
#[must_use]
pub const fn never_has_content(status: u16) -> bool {
    matches!(status_content(status), StatusContent::None)
}

#[cold]
fn bare_line(status: u16) -> &'static [u8] {
    match BARE_LINES.get(usize::from(status.wrapping_sub(FIRST))) {
        Some(line) => line,
        None => LINE_TABLE[500 - usize::from(FIRST)],
    }
}

const FIRST: u16 = 100;
const LINE_COUNT: usize = 500;
static LINE_TABLE: [&[u8]; LINE_COUNT] = LINES;

/// The lines of all codes without a reason phrase.
static BARE_LINES: [[u8; 15]; LINE_COUNT] = {
    let mut lines = [*b"HTTP/1.1 000 \r\n"; LINE_COUNT];
    let mut at = 0;
    while at < LINE_COUNT {
        let code = at + FIRST as usize;
        let digits = [code / 100, code / 10 % 10, code % 10];
        let mut digit = 0;
        while digit < digits.len() {
            lines[at][9 + digit] += digits[digit] as u8;
            digit += 1;
        }
        at += 1;
    }
    lines
};

statuses! {
    100 "Continue",
    101 "Switching Protocols",
    102 "Processing",
    103 "Early Hints",
    200 "OK",
    201 "Created",
    202 "Accepted",
    203 "Non-Authoritative Information",
    204 "No Content",
    205 "Reset Content",
    206 "Partial Content",
    207 "Multi-Status",
    208 "Already Reported",
    226 "IM Used",
    300 "Multiple Choices",
    301 "Moved Permanently",
    302 "Found",
    303 "See Other",
    304 "Not Modified",
    305 "Use Proxy",
    307 "Temporary Redirect",
    308 "Permanent Redirect",
    400 "Bad Request",
    401 "Unauthorized",
    402 "Payment Required",
    403 "Forbidden",
    404 "Not Found",
    405 "Method Not Allowed",
    406 "Not Acceptable",
    407 "Proxy Authentication Required",
    408 "Request Timeout",
    409 "Conflict",
    410 "Gone",
    411 "Length Required",
    412 "Precondition Failed",
    413 "Content Too Large",
    414 "URI Too Long",
    415 "Unsupported Media Type",
    416 "Range Not Satisfiable",
    417 "Expectation Failed",
    421 "Misdirected Request",
    422 "Unprocessable Content",
    423 "Locked",
    424 "Failed Dependency",
    425 "Too Early",
    426 "Upgrade Required",
    428 "Precondition Required",
    429 "Too Many Requests",
    431 "Request Header Fields Too Large",
    451 "Unavailable For Legal Reasons",
    500 "Internal Server Error",
    501 "Not Implemented",
    502 "Bad Gateway",
    503 "Service Unavailable",
    504 "Gateway Timeout",
    505 "HTTP Version Not Supported",
    506 "Variant Also Negotiates",
    507 "Insufficient Storage",
    508 "Loop Detected",
    510 "Not Extended",
    511 "Network Authentication Required",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_code_has_its_own_line() {
        for &code in KNOWN {
            let line = format!("HTTP/1.1 {code} {}\r\n", reason(code));
            assert_eq!(status_line_h1(code), line.as_bytes());
        }
    }

    /// RFC 9112 §4: the space after the code stays where there is no reason phrase. To read an
    /// unknown code as the x00 of its class (RFC 9110 §15) is up to the client.
    #[test]
    fn unknown_codes_are_sent_as_they_are() {
        for code in (100..600).filter(|code| !KNOWN.contains(code)) {
            let line = format!("HTTP/1.1 {code} \r\n");
            assert_eq!(status_line_h1(code), line.as_bytes());
        }
        for code in [0, 99, 600, u16::MAX] {
            assert_eq!(status_line_h1(code), b"HTTP/1.1 500 Internal Server Error\r\n", "{code}");
        }
    }

    /// RFC 9110 §6.4.1: "All 1xx (Informational), 204 (No Content), and 304 (Not Modified)
    /// responses do not include content."
    #[test]
    fn statuses_without_content() {
        let without: Vec<u16> = (100..600).filter(|&code| never_has_content(code)).collect();
        let expected: Vec<u16> = (100..200).chain([204, 304]).collect();
        assert_eq!(without, expected);
    }
}
