//! Connection IDs that contain the worker of the connection, and the process in which it lives.
//! Only holders of the key can read that; to all others the IDs are random (RFC 9000 §5.1).
//!
//! An ID is eight random bytes, then worker and epoch of the process, masked by a keyed hash of the
//! random bytes, then two bytes of that hash, by which foreign IDs are recognized.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use siphasher::sip::SipHasher24;

const RANDOM_BYTES: usize = 8;
/// Bytes of the worker, then of the epoch.
const PLACE_BYTES: usize = 4;
const CHECK_BYTES: usize = 2;
/// Bytes of every connection ID of ours.
pub(crate) const ID_BYTES: usize = RANDOM_BYTES + PLACE_BYTES + CHECK_BYTES;

/// The home of a connection: a worker of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionHome {
    pub(crate) worker: u16,
    /// The epoch of the process; another one after a take-over.
    pub(crate) epoch: u16,
}

/// The key of the IDs of a server; a take-over hands it on.
#[derive(Clone)]
pub(crate) struct IdKey(SipHasher24);

impl IdKey {
    /// Creates the key from random bytes.
    pub(crate) fn new(bytes: &[u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(bytes))
    }

    fn mask(&self, random: &[u8]) -> [u8; PLACE_BYTES + CHECK_BYTES] {
        let [mask @ .., _, _] = self.0.hash(random).to_le_bytes();
        mask
    }

    /// Returns an ID for a connection in `place`.
    fn id(&self, random: [u8; RANDOM_BYTES], place: ConnectionHome) -> [u8; ID_BYTES] {
        let mut id = [0; ID_BYTES];
        let (front, back) = id.split_at_mut(RANDOM_BYTES);
        front.copy_from_slice(&random);
        back.copy_from_slice(&self.mask(&random));
        let [worker, epoch] = [place.worker, place.epoch].map(u16::to_be_bytes);
        back.iter_mut().zip(worker.into_iter().chain(epoch)).for_each(|(to, from)| *to ^= from);
        id
    }

    /// Returns the home of the connection with an ID; `None` if the ID is none of ours.
    pub(crate) fn place(&self, id: &[u8]) -> Option<ConnectionHome> {
        let (random, masked) = id.split_at_checked(RANDOM_BYTES)?;
        let mask = self.mask(random);
        let masked: &[u8; PLACE_BYTES + CHECK_BYTES] = masked.try_into().ok()?;
        if masked[PLACE_BYTES..] != mask[PLACE_BYTES..] {
            return None;
        }
        let part =
            |at: usize| u16::from_be_bytes([masked[at] ^ mask[at], masked[at + 1] ^ mask[at + 1]]);
        Some(ConnectionHome { worker: part(0), epoch: part(2) })
    }
}

/// The source of the random bytes of a listener.
#[derive(Clone)]
pub(crate) enum RandomSource {
    System,
    /// A seed, in a simulation.
    #[cfg(feature = "sim")]
    Seeded(crate::backend::sim::Random),
}

impl RandomSource {
    /// Returns the seed of an endpoint, or `None` if it takes its own from the system.
    pub(crate) fn endpoint_seed(&mut self) -> Option<[u8; 32]> {
        match self {
            Self::System => None,
            #[cfg(feature = "sim")]
            Self::Seeded(random) => Some(random.bytes()),
        }
    }

    /// Returns the random bytes of the next ID.
    fn id_bytes(&mut self) -> [u8; RANDOM_BYTES] {
        match self {
            Self::System => {
                let mut bytes = [0; RANDOM_BYTES];
                crate::tls::fill_random(&mut bytes);
                bytes
            }
            #[cfg(feature = "sim")]
            Self::Seeded(random) => random.bytes(),
        }
    }
}

/// The generator of one worker's IDs.
pub(crate) struct Ids {
    pub(crate) key: IdKey,
    pub(crate) place: ConnectionHome,
    pub(crate) random: RandomSource,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.key.id(self.random.id_bytes(), self.place))
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.key.place(id).map(|_| ()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_connection_id_is_decoded_only_with_its_key(
            key in any::<[u8; 16]>(),
            other in any::<[u8; 16]>(),
            random in any::<[u8; RANDOM_BYTES]>(),
            worker in any::<u16>(),
            epoch in any::<u16>(),
            changed in 0..ID_BYTES,
        ) {
            let place = ConnectionHome { worker, epoch };
            let mut id = IdKey::new(&key).id(random, place);
            prop_assert_eq!(IdKey::new(&key).place(&id), Some(place));
            prop_assert_eq!(IdKey::new(&key).place(&id[1..]), None);
            if key != other {
                prop_assert_ne!(IdKey::new(&other).place(&id), Some(place));
            }
            id[changed] ^= 1;
            prop_assert_ne!(IdKey::new(&key).place(&id), Some(place));
        }
    }
}
