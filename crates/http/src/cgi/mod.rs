//! CGI/1.1 (RFC 3875): the variables of a request, and the output of a program as a response.
//! [FastCGI](crate::fastcgi) and [SCGI](crate::scgi) carry the same.
//!
//! [`variables`] makes the variables, and a [`response_reader`] reads the response of a program
//! from the bytes that come. There are no sockets, no processes and no clock in here.
//!
//! `output` is the part of a response that CGI, FastCGI and SCGI share: `head_end` finds the end of
//! the head, and `response_head` reads its fields. [`response_event`] has the events of a reader,
//! [`variable_error`] the reasons why variables cannot be written, [`error`] the errors of a
//! response, and [`limits`] every limit.
//!
//! ```
//! use pinion_http::cgi::response_event::GatewayEvent;
//! use pinion_http::cgi::response_reader::CgiReader;
//! use pinion_http::h1::client::limits::ResponseLimits;
//! use pinion_http::h1::client::request_writer::SentRequest;
//! use pinion_http::h1::client::response_parser::{InputEnd, ResponseEvent};
//! use pinion_http::h1::head_parser::HeadStorage;
//! use pinion_http::method::Method;
//!
//! let request = SentRequest {
//!     method: Method::Get,
//!     upgrade: false,
//!     close: true,
//!     expects_continue: false,
//! };
//! let output = b"Content-Type: text/plain\nStatus: 404 Not Found\n\nNo such page\n";
//! let mut reader = CgiReader::new(request, &ResponseLimits::default());
//! let mut storage = HeadStorage::new();
//! let mut content = Vec::new();
//! let mut used = 0;
//! loop {
//!     let step = reader.step(&output[used..], InputEnd::Closed, u64::MAX, &mut storage)?;
//!     used += step.used;
//!     match step.event {
//!         GatewayEvent::Response(ResponseEvent::Head(head)) => {
//!             assert_eq!(head.status, 404);
//!             assert_eq!(head.fields.len(), 1, "Status is no field of the response");
//!         }
//!         GatewayEvent::Response(ResponseEvent::Content(bytes)) => {
//!             content.extend_from_slice(bytes);
//!         }
//!         GatewayEvent::Response(ResponseEvent::End { .. }) => break,
//!         other => unreachable!("{other:?} is in no whole document"),
//!     }
//! }
//! assert_eq!(content, b"No such page\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Programs that write HTTP
//!
//! The output of a program whose file name begins with `nph-` is a whole response of HTTP/1 (RFC
//! 3875 §5). The [parser of HTTP/1](crate::h1::client::response_parser) reads it. The content of
//! such a response often has no length, so the end of the output ends it:
//!
//! ```
//! use pinion_http::h1::client::limits::ResponseLimits;
//! use pinion_http::h1::client::request_writer::SentRequest;
//! use pinion_http::h1::client::response_parser::{InputEnd, ResponseEvent, ResponseParser};
//! use pinion_http::h1::head_parser::HeadStorage;
//! use pinion_http::method::Method;
//!
//! let request = SentRequest {
//!     method: Method::Get,
//!     upgrade: false,
//!     close: true,
//!     expects_continue: false,
//! };
//! let output = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello\n";
//! let mut parser = ResponseParser::new(request, &ResponseLimits::default());
//! let mut storage = HeadStorage::new();
//! let step = parser.step(output, InputEnd::Closed, u64::MAX, &mut storage)?;
//! assert!(matches!(step.event, ResponseEvent::Head(head) if head.status == 200));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod error;
mod head_end;
pub mod limits;
pub(crate) mod output;
pub mod response_event;
pub(crate) mod response_head;
pub mod response_reader;
pub mod variable_error;
pub mod variables;
