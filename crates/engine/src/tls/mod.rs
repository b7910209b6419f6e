//! TLS 1.2 and 1.3 (RFC 8446) on rustls and aws-lc-rs.
//!
//! | file | what it holds |
//! |---|---|
//! | [`certificates`] | PEM → a certificate with its key, its names, its time |
//! | [`resolver`] | which certificate a client gets; all of them are replaced at once |
//! | [`tickets`] | session tickets: keys, their rotation, what they seal |
//! | [`config`] | what the connections of a listener have in common |
//! | `hello` | which cipher suites suit a client |
//! | `hidden_name` | names that the library does not read |
//! | `sessions` | one connection, on either side |
//! | `session`, `client_session` | … of a client; that the server has opened |
//!
//! Bytes come in; what has a name in the file system is read by whoever calls.

pub mod certificates;
pub mod config;
pub mod resolver;
pub mod tickets;

mod client_session;
mod hello;
mod hidden_name;
mod session;
mod sessions;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use hello::{Choice, bare_choice};
pub(crate) use hidden_name::HiddenName;
pub(crate) use session::{Brought, Inside};
pub(crate) use sessions::TlsSession;

/// Fills `bytes` with randomness of the system.
///
/// # Panics
/// When the system has none: there is no security without it.
#[expect(clippy::expect_used, reason = "there is nothing to go on with")]
pub(crate) fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has no randomness");
}

/// What the connections of a TLS listener have in common: certificates, protocols, tickets.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// For clients whose order of cipher suites holds.
    pub(crate) by_client: Arc<rustls::ServerConfig>,
    /// For those that put AES first; the same but for the order of suites.
    pub(crate) aes_first: Arc<rustls::ServerConfig>,
    /// For those that ask for a name which is no DNS name, and is hidden from the library.
    pub(crate) hidden_name: Arc<rustls::ServerConfig>,
}
