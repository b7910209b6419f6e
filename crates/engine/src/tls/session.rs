//! One TLS connection: records in, plaintext out, and back. Bytes only; whoever holds it reads and
//! writes the socket.
//!
//! The library has no buffer of its own here, so a connection that waits has none: what arrives is
//! opened in a buffer of the worker, and only the front of a record that is not whole is kept.

use std::io::IoSlice;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};

use super::TlsConfig;
use super::config::Suiting;
use super::hello::RECORD_HEADER_BYTES;
use super::hidden_name::HiddenName;
use crate::backend::Sending;
use crate::limits::{HANDSHAKE_MAX_BYTES, TLS_RECORD_MAX_BYTES};

#[cfg(test)]
mod tests;

/// What is spoken inside, by ALPN (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    /// HTTP/1.1, or the peer did not say.
    Http1,
    /// HTTP/2 (RFC 9113 §3.2).
    Http2,
}

/// What records bring.
pub(crate) enum Brought<'a> {
    /// The handshake is over; comes once, before all content.
    Begun(Inside),
    /// Plaintext of the peer.
    Content(&'a [u8]),
}

/// The peer's bytes are no TLS, or break its rules. An alert that says so waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TlsFault;

/// See the module's head.
pub(crate) struct ServerSession {
    records: UnbufferedServerConnection,
    /// The settings to choose from, until the client's cipher suites have arrived. The library sees
    /// no byte before.
    undecided: Option<Box<TlsConfig>>,
    /// The name that the library does not see, until the handshake is over.
    hidden_name: Option<Arc<HiddenName>>,
    /// What came and is not used yet: a record, or a message of the handshake, that is not whole.
    /// The library knows places in it, and is shown it again whenever it is asked for anything.
    partial: Vec<u8>,
    wire: Wire,
    /// Bytes of content in records that wait to be sent: all since none waited.
    sealed_bytes: usize,
    /// Bytes of the handshake that were used.
    handshake_bytes: usize,
    state: State,
    /// Something of the handshake was sent, so what follows may have to be encrypted.
    has_answered: bool,
    /// The peer was told that nothing follows.
    closed: bool,
}

/// A record of the type alert that is not encrypted, fatal: decode_error (RFC 8446 §6).
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// The same of a record that is too long: record_overflow.
const RECORD_OVERFLOW: [u8; 7] = [21, 3, 3, 0, 2, 2, 22];

/// Most bytes in a record that is not encrypted (RFC 8446 §5.1).
const PLAIN_RECORD_MAX_BYTES: usize = 1 << 14;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Handshake,
    Open,
    /// The peer has said that it will send no more.
    Ended,
    /// Nobody reads what it sends any more.
    Unheard,
    /// It can only be closed.
    Faulty,
}

impl ServerSession {
    /// A session with a peer whose first bytes are `input`, which are still to be
    /// [taken](Self::take); `None` when there can be none.
    pub(crate) fn new(config: &TlsConfig, input: &[u8]) -> Option<Self> {
        let known = config.suiting(input).filter(|suiting| suiting.hidden.is_none());
        let undecided = known.is_none().then(|| Box::new(config.clone()));
        let settings = known.map_or(&config.by_client, |suiting| suiting.settings);
        Some(Self {
            records: UnbufferedServerConnection::new(Arc::clone(settings)).ok()?,
            undecided,
            hidden_name: None,
            partial: Vec::new(),
            wire: Wire::default(),
            sealed_bytes: 0,
            handshake_bytes: 0,
            state: State::Handshake,
            has_answered: false,
            closed: false,
        })
    }

    /// Takes all of `input` and tells what it brings, having opened it in `buffer`, as long as
    /// `tell` says that what follows is read. Behind the peer's close_notify nothing is (RFC 8446
    /// §6.1). Gives the bytes at the end that nobody reads.
    ///
    /// # Errors
    /// When the session cannot go on.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        buffer: &mut Vec<u8>,
        mut tell: impl FnMut(Brought<'_>) -> bool,
    ) -> Result<usize, TlsFault> {
        if matches!(self.state, State::Ended | State::Unheard | State::Faulty) {
            return Ok(input.len());
        }
        buffer.clear();
        buffer.reserve_exact(self.partial.len() + input.len());
        buffer.extend_from_slice(&self.partial);
        buffer.extend_from_slice(input);
        if !self.decide(buffer) {
            self.keep(buffer)?;
            return Ok(0);
        }
        let mut unused = buffer.as_mut_slice();
        loop {
            let step = self.step(unused, &mut tell);
            let (used, goes_on) =
                step.map_or_else(|used| (used, None), |(used, on)| (used, Some(on)));
            if self.state == State::Handshake {
                self.handshake_bytes += used;
            }
            unused = unused.get_mut(used..).unwrap_or_default();
            if !self.records.is_handshaking() && self.state == State::Handshake {
                self.state = State::Open;
                self.hidden_name = None;
                tell(Brought::Begun(self.inside()));
            }
            match goes_on {
                Some(_) if self.state == State::Unheard => {
                    self.partial = Vec::new();
                    return Ok(unused.len());
                }
                Some(true) => {}
                Some(false) => return self.keep(unused).map(|()| 0),
                None => return Err(self.fail(unused)),
            }
        }
    }

    /// Chooses the settings by the first bytes of the client. Returns false as long as they do not
    /// tell.
    fn decide(&mut self, input: &mut [u8]) -> bool {
        let Some(config) = &self.undecided else { return true };
        let Some(Suiting { settings, hidden }) = config.suiting(input) else { return false };
        // A session that cannot be made stays with the settings that it has.
        if !Arc::ptr_eq(settings, &config.by_client)
            && let Ok(records) = UnbufferedServerConnection::new(Arc::clone(settings))
        {
            self.records = records;
            let message = input.get_mut(RECORD_HEADER_BYTES..).unwrap_or_default();
            self.hidden_name = hidden.and_then(|place| HiddenName::hide(message, place));
        }
        self.undecided = None;
        true
    }

    /// Has the library use the front of the input as far as it goes at once. Gives how much was
    /// used, and whether there is more to be done; the former alone when the session cannot go on.
    fn step(
        &mut self,
        input: &mut [u8],
        tell: &mut impl FnMut(Brought<'_>) -> bool,
    ) -> Result<(usize, bool), usize> {
        let _restored = self.hidden_name.as_ref().map(HiddenName::restored);
        let UnbufferedStatus { discard, state } = self.records.process_tls_records(input);
        let mut used = discard;
        match state {
            // What the handshake agreed on is told first.
            Ok(ConnectionState::ReadTraffic(_)) if self.state == State::Handshake => {}
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let Ok(record) = record else { return Err(used) };
                    used += record.discard;
                    if !tell(Brought::Content(record.payload)) {
                        self.state = State::Unheard;
                    }
                }
            }
            Ok(ConnectionState::EncodeTlsData(data)) => {
                self.has_answered = true;
                self.wire.encode(data);
            }
            // What is in our buffer is as good as sent.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => self.state = State::Ended,
            Ok(
                ConnectionState::Closed
                | ConnectionState::BlockedHandshake
                | ConnectionState::WriteTraffic(_),
            ) => return Ok((used, false)),
            // Early data is never offered.
            Ok(_) | Err(_) => return Err(used),
        }
        Ok((used, true))
    }

    /// Keeps what is not whole.
    fn keep(&mut self, unused: &mut [u8]) -> Result<(), TlsFault> {
        let handshake_bytes = self.handshake_bytes + unused.len();
        let is_too_long = unused.len() > TLS_RECORD_MAX_BYTES
            || self.state == State::Handshake && handshake_bytes > HANDSHAKE_MAX_BYTES;
        if is_too_long {
            return Err(self.fail(unused));
        }
        if unused.is_empty() || self.state == State::Ended {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.reserve_exact(unused.len());
            self.partial.extend_from_slice(unused);
        }
        Ok(())
    }

    /// The session is over; what the library has to say of it goes out.
    #[cold]
    fn fail(&mut self, unused: &mut [u8]) -> TlsFault {
        self.state = State::Faulty;
        self.partial = Vec::new();
        if !self.has_answered && has_overflow(unused) {
            // The library would have another alert for it.
            self.wire.append_bytes(&RECORD_OVERFLOW);
            return TlsFault;
        }
        let mut said = &[][..];
        // Asked for more behind the alert, it would look at the bad bytes again.
        while !is_alert(said) {
            let start = self.wire.end;
            match self.records.process_tls_records(unused).state {
                Ok(ConnectionState::EncodeTlsData(data)) => self.wire.encode(data),
                _ => break,
            }
            said = self.wire.bytes.get(start..self.wire.end).unwrap_or_default();
        }
        if said.is_empty() && !self.has_answered {
            // The library saw nothing wrong yet: the handshake is longer than it may be.
            self.wire.append_bytes(&DECODE_ERROR);
        }
        TlsFault
    }

    /// Whether the peer has said that it will send no more.
    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// What is spoken inside; known once the handshake is over.
    fn inside(&self) -> Inside {
        match self.records.alpn_protocol() {
            Some(b"h2") => Inside::Http2,
            _ => Inside::Http1,
        }
    }

    /// Encrypts content; false when that is not possible. Only called when nothing waits. Records
    /// are made in `spare`, if there is memory in it, which [`Self::emptied`] gives back.
    pub(crate) fn seal(&mut self, content: &[u8], spare: &mut Vec<u8>) -> bool {
        self.wire.borrow(spare);
        let sealed = self.write(|mut traffic, wire| {
            wire.append(|room| {
                traffic.encrypt(content, room).map_err(|error| missing_to_encrypt(&error))
            })
        });
        if sealed {
            self.sealed_bytes += content.len();
        }
        sealed
    }

    /// Has `write` put something in records, behind what the library itself has to say; false when
    /// it cannot.
    fn write(
        &mut self,
        write: impl FnOnce(WriteTraffic<'_, ServerData>, &mut Wire) -> bool,
    ) -> bool {
        if matches!(self.state, State::Handshake | State::Faulty) {
            return false;
        }
        loop {
            match self.records.process_tls_records(&mut self.partial).state {
                Ok(ConnectionState::EncodeTlsData(data)) => self.wire.encode(data),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    return write(traffic, &mut self.wire);
                }
                _ => return false,
            }
        }
    }

    /// Bytes of content that wait in records.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.sealed_bytes
    }

    /// Whether records wait to be sent.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        self.wire.start < self.wire.end
    }

    /// Sends records that wait, by one call of `send`.
    pub(crate) fn send(&mut self, send: impl FnOnce(&[IoSlice<'_>]) -> Sending) -> Sending {
        let Wire { bytes, start, end } = &mut self.wire;
        let sending = send(&[IoSlice::new(bytes.get(*start..*end).unwrap_or_default())]);
        if let Sending::Done(sent) = sending {
            *start += sent;
        }
        sending
    }

    /// What waits has to wait longer: it keeps no more memory than it needs, and `spare` gets the
    /// rest, if there is none.
    pub(crate) fn hold(&mut self, spare: &mut Vec<u8>) {
        const SLACK_BYTES: usize = 1024;
        let Wire { bytes, start, end } = &mut self.wire;
        // A copy of less than half costs less than what was sent before it.
        if bytes.len() > 2 * (*end - *start) + SLACK_BYTES {
            let rest = bytes.get(*start..*end).unwrap_or_default().to_vec();
            let whole = std::mem::replace(bytes, rest);
            (*start, *end) = (0, bytes.len());
            if spare.is_empty() {
                *spare = whole;
            }
        }
    }

    /// All records have left; the content that was in them is no longer held. Their memory goes to
    /// `spare`, if there is none.
    pub(crate) fn emptied(&mut self, spare: &mut Vec<u8>) -> usize {
        let bytes = std::mem::take(&mut self.wire).bytes;
        if spare.is_empty() {
            *spare = bytes;
        }
        std::mem::take(&mut self.sealed_bytes)
    }

    /// Tells the peer that nothing follows (RFC 8446 §6.1); false when there is nothing to send.
    pub(crate) fn close(&mut self) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        self.write(|mut traffic, wire| {
            wire.append(|room| {
                traffic.queue_close_notify(room).map_err(|error| missing_to_encrypt(&error))
            })
        });
        self.has_records()
    }
}

/// Bytes of memory that a session holds beside its state.
#[cfg(test)]
impl ServerSession {
    pub(super) fn buffer_bytes(&self) -> usize {
        self.partial.capacity() + self.wire.bytes.capacity()
    }
}

/// Whether a record of ours is an alert. One that TLS 1.3 has encrypted is known by its length:
/// nothing else that a server says is as short (RFC 8446 §5.2, §6).
fn is_alert(record: &[u8]) -> bool {
    const ALERT: u8 = 21;
    const APPLICATION_DATA: u8 = 23;
    // A header, two bytes, their type, and the tag.
    const ENCRYPTED_BYTES: usize = 5 + 2 + 1 + 16;
    match record.first() {
        Some(&ALERT) => true,
        Some(&APPLICATION_DATA) => record.len() == ENCRYPTED_BYTES,
        _ => false,
    }
}

/// Whether one of the records, which are not encrypted, is longer than it may be.
fn has_overflow(mut records: &[u8]) -> bool {
    while let Some(&[_, _, _, high, low]) = records.first_chunk() {
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        if bytes > PLAIN_RECORD_MAX_BYTES {
            return true;
        }
        records = records.get(RECORD_HEADER_BYTES + bytes..).unwrap_or_default();
    }
    false
}

type ServerData = rustls::server::ServerConnectionData;

/// Records that wait to be sent.
#[derive(Default)]
struct Wire {
    /// Zeros behind the records, which cost something to make and are kept.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Wire {
    /// Takes the memory of `spare` for its own, if it has none.
    fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, spare);
        }
    }

    /// Puts bytes behind the records.
    fn append_bytes(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Has `write` put something behind the records; it says how much that was, or how much room it
    /// misses, if it is that.
    fn append(&mut self, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> bool {
        loop {
            let room = self.bytes.get_mut(self.end..).unwrap_or_default();
            let has = room.len();
            match write(room) {
                Ok(bytes) => {
                    self.end += bytes;
                    return true;
                }
                Err(Some(bytes)) if bytes > has => {
                    self.bytes.reserve_exact(self.end + bytes - self.bytes.len());
                    self.bytes.resize(self.end + bytes, 0);
                }
                Err(_) => return false,
            }
        }
    }

    /// Puts what the library has to say behind the records.
    fn encode(&mut self, mut data: EncodeTlsData<'_, ServerData>) {
        let done = self.append(|room| {
            data.encode(room).map_err(|error| match error {
                EncodeError::InsufficientSize(error) => Some(missing(error)),
                EncodeError::AlreadyEncoded => None,
            })
        });
        debug_assert!(done, "there is room, and it is said once");
    }
}

fn missing(error: InsufficientSizeError) -> usize {
    error.required_size
}

fn missing_to_encrypt(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(error) => Some(missing(*error)),
        EncryptError::EncryptExhausted => None,
    }
}
