//! What ties clients to a server beyond one worker, as values of its [`Kit`](super::kit::Kit), so
//! that another process can take them over.

use anyhow::anyhow;
use pinion_engine::quic::config::QuicKeys;
use pinion_engine::tls::tickets::Tickets;
use std::sync::Arc;

/// The keys of a server. The files of its certificates are not among them.
pub(crate) struct Keys {
    /// Of the sessions of TLS, over TCP and QUIC; they change with time.
    pub(crate) tickets: Arc<Tickets>,
    /// Of connection ids, of Retry and of stateless resets.
    pub(crate) quic: QuicKeys,
}

impl Keys {
    /// Fresh ones.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn random() -> Result<Self, anyhow::Error> {
        let tickets = Tickets::new(Vec::new());
        let tickets = tickets.map_err(|_| anyhow!("the system has no random bytes"))?;
        Ok(Self { tickets: Arc::new(tickets), quic: QuicKeys::random() })
    }
}
