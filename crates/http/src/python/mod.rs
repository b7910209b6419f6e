//! The protocol between the server and a Python process that executes a WSGI application (PEP
//! 3333) or an ASGI application, over a Unix socket. One connection has many requests at a time.
//!
//! Both sides send frames: a header of [12 bytes](frame_header::FRAME_HEADER_BYTES) with the kind
//! of the frame, the number of the request (0 if it belongs to none) and the number of bytes that
//! follow, each in 32 bits, the lowest byte first. Requests that arrive at about the same time are
//! one frame, and their variables are values of Python that the interpreter itself reads
//! (`marshal`).
//!
//! | Module | Subject |
//! |---|---|
//! | [`request_batch`], [`environ`] | the frame `REQUESTS`, and the variables of a request |
//! | [`asgi_scope`] | the scope that an ASGI application gets in their place |
//! | [`frame_writer`] | all other frames of the server |
//! | [`frame_reader`], [`child_frame`] | the frames of a process |
//! | [`response_head`], [`response_length_check`] | heads of responses; length of content |
//! | [`marshal_writer`] | values of Python |
//! | `marshal_shared_values` | values that several requests of a batch have |
//! | [`frame_header`], [`limits`], [`error`] | kinds, limits and errors |
//!
//! ```
//! use pinion_http::h1::client::limits::ResponseLimits;
//! use pinion_http::h1::head_parser::HeadStorage;
//! use pinion_http::python::child_frame::ChildFrame;
//! use pinion_http::python::environ::Environ;
//! use pinion_http::python::frame_reader::ChildFrameReader;
//! use pinion_http::python::request_batch::{BatchedContent, RequestBatch};
//!
//! let mut environ = Environ::default();
//! environ.add(b"REQUEST_METHOD", b"GET")?;
//! environ.add(b"PATH_INFO", b"/")?;
//! let mut batch = RequestBatch::new();
//! batch.add(1, BatchedContent::Whole(b""), &environ)?;
//! assert_eq!(
//!     batch.frame().escape_ascii().to_string(),
//!     "\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x006\\x00\\x00\\x00[\\x01\\x00\\x00\\x00)\\x03\
//!      i\\x01\\x00\\x00\\x00{Z\\x0eREQUEST_METHODz\\x03GET\
//!      Z\\tPATH_INFOz\\x01/0s\\x00\\x00\\x00\\x00",
//! );
//!
//! // These bytes have come from the process: READY, and a whole response.
//! let mut received = &b"\x10\0\0\0\0\0\0\0\x02\0\0\0{}\
//!     \x11\0\0\0\x01\0\0\0\x27\0\0\0\x1f\0\0\x00200 OK\nContent-Type: text/html\nhi\r\n"[..];
//! let mut reader = ChildFrameReader::new(&ResponseLimits::default());
//! let mut storage = HeadStorage::new();
//! let mut responses = 0;
//! while !received.is_empty() {
//!     let step = reader.step(received, &mut storage)?;
//!     received = &received[step.used..];
//!     match step.frame {
//!         None | Some(ChildFrame::Ready("{}")) => {}
//!         Some(ChildFrame::Response { request: 1, head, content, missing_bytes: 0 }) => {
//!             assert_eq!((head.status, head.fields.len(), content), (200, 1, &b"hi\r\n"[..]));
//!             responses += 1;
//!         }
//!         other => unreachable!("{other:?}"),
//!     }
//! }
//! assert_eq!(responses, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod asgi_scope;
pub mod child_frame;
pub mod environ;
pub mod error;
pub mod frame_header;
pub mod frame_reader;
pub mod frame_writer;
pub mod limits;
mod marshal_shared_values;
pub mod marshal_writer;
pub mod request_batch;
pub mod response_head;
pub mod response_length_check;
