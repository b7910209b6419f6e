//! The output of a connection: the queue that the kernel takes, sends that fail, and the reports of
//! sent output and of room for more to the application.

use rustix::io::Errno;

use super::input::drive_kept_input;
use super::multiplexed_requests;
use crate::app::App;
use crate::backend::{Backend, Sending, Slot};
use crate::byte_stream::StreamState;
use crate::connection::{Connection, Protocol};
use crate::connection_direction::ConnectionDirection;
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::enobufs_retry::is_shortage;
use crate::http1::Http1;
use crate::limits::{OUTPUT_LOW_WATER_BYTES, TURN_BYTES};
use crate::linger::Remaining;
use crate::output_queue::Next;
use crate::send::{send_piece, why_failed};
use crate::stream_event::Notice;
use crate::worker::Worker;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

/// The result of [`Worker::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Empty,
    Waits,
    Broken(Gone),
}

impl<B: Backend, A: App> Worker<B, A> {
    /// Hands the queue to the kernel as far as the kernel takes it. `turn_bytes` counts the bytes
    /// that have left in this turn of the connection.
    #[inline]
    pub(super) fn flush(&mut self, slot: Slot, turn_bytes: &mut usize) -> Flush {
        if self.core.connections.get(slot).link.tls.is_some() {
            return self.flush_sealed(slot, turn_bytes);
        }
        let Self { backend, core, .. } = self;
        let WorkerCore { connections, external, buffers, .. } = core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let connection = connections.get(slot);
        let Some(output) = outputs.get(connection.link.output) else { return Flush::Empty };
        if connection.link.blocked.is_some() || output.in_flight {
            return Flush::Waits;
        }
        let mut short = false;
        loop {
            if *turn_bytes >= TURN_BYTES && output.bytes > 0 {
                backend.await_writable(slot);
                break;
            }
            let sending = match output.next(mappings, B::SENDS_FILES) {
                Next::Nothing => {
                    output.clear(pool, mappings);
                    outputs.free(&mut connection.link.output);
                    connection.link.owes_sent = true;
                    return Flush::Empty;
                }
                next => send_piece(backend, slot, next, external),
            };
            match sending {
                None => return Flush::Broken(Gone::Broken),
                Some(Sending::Done(bytes)) => {
                    connection.link.sent(bytes);
                    output.advance(bytes, pool, mappings);
                    *turn_bytes += bytes;
                }
                Some(Sending::Blocked) => break,
                Some(Sending::Pending) => {
                    output.lend();
                    connection.link.sending = true;
                    if connection.link.deadline.kind() != DeadlineKind::Send {
                        connection.link.progress = 0;
                    }
                    return Flush::Waits;
                }
                Some(Sending::Failed(error)) if is_shortage(error) => {
                    short = true;
                    break;
                }
                Some(Sending::Failed(error)) => return Flush::Broken(why_failed(error)),
            }
        }
        connection.link.block(backend, slot);
        if short {
            core.await_memory(slot);
        }
        Flush::Waits
    }

    pub(crate) fn sent(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let WorkerCore { connections, buffers, .. } = &mut self.core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let connection = connections.get(slot);
        connection.link.sending = false;
        if let Some(output) = outputs.get(connection.link.output) {
            output.in_flight = false;
            match result {
                Ok(bytes) => {
                    connection.link.sent(bytes);
                    output.advance(bytes, pool, mappings);
                }
                Err(_) if connection.is_closing() => {}
                Err(error) if is_shortage(error) => self.core.await_memory(slot),
                Err(error) => {
                    let why = why_failed(error);
                    if !self.reads_on(slot, why) {
                        return self.cut(slot, why);
                    }
                }
            }
        }
        self.settle(slot);
    }

    /// Handles a failed send. On a connection that the server has opened, the peer may have
    /// responded and closed the connection before it had read everything; its system resets the
    /// connection then, and the response still waits to be read (RFC 9112 §9.6). Returns true, and
    /// drops the queued output, if the application may still read.
    #[cold]
    pub(super) fn reads_on(&mut self, slot: Slot, why: Gone) -> bool {
        let WorkerCore { connections, buffers, .. } = &mut self.core;
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let connection = connections.get(slot);
        let has_input = !connection.link.peer_ended || !connection.link.input.is_empty();
        let is_peer = why == Gone::Peer && connection.direction == ConnectionDirection::Outgoing;
        let Protocol::ByteStream(stream) = &mut connection.protocol else { return false };
        if !is_peer || stream.state != StreamState::Open || !has_input && !stream.end_event_pending
        {
            return false;
        }
        (stream.finished, stream.is_reset) = (true, true);
        stream.owes_finish = false;
        stream.owes_writable = false;
        if let Some(output) = outputs.get(connection.link.output) {
            output.clear(pool, mappings);
            outputs.free(&mut connection.link.output);
        }
        true
    }

    /// Handles the departure of the last response: closes the connection, or reads on for a while
    /// (RFC 9112 §9.6).
    pub(super) fn last_sent(&mut self, slot: Slot) {
        let Connection { link, protocol, .. } = self.core.connections.get(slot);
        let Protocol::Linger(linger) = protocol else {
            unreachable!("only what lingers sends its last")
        };
        if linger.remaining == Remaining::Nothing || link.peer_ended {
            return self.cut(slot, Gone::Peer);
        }
        linger.begin(self.core.now.monotonic_ms);
        if linger.was_http2 {
            link.progress = self.backend.progress(slot).unwrap_or(0) as u32;
        }
        self.backend.finish(slot);
        let Self { app, core, .. } = self;
        // Content that was kept for the application would hold back the input after it.
        if !core.connections.get(slot).link.input.is_empty() {
            drive_kept_input(app, core, slot);
        }
        self.update_receiving(slot);
        self.core.set_deadline(slot);
        if let Some(oldest) = self.core.begin_lingering(slot) {
            self.cut(oldest, Gone::Peer);
        }
    }

    /// Moves content of exchanges that share the connection into its queue.
    #[inline]
    pub(super) fn pump(&mut self, slot: Slot) -> bool {
        let Some((http2, link, buffers)) = self.core.http2(slot) else { return false };
        if http2.pump(link, buffers) {
            return true;
        }
        let is_finished = http2.session.is_finished();
        if is_finished {
            self.core.end(slot, Remaining::UselessInput);
        }
        is_finished
    }

    /// Informs the application that no output waits any more, if it has yet to be informed.
    #[inline]
    pub(crate) fn report_sent(&mut self, slot: Slot) {
        let connection = self.core.connections.get(slot);
        if connection.link.owes_sent && connection.streams_have_no_output() {
            connection.link.owes_sent = false;
            self.app.sent(self.core.address(slot));
        }
    }

    /// Informs the application that there is room again, if it was informed that there was none.
    pub(super) fn report_writable(&mut self, slot: Slot) -> bool {
        if let Protocol::Multiplexed(_) = self.core.connections.get(slot).protocol {
            let Self { app, core, .. } = self;
            return multiplexed_requests::report_writable(app, core, slot);
        }
        let has_room = self.core.queued_bytes(slot) <= OUTPUT_LOW_WATER_BYTES;
        let owes_writable = match &mut self.core.connections.get(slot).protocol {
            Protocol::Http1(Http1::Exchange(open)) => &mut open.state.owes_writable,
            Protocol::ByteStream(stream) => &mut stream.owes_writable,
            _ => return false,
        };
        if !*owes_writable || !has_room {
            return false;
        }
        *owes_writable = false;
        self.notify(slot, Notice::Writable);
        true
    }
}
