//! Plain readers for comparisons. Each file is independent, so that a fuzz target can include it;
//! but those of compressed fields need `http1_equivalent_head`, those of content `chunk_lines`,
//! that of HTTP/3 `extended_connect`, those of programs `plain_cgi_output`, and those of encoders
//! `random_prepared_responses` and `qpack`.

pub(crate) mod accept_encoding;
pub(crate) mod cgi_reader_check;
pub(crate) mod chunk_lines;
pub(crate) mod client_identity;
pub(crate) mod extended_connect;
pub(crate) mod fastcgi;
pub(crate) mod h1_body;
pub(crate) mod h1_request;
pub(crate) mod h1_response;
pub(crate) mod h2_session_invariants;
pub(crate) mod h3;
pub(crate) mod hpack;
pub(crate) mod hpack_encoder;
pub(crate) mod http1_equivalent_head;
pub(crate) mod multipart;
pub(crate) mod path_decode;
pub(crate) mod plain_cgi_output;
pub(crate) mod proxy_header;
pub(crate) mod python_frames;
pub(crate) mod qpack;
pub(crate) mod qpack_encoder;
pub(crate) mod random_prepared_responses;
pub(crate) mod range;
pub(crate) mod websocket;
