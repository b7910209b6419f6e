//! The vocabulary of HTTP and its wire machines: bytes and time in, values out.
//!
//! This crate does no I/O, reads no clock and, for a static request, allocates nothing. Any input
//! of a peer results in a value, in a [`refusal::Refusal`] or in a
//! [`ResponseError`](h1::client::response_error::ResponseError), never in a panic.
//!
//! | In | Module | Out |
//! |---|---|---|
//! | the bytes of a connection | [`h1::head_parser`] | [`request_head::RequestHead`] |
//! | the first bytes of a proxy's connection | [`proxy_protocol`] | the address of its client |
//! | `Forwarded`, `X-Forwarded-For` | [`forwarded_client`] | who sends a request |
//! | a request to be sent | [`h1::client`] | its bytes |
//! | the bytes of a response | [`h1::client`] | its head, content and trailers |
//! | a request, and the output of a program | [`cgi`] | variables; head and content of a response |
//! | a request, and the records of an application | [`fastcgi`], [`scgi`] | the same, and bytes |
//! | requests, and the frames of a Python process | [`python`] | bytes; heads and content |
//! | a request for a WebSocket, and its frames | [`websocket`] | messages, and frames to send |
//! | the bytes of an HTTP/2 connection | [`h2::session`] | [`h2::event`], frames to send |
//! | the bytes of streams of HTTP/3 | [`h3::request_stream`], [`h3::session`] | [`h3::event`] |
//! | cheap frames of a client | [`flood_budget`] | whether it has had too many of them |
//! | `Priority`, PRIORITY_UPDATE | [`priority`] | which response is sent first |
//! | fields of HTTP/2 and HTTP/3 | [`multiplexed_request_head`] | [`request_head::RequestHead`] |
//! | the bytes of a refused head | [`h1::refused_request_hints`] | the form of the error page |
//! | the bytes after a head | [`h1::body`] | the content, piece by piece |
//! | `multipart/form-data` | [`multipart_form`] | parts and their content, piece by piece |
//! | a compressed field section | [`hpack`], [`qpack`] | [`field_section::FieldSection`] |
//! | a request target | [`request_target`] | path, query, authority; the decoded path |
//! | `Host` or an authority | [`host`] | host and port |
//! | values of one field | [`joined_field_values`] | one value, members of lists once |
//! | the name of a field | [`reserved_fields`] | whether only the server may set it |
//! | `Accept-Encoding`, `Accept` | [`negotiate`] | which representation the client gets |
//! | `If-…` fields and validators | [`conditional`] | proceed, 304 or 412 |
//! | `Range` and a length | [`range`] | the byte ranges to send |
//! | several byte ranges | [`multipart_byteranges`] | the text around them in one body |
//! | [`prepared_response::Prepared`] | [`h1::response_encoder`], [`hpack`], [`qpack`] | a head |
//! | seconds since 1970 | [`mod@date`] | the date of a field, and back |
//! | `Authorization` of the scheme `Basic` | [`basic_credentials`] | user and password |
//! | the state of a client, and the time | [`gcra`] | whether a request is within a limit |
//! | a head that is to outlive its bytes | [`owned_head`] | a copy of it |
//!
//! [`limits`] names every bound with its reason. [`method`], [`status`], [`version`], [`field`],
//! [`media_type`], [`content_coding`], [`html_escape`] and [`error_page`] are the words all the
//! others are made of. [`grammar`] is the small grammar that all fields share, and `goaway_state`
//! ends a connection of many streams without loss, by GOAWAY.

#![forbid(unsafe_code)]

pub mod basic_credentials;
pub mod cgi;
pub mod conditional;
pub mod content_coding;
pub mod date;
pub mod error_page;
pub mod fastcgi;
pub mod field;
pub mod field_section;
pub mod flood_budget;
pub mod forwarded_client;
pub mod gcra;
mod goaway_state;
pub mod grammar;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod host;
pub mod hpack;
pub mod html_escape;
pub mod joined_field_values;
pub mod limits;
pub mod media_type;
pub mod method;
pub mod multipart_byteranges;
pub mod multipart_form;
pub mod multiplexed_request_head;
pub mod negotiate;
pub mod owned_head;
pub mod prepared_response;
pub mod priority;
pub mod proxy_protocol;
pub mod python;
pub mod qpack;
pub mod range;
pub mod refusal;
pub mod request_head;
pub mod request_target;
pub mod reserved_fields;
pub mod scgi;
pub mod status;
pub mod version;
pub mod websocket;
