//! Gateways: requests that another server responds to (RFC 9110 §3.7).
//!
//! A worker has one [`proxy::Proxy`]. It forwards requests to upstream servers over connections of
//! the engine, and their responses to the clients, in both directions as far as there is room. What
//! a forwarded message looks like is decided by functions without I/O.
//!
//! | Module | Task |
//! |---|---|
//! | [`upstream`] | a server that requests are forwarded to, and how |
//! | [`request_forwarding`] | a request as the upstream server gets it |
//! | [`response_forwarding`] | the fields of a response as the client gets them |
//! | `connection_fields` | what becomes of a field that is forwarded (RFC 9110 §7.6.1) |
//! | [`proxy`] | the requests of one worker that are forwarded |
//! | `tunnels` | connections that were switched to another protocol |
//! | [`proxy_error`] | why a request has no response, and the status for that |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

mod connection_fields;
pub mod limits;
pub mod proxy;
pub mod proxy_error;
pub mod request_forwarding;
pub mod response_forwarding;
mod tunnels;
pub mod upstream;
