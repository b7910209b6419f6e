//! Clients that other clients have killed: the streams of their connections get a message, a little
//! later if their worker has too many messages at the moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pinion_engine::Poster;
use pinion_engine::exchange_address::Address;

/// The message to the stream of a client that was killed. Replies that it has not read are not
/// sent.
pub(super) struct ClientKilled;

/// The messages to clients that other clients have killed.
#[derive(Default)]
pub(crate) struct StoreKills {
    /// Streams whose workers had no space for one more message.
    unposted: Mutex<Vec<(Poster, Address)>>,
}

impl std::fmt::Debug for StoreKills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses: Vec<_> = self.lock().iter().map(|(_, address)| *address).collect();
        f.debug_struct("StoreKills").field("unposted", &addresses).finish()
    }
}

impl StoreKills {
    /// Posts the kill of the client with this stream.
    pub(super) fn post(&self, poster: &Poster, address: Address) {
        if poster.post(address, Box::new(ClientKilled)).is_err() {
            let mut unposted = self.lock();
            // A client can be killed again as long as it is there.
            if !unposted.iter().any(|(_, known)| *known == address) {
                unposted.push((poster.clone(), address));
            }
        }
    }

    /// Posts the messages that could not be posted. The upkeep of the store does it again and
    /// again.
    pub(crate) fn post_again(&self) {
        self.lock().retain(|(poster, address)| {
            // A stream that is gone gets no message, and that is no error.
            poster.post(*address, Box::new(ClientKilled)).is_err()
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Poster, Address)>> {
        self.unposted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
