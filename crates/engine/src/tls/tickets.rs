//! Session tickets (RFC 5077, RFC 8446 §4.6.1), which a client sends back to resume without a full
//! handshake, sealed with AES-256-GCM. All workers have the same keys, so any worker accepts a
//! ticket.
//!
//! A ticket is the name of its key (16 bytes), a nonce (12), the sealed state, and the tag (16).
//! The name is authenticated with it. Listeners that require client certificates neither issue nor
//! accept tickets: see [`TlsConfig::new`](super::TlsConfig::new).
//!
//! Keys are plain values ([`TicketKey`]), so that they can be handed to another process.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use rustls::server::ProducesTickets;

use crate::limits::{TICKET_KEY_SECONDS, TICKET_KEYS_MAX};

const NAME_BYTES: usize = 16;
const TAG_BYTES: usize = 16;

/// A key that seals tickets.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    /// The name by which a ticket identifies its key; random.
    pub name: [u8; NAME_BYTES],
    /// The AES-256 key.
    pub secret: [u8; 32],
    /// The time at which it was made, in seconds since 1970.
    pub made_unix_seconds: u64,
}

/// The ticket keys of a server, with their rotation.
pub struct Tickets {
    /// The keys, the newest first; never empty.
    keys: RwLock<Vec<ReadyKey>>,
    now: fn() -> u64,
}

/// A key that is ready to be used.
struct ReadyKey {
    key: TicketKey,
    cipher: LessSafeKey,
}

impl TicketKey {
    /// Creates a new key.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    pub fn new(now_unix_seconds: u64) -> Result<Self, Unspecified> {
        let mut key =
            Self { name: [0; NAME_BYTES], secret: [0; 32], made_unix_seconds: now_unix_seconds };
        random(&mut key.name)?;
        random(&mut key.secret)?;
        Ok(key)
    }
}

/// Fills `bytes` with randomness of the system, which needs no generator to be started first.
fn random(bytes: &mut [u8]) -> Result<(), Unspecified> {
    getrandom::fill(bytes).map_err(|_| Unspecified)
}

/// Formats the key without its secret.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tickets").field(&self.keys()).finish()
    }
}

impl Tickets {
    /// Creates the tickets with keys that were handed on, the newest first; without any, with a new
    /// key.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    pub fn new(keys: Vec<TicketKey>) -> Result<Self, Unspecified> {
        Self::at(keys, unix_seconds)
    }

    /// Returns the current keys, the newest first, to be handed on.
    pub fn keys(&self) -> Vec<TicketKey> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|ready| ready.key.clone()).collect()
    }

    pub(super) fn at(keys: Vec<TicketKey>, now: fn() -> u64) -> Result<Self, Unspecified> {
        let keys: Result<Vec<_>, _> = keys.into_iter().map(ReadyKey::new).collect();
        let mut keys = keys?;
        if keys.is_empty() {
            keys.push(ReadyKey::new(TicketKey::new(now())?)?);
        }
        keys.truncate(TICKET_KEYS_MAX);
        Ok(Self { keys: RwLock::new(keys), now })
    }

    pub(super) fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
        self.rotate();
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let ReadyKey { key, cipher } = keys.first().ok_or(Unspecified)?;
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + plain.len() + TAG_BYTES);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        let mut sealed = plain.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        cipher.seal_in_place_append_tag(nonce, Aad::from(key.name), &mut sealed)?;
        ticket.append(&mut sealed);
        Ok(ticket)
    }

    pub(super) fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let now = (self.now)();
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let is_match = |ready: &&ReadyKey| ready.key.name == *name && ready.key.opens(now);
        let ReadyKey { key, cipher } = keys.iter().find(is_match)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = cipher.open_in_place(nonce, Aad::from(key.name), &mut sealed).ok()?;
        let length = plain.len();
        sealed.truncate(length);
        Some(sealed)
    }

    /// Adds a new key if the newest has expired. Without random bytes the old one stays.
    fn rotate(&self) {
        let now = (self.now)();
        let is_due = |keys: &[ReadyKey]| keys.first().is_none_or(|ready| !ready.key.seals(now));
        if !is_due(&self.keys.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let Ok(next) = TicketKey::new(now).and_then(ReadyKey::new) else { return };
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        // Another worker may have been faster.
        if is_due(&keys) {
            keys.insert(0, next);
            keys.truncate(TICKET_KEYS_MAX);
        }
    }
}

impl TicketKey {
    fn seals(&self, now: u64) -> bool {
        // A clock that was set back must not keep a key for ever.
        let age = now.checked_sub(self.made_unix_seconds);
        age.is_some_and(|age| age < TICKET_KEY_SECONDS)
    }

    fn opens(&self, now: u64) -> bool {
        now.saturating_sub(self.made_unix_seconds) < TICKET_KEY_SECONDS * TICKET_KEYS_MAX as u64
    }
}

impl ReadyKey {
    fn new(key: TicketKey) -> Result<Self, Unspecified> {
        let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key.secret)?);
        Ok(Self { key, cipher })
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    /// Returns the lifetime in seconds for which the last ticket of a key is valid: while there are
    /// newer keys.
    fn lifetime(&self) -> u32 {
        (TICKET_KEY_SECONDS * (TICKET_KEYS_MAX as u64 - 1)) as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain).ok()
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket)
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
