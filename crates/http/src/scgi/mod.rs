//! SCGI as a web server speaks it ([specification]): [`request_writer`] writes the head of a
//! request, a netstring of variables, and the content follows without any framing.
//!
//! The response is that of a CGI program, and the application ends it by closing the connection: a
//! [`CgiReader`](crate::cgi::response_reader::CgiReader) reads it. A connection has one request.
//!
//! ```
//! use pinion_http::h1::client::request_writer::RequestContent;
//! use pinion_http::method::Method;
//! use pinion_http::scgi::request_writer::write_request;
//!
//! let mut sent = Vec::new();
//! let content = RequestContent::Length(27);
//! let mut written = write_request(&mut sent, Method::Post, content, |pairs| {
//!     pairs.add(b"REQUEST_METHOD", b"POST")?;
//!     pairs.add(b"REQUEST_URI", b"/deepthought")
//! })?;
//! written.content.write(&mut sent, b"What is the answer to life?")?;
//! assert_eq!(
//!     sent.escape_ascii().to_string(),
//!     "70:CONTENT_LENGTH\\x0027\\x00SCGI\\x001\\x00REQUEST_METHOD\\x00POST\\x00\
//!      REQUEST_URI\\x00/deepthought\\x00,What is the answer to life?",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [specification]: https://python.ca/scgi/protocol.txt

pub mod request_writer;
