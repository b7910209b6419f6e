//! Outgoing connections: the parts that open, check and keep connections to other servers, and an
//! HTTP/1.1 client over them.
//!
//! All parts except the lookups of [`resolver`], the files of [`system_roots`] and [`http_client`]
//! are free of I/O: values and the time go in, actions come out. [`http_client`] performs the
//! actions on connections of the engine, so it also runs in the simulator.
//!
//! | Module | Task |
//! |---|---|
//! | [`connect_target`] | the target of a connection: the origin of a URL, or a Unix socket |
//! | [`address_policy`] | which addresses connections may be opened to |
//! | [`address_class`], [`ip_network`] | special addresses, and networks of settings |
//! | [`happy_eyeballs`] | which address of a name is tried when (RFC 8305) |
//! | `address_order` | the order of addresses (RFC 6724) |
//! | [`resolver`] | the resolution of host names, by tasks besides the workers |
//! | [`client_tls`] | TLS settings: which servers are trusted |
//! | [`lazy_client_tls`] | TLS settings that are created when they are needed |
//! | [`certificate_pin`] | servers that are trusted by their certificate or key |
//! | [`system_roots`] | root certificates of the system |
//! | [`connection_pool`] | connections that are kept for further requests |
//! | [`request_url`] | the URL of a request |
//! | [`content_decoder`] | gzip and brotli of responses |
//! | [`http_client`] | requests and their responses, over connections of the engine |
//! | [`retry`] | which requests are repeated when a kept connection was dead |
//! | [`memory_footprint`] | the memory of open requests |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod address_class;
mod address_order;
pub mod address_policy;
pub mod certificate_pin;
pub mod client_tls;
pub mod connect_target;
pub mod connection_pool;
pub mod content_decoder;
pub mod happy_eyeballs;
pub mod http_client;
pub mod ip_network;
pub mod lazy_client_tls;
pub mod limits;
pub mod memory_footprint;
pub mod request_url;
pub mod resolver;
pub mod retry;
pub mod system_roots;
