//! The client side of HTTP/1 (RFC 9112): requests are written to a buffer, responses are parsed.
//!
//! [`request_writer`] writes the head of a request and [`content_writer`] frames its content; a
//! [`response_parser`] reads the response from the received bytes. There are no sockets, no clock
//! and no buffers in here: the caller passes the bytes that it has received, and learns how many of
//! them were used.
//!
//! [`response_head`] is the head of a response, and [`response_framing`] the framing of its
//! content. [`request_error`] has the reasons why a request is not written, [`response_error`]
//! those why a response cannot be used, and [`limits`] every limit.
//!
//! ```
//! use pinion_http::field::Field;
//! use pinion_http::h1::client::request_writer::{OutgoingRequest, RequestTarget, write_request};
//! use pinion_http::h1::client::limits::ResponseLimits;
//! use pinion_http::h1::client::response_parser::{
//!     InputEnd, Persistence, ResponseEvent, ResponseParser,
//! };
//! use pinion_http::h1::head_parser::HeadStorage;
//!
//! let target = RequestTarget::Origin { authority: b"example.org", target: b"/hello?lang=en" };
//! let fields = [Field { name: b"Accept", value: b"text/plain" }];
//! let mut sent = Vec::new();
//! let written = write_request(&mut sent, &OutgoingRequest::get(target), fields)?;
//! assert_eq!(
//!     sent,
//!     b"GET /hello?lang=en HTTP/1.1\r\nHost: example.org\r\nAccept: text/plain\r\n\r\n",
//! );
//! assert!(written.content.is_complete());
//!
//! // These bytes have come from the server so far.
//! let received = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
//! let mut parser = ResponseParser::new(written.request, &ResponseLimits::default());
//! let mut storage = HeadStorage::new();
//! let mut content = Vec::new();
//! let mut used = 0;
//! loop {
//!     let input = &received[used..];
//!     let step = parser.step(input, InputEnd::Open, u64::MAX, &mut storage)?;
//!     used += step.used;
//!     match step.event {
//!         ResponseEvent::Interim(_) => {}
//!         ResponseEvent::Head(head) => assert_eq!(head.status, 200),
//!         ResponseEvent::Content(bytes) => content.extend_from_slice(bytes),
//!         ResponseEvent::NeedMore => unreachable!("the whole response is there"),
//!         ResponseEvent::End { persistence, .. } => {
//!             assert_eq!(persistence, Persistence::Reuse);
//!             break;
//!         }
//!     }
//! }
//! assert_eq!(content, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reuse of a connection
//!
//! A connection may have another request (RFC 9112 §9.3) when all of this holds:
//!
//! - the response ended with [`Persistence::Reuse`](response_parser::Persistence::Reuse);
//! - the request is [complete](content_writer::ContentWriter::is_complete), so that the server
//!   cannot take the next request for its content;
//! - no bytes have arrived after the response. They belong to no request, and a response that is
//!   made of them would be the response to another one (RFC 9112 §9.2).

pub mod content_writer;
pub mod limits;
pub mod request_error;
pub mod request_writer;
pub mod response_error;
pub mod response_framing;
pub mod response_head;
pub mod response_parser;
