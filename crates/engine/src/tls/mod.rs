//! TLS 1.2 and 1.3 (RFC 8446) on rustls and aws-lc-rs.
//!
//! | file | contents |
//! |---|---|
//! | [`certificate`] | PEM → a certificate with its key, its names, its time |
//! | [`resolver`] | the choice of a client's certificate; all of them are replaced at once |
//! | [`tickets`] | session tickets: keys, their rotation, the sealed data |
//! | [`config`] | the common settings of a listener's connections |
//! | `hello` | the cipher suites that suit a client |
//! | `hidden_name` | names that the library cannot parse |
//! | `sessions` | one connection, on either side |
//! | `session`, `client_session` | a connection of a client; one that the server has opened |
//!
//! The module works on bytes; the caller reads files.

pub mod certificate;
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
/// Panics if the system has none: there is no security without it.
#[expect(clippy::expect_used, reason = "there is nothing to go on with")]
pub(crate) fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has no randomness");
}

/// The common settings of a TLS listener's connections: certificates, protocols, tickets.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// The settings for clients whose order of cipher suites is followed.
    pub(crate) by_client: Arc<rustls::ServerConfig>,
    /// The settings for clients that put AES first; they differ only in the order of suites.
    pub(crate) aes_first: Arc<rustls::ServerConfig>,
    /// The settings for clients that request a name which is no DNS name, and is hidden from the
    /// library.
    pub(crate) hidden_name: Arc<rustls::ServerConfig>,
}
