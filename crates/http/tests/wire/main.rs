//! Tests of the wire machines and decisions of the crate, from outside.
//!
//! `oracle/` has a second, plain and slow reader of everything that a peer can send, each file with
//! one `check(bytes)` that compares the crate with it. The properties here, the replay of the fuzz
//! corpora and the fuzz targets themselves (`/fuzz`) all call the same checks.

mod blocks;
mod bodies;
mod cgi_responses;
mod cgi_variables;
mod client_identities;
mod client_properties;
mod compressed;
mod compressed_fields_law;
mod corpus;
mod encoding;
mod fastcgi;
mod gateway_properties;
mod h2;
mod h3;
mod heads;
mod hyper_client;
mod one_limit;
mod oracle;
mod properties;
mod proxy_header_peer;
mod proxy_headers;
mod python_batches;
mod python_frames;
mod python_scopes;
mod qpack;
mod responses;
mod smuggling;
mod websocket;
mod words;
mod written_requests;
