//! A connection over TLS: input is decrypted before its protocol sees it, and queued output is
//! encrypted before it leaves. Records are made only as the kernel takes them, so waiting output is
//! plaintext content, in the queue that every connection has.

use std::io::IoSlice;
use std::os::unix::fs::FileExt as _;

use pinion_http::error_page;

use crate::app::App;
use crate::backend::{Backend, Sending, Slot};
use crate::connection::Protocol;
use crate::connection_direction::ConnectionDirection;
use crate::driver::connection_end::report_gone;
use crate::driver::connection_output::Flush;
use crate::driver::{self, http1, outgoing_connections, protocol_detection};
use crate::end_reason::Gone;
use crate::enobufs_retry::is_shortage;
use crate::file_mapping::Mappings;
use crate::limits::{RECORD_BYTES, SEAL_MAX_BYTES, TURN_BYTES};
use crate::linger::Remaining;
use crate::outgoing_connect::NotConnected;
use crate::output_queue::{Next, OutputQueue};
use crate::send::{piece, why_failed};
use crate::tls::{Brought, TlsSession};
use crate::worker::Worker;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

/// Takes bytes of the peer. Returns true if they announce that the peer will send no more.
pub(crate) fn received<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    input: &[u8],
) -> bool {
    let Some(mut session) = session(app, core, slot, input) else { return false };
    let mut buffer = std::mem::take(&mut core.opening);
    let taken = session.take(input, &mut buffer, |brought| {
        match brought {
            Brought::Begun(_)
                if core.connections.get(slot).direction == ConnectionDirection::Outgoing =>
            {
                outgoing_connections::begin(app, core, slot);
            }
            Brought::Begun(inside) => protocol_detection::begin(app, core, slot, Some(inside)),
            Brought::Content(opened) => driver::take_in(app, core, slot, opened),
        }
        let connection = core.connections.get(slot);
        !matches!(connection.protocol, Protocol::Linger(_)) && connection.link.cut.is_none()
    });
    core.opening = buffer;
    match taken {
        Ok(0) => {}
        Ok(unread_bytes) => core.drop_input(slot, unread_bytes),
        Err(_) => {
            let connection = core.connections.get(slot);
            if let Protocol::Connecting(connecting) = &mut connection.protocol {
                connecting.failure = session.failure().cloned().map(Box::new);
            }
            end_with_alert(app, core, slot);
        }
    }
    let is_ended = session.is_ended();
    core.connections.get(slot).link.tls = Some(session);
    is_ended
}

/// Returns the session of a connection. It is created when the first byte shows that the peer
/// speaks TLS: a record of the type handshake (RFC 8446 §5.1).
fn session<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    input: &[u8],
) -> Option<Box<TlsSession>> {
    const HANDSHAKE: u8 = 22;
    let connection = core.connections.get(slot);
    if let Some(session) = connection.link.tls.take() {
        return Some(session);
    }
    let config = core.settings.listeners[usize::from(connection.listener())].tls.as_ref();
    match input.first() {
        Some(&HANDSHAKE) => {
            let session = config.and_then(|config| TlsSession::accept(config, input));
            if session.is_none() {
                core.overloaded(slot);
            }
            return session;
        }
        Some(b'A'..=b'Z') => http1::refuse_with(app, core, slot, error_page::response_to_plain),
        _ => refuse_record(core, slot),
    }
    None
}

/// Ends a connection whose first byte begins no handshake record, with the alert that RFC 8446 §5.1
/// requires.
#[cold]
fn refuse_record(core: &mut WorkerCore, slot: Slot) {
    /// A record with the fatal alert unexpected_message (RFC 8446 §6).
    const UNEXPECTED_MESSAGE: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];
    let WorkerCore { connections, buffers, .. } = core;
    let Buffers { outputs, pool, .. } = buffers;
    let output = outputs.of(&mut connections.get(slot).link.output);
    if output.append_bytes(pool, &UNEXPECTED_MESSAGE) {
        core.end(slot, Remaining::UselessInput);
    } else {
        core.give_up(slot, Gone::Refused);
    }
}

/// Ends a connection whose peer broke the rules of TLS. The alert with the reason waits in the
/// session; it is sent before the connection closes (RFC 8446 §6.2), and other queued output is
/// dropped, because nothing may follow an alert.
#[cold]
fn end_with_alert<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let why = match core.connections.get(slot).protocol {
        Protocol::Connecting(_) => Gone::NotConnected(NotConnected::Tls),
        _ => Gone::Refused,
    };
    report_gone(app, core, slot, why);
    let WorkerCore { connections, buffers, .. } = core;
    let Buffers { outputs, pool, mappings, .. } = buffers;
    let link = &mut connections.get(slot).link;
    if let Some(output) = outputs.get(link.output) {
        output.clear(pool, mappings);
        outputs.free(&mut link.output);
    }
    std::mem::take(&mut link.input).give_back(pool);
    core.end(slot, Remaining::UselessInput);
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Flushes the queue as [`Worker::flush`] does, for a connection over TLS.
    pub(crate) fn flush_sealed(&mut self, slot: Slot, turn_bytes: &mut usize) -> Flush {
        let link = &mut self.core.connections.get(slot).link;
        if link.blocked.is_some() {
            return Flush::Waits;
        }
        let Some(mut session) = link.tls.take() else { return Flush::Empty };
        let flush = self.flush_session(slot, &mut session, turn_bytes);
        if flush == Flush::Waits {
            session.hold(&mut self.core.sealing);
        }
        self.core.connections.get(slot).link.tls = Some(session);
        flush
    }

    fn flush_session(
        &mut self,
        slot: Slot,
        session: &mut TlsSession,
        turn_bytes: &mut usize,
    ) -> Flush {
        let Self { backend, core, .. } = self;
        let WorkerCore { connections, external, sealing, buffers, .. } = core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let connection = connections.get(slot);
        loop {
            if session.has_records() {
                if *turn_bytes >= TURN_BYTES {
                    backend.await_writable(slot);
                    connection.link.block(backend, slot);
                    return Flush::Waits;
                }
                match session.send(|parts| backend.send_now(slot, parts)) {
                    Sending::Done(bytes) => {
                        connection.link.sent(bytes);
                        *turn_bytes += bytes;
                    }
                    Sending::Failed(error) if is_shortage(error) => {
                        connection.link.block(backend, slot);
                        core.await_memory(slot);
                        return Flush::Waits;
                    }
                    Sending::Failed(error) => return Flush::Broken(why_failed(error)),
                    Sending::Blocked | Sending::Pending => {
                        connection.link.block(backend, slot);
                        return Flush::Waits;
                    }
                }
                continue;
            }
            pool.release(session.emptied(sealing));
            if let Protocol::Connecting(_) = connection.protocol {
                // Output of the application waits for the end of the handshake.
                return Flush::Waits;
            }
            if let Some(output) = outputs.get(connection.link.output) {
                match seal(session, output, mappings, external, sealing) {
                    None => return Flush::Broken(Gone::Broken),
                    Some(0) => {
                        output.clear(pool, mappings);
                        outputs.free(&mut connection.link.output);
                        connection.link.owes_sent = true;
                    }
                    Some(bytes) => {
                        output.advance(bytes, pool, mappings);
                        pool.count(bytes);
                        continue;
                    }
                }
            }
            if !connection.ends_after_queued_output() || !session.close() {
                return Flush::Empty;
            }
        }
    }

    /// Informs the peer that the connection ends in good order, if the kernel takes that at once.
    pub(crate) fn send_close_notify(&mut self, slot: Slot) {
        let Self { backend, core, .. } = self;
        let link = &mut core.connections.get(slot).link;
        let is_blocked = link.blocked.is_some();
        if let Some(session) = &mut link.tls
            && !is_blocked
            && session.close()
        {
            let _best_effort = session.send(|parts| backend.send_now(slot, parts));
        }
    }
}

/// Encrypts queued output, as much as is done at once, and returns the number of its bytes; 0 if
/// the queue is empty. Returns `None` if a file has changed since the archive was made, cannot be
/// read, or its bytes cannot be encrypted any more. Bytes of files, and those that are not
/// contiguous, are put in `buffer`.
fn seal(
    session: &mut TlsSession,
    output: &OutputQueue,
    mappings: &Mappings,
    buffer: &mut Vec<u8>,
    spare: &mut Vec<u8>,
) -> Option<usize> {
    let next = output.next(mappings, false);
    let content: &[u8] = match &next {
        Next::Nothing => return Some(0),
        Next::Changed | Next::File { .. } => return None,
        Next::One(bytes) => bytes,
        Next::Memory { parts, .. } => match parts.as_slice() {
            // It is as long as a record, or the only part.
            [first, ..] if first.len() >= RECORD_BYTES => first,
            [only] => only,
            parts => gathered(buffer, parts)?,
        },
        Next::Read { file, offset, bytes } => {
            let piece = piece(buffer, *bytes)?;
            file.read_exact_at(piece, *offset).ok()?;
            piece
        }
        Next::External { file, range } => {
            let piece = piece(buffer, range.bytes)?;
            file.read_unchanged(range, piece).ok()?;
            piece
        }
    };
    let content = content.get(..SEAL_MAX_BYTES).unwrap_or(content);
    // A page that its file has lost reads as zeros here, where a send would fail.
    let sealed = session.seal(content, spare) && !output.is_damaged(mappings);
    sealed.then_some(content.len())
}

/// Copies the front of the parts into one contiguous piece.
fn gathered<'b>(buffer: &'b mut Vec<u8>, parts: &[IoSlice<'_>]) -> Option<&'b [u8]> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let whole = piece(buffer, bytes as u64)?;
    let mut room = &mut *whole;
    for part in parts {
        let (here, behind) = room.split_at_mut(part.len().min(room.len()));
        here.copy_from_slice(part.get(..here.len())?);
        room = behind;
    }
    Some(whole)
}
