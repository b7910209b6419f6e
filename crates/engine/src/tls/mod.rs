//! TLS 1.2 and 1.3 (RFC 8446) on rustls and aws-lc-rs.

mod session;

use std::sync::Arc;

pub(crate) use session::{Fault, Inside, TlsSession};

/// What the connections of a TLS listener have in common: certificates, protocols, tickets.
#[derive(Debug, Clone)]
pub struct TlsConfig(pub(crate) Arc<rustls::ServerConfig>);
