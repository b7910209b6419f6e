//! FastCGI 1.0 as a web server speaks it ([specification]): requests are written to a buffer,
//! responses are read from records.
//!
//! [`request_writer`] writes the beginning of a request with its variables, [`content_writer`]
//! frames its content, and a [`response_reader`] reads the response, which is that of a CGI program
//! (RFC 3875 §6). One connection has one request at a time: `FCGI_MPXS_CONNS` is optional, and
//! php-fpm does not have it. In this module a § without a document is a section of the FastCGI
//! specification.
//!
//! `record` encodes and decodes the headers of records (§3.3) and their contents, [`error`] has the
//! errors, and [`limits`] has every limit.
//!
//! ```
//! use pinion_http::cgi::response_event::GatewayEvent;
//! use pinion_http::fastcgi::request_writer::{FastCgiRequest, write_request};
//! use pinion_http::fastcgi::response_reader::FastCgiReader;
//! use pinion_http::h1::client::limits::ResponseLimits;
//! use pinion_http::h1::client::request_writer::RequestContent;
//! use pinion_http::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
//! use pinion_http::h1::head_parser::HeadStorage;
//! use pinion_http::method::Method;
//!
//! let request = FastCgiRequest {
//!     method: Method::Get,
//!     content: RequestContent::Length(0),
//!     keep_connection: true,
//! };
//! let mut sent = Vec::new();
//! let written = write_request(&mut sent, &request, |params| {
//!     params.add(b"REQUEST_METHOD", b"GET")?;
//!     params.add(b"SCRIPT_FILENAME", b"/srv/www/index.php")
//! })?;
//! assert!(written.content.is_complete());
//!
//! // These bytes have come from the application: a record of output, and the end of the request.
//! let received = b"\x01\x06\x00\x01\x00\x1a\x00\x00Content-Type: text/plain\n\n\
//!                  \x01\x06\x00\x01\x00\x05\x03\x00hello\x00\x00\x00\
//!                  \x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
//! let mut reader = FastCgiReader::new(written.request, &ResponseLimits::default());
//! let mut storage = HeadStorage::new();
//! let mut content = Vec::new();
//! let mut used = 0;
//! loop {
//!     let step = reader.step(&received[used..], InputEnd::Open, u64::MAX, &mut storage)?;
//!     used += step.used;
//!     match step.event {
//!         GatewayEvent::Stderr(text) => eprintln!("{}", text.escape_ascii()),
//!         GatewayEvent::LocalRedirect(target) => unreachable!("no redirect to {target:?}"),
//!         GatewayEvent::Response(ResponseEvent::Head(head)) => assert_eq!(head.status, 200),
//!         GatewayEvent::Response(ResponseEvent::Content(bytes)) => {
//!             content.extend_from_slice(bytes);
//!         }
//!         GatewayEvent::Response(ResponseEvent::End { persistence, .. }) => {
//!             assert_eq!(persistence, Persistence::Reuse);
//!             break;
//!         }
//!         GatewayEvent::Response(other) => unreachable!("{other:?}"),
//!     }
//! }
//! assert_eq!(content, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [specification]: https://fastcgi-archives.github.io/FastCGI_Specification.html

pub mod content_writer;
pub mod error;
pub mod limits;
mod record;
pub mod request_writer;
pub mod response_reader;
