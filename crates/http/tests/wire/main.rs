//! Tests of the wire machines and decisions of the crate, from outside.
//!
//! `oracle/` has a second, plain and slow reader of everything that a peer can send, each file with
//! one `check(bytes)` that compares the crate with it. The properties here, the replay of the fuzz
//! corpora and the fuzz targets themselves (`/fuzz`) all call the same checks.

mod bodies;
mod cgi_responses;
mod cgi_variables;
mod compressed_fields_law;
mod equal_protocol_limits;
mod event_format;
mod fastcgi;
mod field_section_properties;
mod forwarded_client_properties;
mod fuzz_corpus;
mod gateway_properties;
mod h2;
mod h3;
mod hpack_qpack_round_trip;
mod http1_client_properties;
mod http1_response_parsing;
mod hyper_client;
mod ls_qpack_comparison;
mod oracle;
mod ppp_comparison;
mod properties;
mod proxy_header_properties;
mod python_batches;
mod python_frames;
mod python_scopes;
mod request_heads;
mod response_head_encoding;
mod smuggling;
mod websocket;
mod written_requests;
