//! One TLS connection: records in, plaintext out, and back. It works on bytes only; its owner reads
//! and writes the socket.
//!
//! The library has no buffer of its own here, so a waiting connection has none: input is decrypted
//! in a buffer of the worker, and only the front of an incomplete record is kept.

use std::io::IoSlice;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};

use super::TlsConfig;
use super::client_hello::RECORD_HEADER_BYTES;
use super::config::Suiting;
use super::invalid_server_name::HiddenName;
use crate::backend::Sending;
use crate::limits::{HANDSHAKE_MAX_BYTES, TLS_RECORD_MAX_BYTES};

#[cfg(test)]
mod tests;

/// The protocol inside TLS, negotiated by ALPN (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    /// HTTP/1.1, also if the peer did not negotiate.
    Http1,
    /// HTTP/2 (RFC 9113 §3.2).
    Http2,
}

/// The result of incoming records.
pub(crate) enum Brought<'a> {
    /// The handshake is over; this comes once, before all content.
    Begun(Inside),
    /// Plaintext of the peer.
    Content(&'a [u8]),
}

/// The error of a peer whose bytes are no TLS, or break its rules. An alert about it waits to be
/// sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TlsFault;

/// The server side of one TLS connection.
pub(crate) struct ServerSession {
    records: UnbufferedServerConnection,
    /// The settings to choose from, until the client's cipher suites have arrived. The library sees
    /// no byte before.
    undecided: Option<Box<TlsConfig>>,
    /// The server name that is hidden from the library until the handshake is over.
    hidden_name: Option<Arc<HiddenName>>,
    /// The input that is not used yet: an incomplete record or handshake message. The library
    /// remembers positions in it, and gets it again with every call.
    partial: Vec<u8>,
    wire: Wire,
    /// Bytes of content in the records that were queued since the queue was last empty.
    sealed_bytes: usize,
    /// Bytes of the handshake that were used.
    handshake_bytes: usize,
    state: State,
    /// Whether a part of the handshake was sent, so that further output may have to be encrypted.
    has_answered: bool,
    /// Whether close_notify was queued for the peer.
    closed: bool,
}

/// An unencrypted record with the fatal alert decode_error (RFC 8446 §6).
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// An unencrypted record with the alert record_overflow, for a record that is too long.
const RECORD_OVERFLOW: [u8; 7] = [21, 3, 3, 0, 2, 2, 22];

/// The maximum number of bytes in an unencrypted record (RFC 8446 §5.1).
const PLAIN_RECORD_MAX_BYTES: usize = 1 << 14;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Handshake,
    Open,
    /// The peer has sent close_notify.
    Ended,
    /// The peer's input is not read any more.
    Unheard,
    /// The session has failed: it can only be closed.
    Faulty,
}

impl ServerSession {
    /// Creates a session with a peer whose first bytes are `input`, which are still to be
    /// [taken](Self::take); `None` if the library cannot create one.
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

    /// Takes all of `input`, decrypts it in `buffer`, and reports its contents to `on_content`, as
    /// long as that returns that further content is read. Input after the peer's close_notify is
    /// not read (RFC 8446 §6.1). Returns the number of bytes at the end that are not read.
    ///
    /// # Errors
    /// Fails if the session cannot continue.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        buffer: &mut Vec<u8>,
        mut on_content: impl FnMut(Brought<'_>) -> bool,
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
            let step = self.step(unused, &mut on_content);
            let (used, goes_on) =
                step.map_or_else(|used| (used, None), |(used, on)| (used, Some(on)));
            if self.state == State::Handshake {
                self.handshake_bytes += used;
            }
            unused = unused.get_mut(used..).unwrap_or_default();
            if !self.records.is_handshaking() && self.state == State::Handshake {
                self.state = State::Open;
                self.hidden_name = None;
                on_content(Brought::Begun(self.inside()));
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

    /// Chooses the settings by the first bytes of the client. Returns false as long as these do not
    /// suffice.
    fn decide(&mut self, input: &mut [u8]) -> bool {
        let Some(config) = &self.undecided else { return true };
        let Some(Suiting { settings, hidden }) = config.suiting(input) else { return false };
        // If no new session can be created, the existing one keeps its settings.
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

    /// Makes the library use the front of the input as far as one step goes. Returns how much was
    /// used, and whether there is more to do; the former alone, as an error, if the session cannot
    /// continue.
    fn step(
        &mut self,
        input: &mut [u8],
        on_content: &mut impl FnMut(Brought<'_>) -> bool,
    ) -> Result<(usize, bool), usize> {
        let _restored = self.hidden_name.as_ref().map(HiddenName::restored);
        let UnbufferedStatus { discard, state } = self.records.process_tls_records(input);
        let mut used = discard;
        match state {
            // The result of the handshake is reported first.
            Ok(ConnectionState::ReadTraffic(_)) if self.state == State::Handshake => {}
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let Ok(record) = record else { return Err(used) };
                    used += record.discard;
                    if !on_content(Brought::Content(record.payload)) {
                        self.state = State::Unheard;
                    }
                }
            }
            Ok(ConnectionState::EncodeTlsData(data)) => {
                self.has_answered = true;
                self.wire.encode(data);
            }
            // Bytes in our buffer count as sent.
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

    /// Keeps the incomplete rest of the input.
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

    /// Ends the session, and queues the alert of the library.
    #[cold]
    fn fail(&mut self, unused: &mut [u8]) -> TlsFault {
        self.state = State::Faulty;
        self.partial = Vec::new();
        if !self.has_answered && has_overflow(unused) {
            // The library would send another alert for it.
            self.wire.append_bytes(&RECORD_OVERFLOW);
            return TlsFault;
        }
        let mut said = &[][..];
        // Called again after the alert, the library would look at the bad bytes again.
        while !is_alert(said) {
            let start = self.wire.end;
            match self.records.process_tls_records(unused).state {
                Ok(ConnectionState::EncodeTlsData(data)) => self.wire.encode(data),
                _ => break,
            }
            said = self.wire.bytes.get(start..self.wire.end).unwrap_or_default();
        }
        if said.is_empty() && !self.has_answered {
            // The library has seen no error yet: the handshake is longer than allowed.
            self.wire.append_bytes(&DECODE_ERROR);
        }
        TlsFault
    }

    /// Returns whether the peer has announced that it will send no more.
    pub(crate) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns the protocol inside; it is known once the handshake is over.
    fn inside(&self) -> Inside {
        match self.records.alpn_protocol() {
            Some(b"h2") => Inside::Http2,
            _ => Inside::Http1,
        }
    }

    /// Encrypts content; returns false if that is not possible. Only called when no record waits.
    /// Records are made in `spare`, if there is memory in it, which [`Self::emptied`] gives back.
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

    /// Makes `write` put content in records, after the library's own messages; returns false if
    /// that is not possible.
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

    /// Returns the bytes of content that wait in records.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.sealed_bytes
    }

    /// Returns whether records wait to be sent.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        self.wire.start < self.wire.end
    }

    /// Sends waiting records with one call of `send`.
    pub(crate) fn send(&mut self, send: impl FnOnce(&[IoSlice<'_>]) -> Sending) -> Sending {
        let Wire { bytes, start, end } = &mut self.wire;
        let sending = send(&[IoSlice::new(bytes.get(*start..*end).unwrap_or_default())]);
        if let Sending::Done(sent) = sending {
            *start += sent;
        }
        sending
    }

    /// Shrinks the memory of records that have to wait longer to the size that they need. `spare`
    /// gets the rest, if it has no memory.
    pub(crate) fn hold(&mut self, spare: &mut Vec<u8>) {
        const SLACK_BYTES: usize = 1024;
        let Wire { bytes, start, end } = &mut self.wire;
        // Copying less than half costs less than the bytes sent before did.
        if bytes.len() > 2 * (*end - *start) + SLACK_BYTES {
            let rest = bytes.get(*start..*end).unwrap_or_default().to_vec();
            let whole = std::mem::replace(bytes, rest);
            (*start, *end) = (0, bytes.len());
            if spare.is_empty() {
                *spare = whole;
            }
        }
    }

    /// Releases the records after all have left, and returns the bytes of the content that was in
    /// them. Their memory goes to `spare`, if it has none.
    pub(crate) fn emptied(&mut self, spare: &mut Vec<u8>) -> usize {
        let bytes = std::mem::take(&mut self.wire).bytes;
        if spare.is_empty() {
            *spare = bytes;
        }
        std::mem::take(&mut self.sealed_bytes)
    }

    /// Queues close_notify for the peer (RFC 8446 §6.1); returns false if there is nothing to send.
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

/// Bytes of memory that a session holds besides its state.
#[cfg(test)]
impl ServerSession {
    pub(super) fn buffer_bytes(&self) -> usize {
        self.partial.capacity() + self.wire.bytes.capacity()
    }
}

/// Returns whether a record of ours is an alert. One that TLS 1.3 has encrypted is known by its
/// length: no other record of a server is as short (RFC 8446 §5.2, §6).
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

/// Returns whether one of the unencrypted records is longer than allowed.
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

/// The queue of records that wait to be sent.
#[derive(Default)]
struct Wire {
    /// The records, with zeros after them, which cost something to make and are kept.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Wire {
    /// Takes the memory of `spare` for the queue, if it has none.
    fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, spare);
        }
    }

    /// Appends bytes to the records.
    fn append_bytes(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Makes `write` append to the records. It returns how much it wrote or, if it lacks room, how
    /// much it needs.
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

    /// Appends a message of the library to the records.
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
