//! The vocabulary of HTTP and its wire machines: bytes and time in, values out.
//!
//! This crate does no I/O, reads no clock and, for a static request, allocates nothing. Any input
//! of a peer results in a value, in a [`refusal::Refusal`] or in a
//! [`ResponseError`](h1::client::response_error::ResponseError), never in a panic.
//!
//! | In | Module | Out |
//! |---|---|---|
//! | the bytes of a connection | [`h1::head`] | [`request::RequestHead`] |
//! | the first bytes of a proxy's connection | [`proxy_protocol`] | the address of its client |
//! | `Forwarded`, `X-Forwarded-For` | [`client_identity`] | who sends a request |
//! | a request to be sent | [`h1::client`] | its bytes |
//! | the bytes of a response | [`h1::client`] | its head, content and trailers |
//! | a request, and the output of a program | [`cgi`] | variables; head and content of a response |
//! | a request, and the records of an application | [`fastcgi`], [`scgi`] | the same, and bytes |
//! | requests, and the frames of a Python process | [`python`] | bytes; heads and content |
//! | a request for a WebSocket, and its frames | [`websocket`] | messages, and frames to send |
//! | the bytes of an HTTP/2 connection | [`h2::session`] | [`h2::event`], frames to send |
//! | the bytes of streams of HTTP/3 | [`h3::request`], [`h3::session`] | [`h3::event`] |
//! | cheap frames of a client | [`budget`] | whether it has had too many of them |
//! | `Priority`, PRIORITY_UPDATE | [`priority`] | which response is sent first |
//! | the fields of a binary protocol | [`binary_head`] | [`request::RequestHead`] |
//! | the bytes of a refused head | [`h1::glance`] | the form and the fields of the error page |
//! | the bytes after a head | [`h1::body`] | the content, piece by piece |
//! | `multipart/form-data` | [`multipart`] | parts and their content, piece by piece |
//! | a compressed field section | [`hpack`], [`qpack`] | [`section::FieldSection`] |
//! | a request target | [`target`] | path, query, authority; the decoded path is the site's key |
//! | `Host` or an authority | [`host`] | host and port |
//! | values of one field | [`field_list`] | one value, members of lists once |
//! | the name of a field | [`reserved_fields`] | whether only the server may set it |
//! | `Accept-Encoding`, `Accept` | [`negotiate`] | which representation the client gets |
//! | `If-…` fields and validators | [`conditional`] | proceed, 304 or 412 |
//! | `Range` and a length | [`range`] | the byte ranges to send |
//! | several byte ranges | [`byteranges`] | the text around them in one body |
//! | [`prepared_response::Prepared`] | [`h1::encode`], [`hpack`], [`qpack`] | the bytes of a head |
//! | seconds since 1970 | [`mod@date`] | the date of a field, and back |
//! | `Authorization` of the scheme `Basic` | [`basic_credentials`] | user and password |
//! | the state of a client, and the time | [`gcra`] | whether a request is within a limit |
//! | a head that is to outlive its bytes | [`owned_head`] | a copy of it |
//!
//! [`limits`] names every bound with its reason. [`method`], [`status`], [`version`], [`field`],
//! [`media`], [`coding`], [`html`] and [`page`] are the words all the others are made of.
//! [`grammar`] is the small grammar that all fields share, and `leaving` ends a connection of many
//! streams without loss, by GOAWAY.

#![forbid(unsafe_code)]

pub mod basic_credentials;
pub mod binary_head;
pub mod budget;
pub mod byteranges;
pub mod cgi;
pub mod client_identity;
pub mod coding;
pub mod conditional;
pub mod date;
pub mod fastcgi;
pub mod field;
pub mod field_list;
pub mod gcra;
pub mod grammar;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod host;
pub mod hpack;
pub mod html;
mod leaving;
pub mod limits;
pub mod media;
pub mod method;
pub mod multipart;
pub mod negotiate;
pub mod owned_head;
pub mod page;
pub mod prepared_response;
pub mod priority;
pub mod proxy_protocol;
pub mod python;
pub mod qpack;
pub mod range;
pub mod refusal;
pub mod request;
pub mod reserved_fields;
pub mod scgi;
pub mod section;
pub mod status;
pub mod target;
pub mod version;
pub mod websocket;
