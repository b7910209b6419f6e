//! Plain readers for comparisons. Each file is independent, so that a fuzz target can include it;
//! but those of compressed fields need `as_http1`, those of content `content_lines`, that of HTTP/3
//! `extended_connect`, those of programs `gateway_output`, and those of encoders `responses` and
//! `qpack`.

pub(crate) mod accept_encoding;
pub(crate) mod as_http1;
pub(crate) mod cgi_head;
pub(crate) mod client_identity;
pub(crate) mod content_lines;
pub(crate) mod extended_connect;
pub(crate) mod fastcgi;
pub(crate) mod gateway_output;
pub(crate) mod h1_body;
pub(crate) mod h1_request;
pub(crate) mod h1_response;
pub(crate) mod h2;
pub(crate) mod h3;
pub(crate) mod hpack;
pub(crate) mod hpack_encoder;
pub(crate) mod multipart;
pub(crate) mod proxy_header;
pub(crate) mod python_frames;
pub(crate) mod qpack;
pub(crate) mod qpack_encoder;
pub(crate) mod range;
pub(crate) mod responses;
pub(crate) mod target_decode;
pub(crate) mod websocket;
