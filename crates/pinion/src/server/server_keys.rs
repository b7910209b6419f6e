//! The keys that tie clients to a server beyond one worker, as values of its
//! [`Kit`](super::startup::Kit), so that another process can use them, too.

use super::quic_keys;
use crate::failure::Failure;
use crate::settings::{ListenKind, Serve};
use crate::warnings_and_notes;
use anyhow::anyhow;
use pinion_engine::quic::config::QuicKeys;
use pinion_engine::tls::tickets::Tickets;
use std::path::Path;
use std::sync::Arc;

/// The keys of a server. The files of its certificates are not among them.
pub(crate) struct ServerKeys {
    /// The keys of the sessions of TLS, over TCP and QUIC; they change with time.
    pub(crate) tickets: Arc<Tickets>,
    /// The keys of connection ids, of Retry and of stateless resets.
    pub(crate) quic: QuicKeys,
}

impl ServerKeys {
    /// Returns fresh keys, and those of QUIC as an earlier process had them.
    ///
    /// # Errors
    /// The system has no random bytes, or the state folder that was given cannot be used.
    pub(crate) fn of(settings: &Serve) -> Result<Self, Failure> {
        let tickets = Tickets::new(Vec::new());
        let tickets = tickets.map_err(|_| anyhow!("the system has no random bytes"))?;
        let quic = if settings.has(ListenKind::Quic) {
            kept_or_fresh(settings.tls.state.as_deref())?
        } else {
            QuicKeys::random()
        };
        Ok(Self { tickets: Arc::new(tickets), quic })
    }
}

/// Returns the kept keys. A server whose state folder was not given does without one.
fn kept_or_fresh(given_state: Option<&Path>) -> anyhow::Result<QuicKeys> {
    let kept = quic_keys::kept(given_state);
    match (kept, given_state) {
        (Err(error), None) => {
            warnings_and_notes::warning(format_args!(
                "after a crash, clients of HTTP/3 will wait until they give up: {error:#}"
            ));
            Ok(QuicKeys::random())
        }
        (kept, _) => kept,
    }
}
