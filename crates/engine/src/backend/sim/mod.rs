//! The simulated backend: no sockets, no threads, no clock. One seed decides when each socket is
//! ready, for how many bytes, in which order, and which operations fail.
//!
//! It has the shapes of both real backends, chosen by a constant. `Sim<true>` reports readiness and
//! transfers at once like epoll. `Sim<false>` works on submitted requests like io_uring, so that
//! sends hold memory, receives go on after their cancel, and a closed slot is released later.
//!
//! Forbidden operations of the engine (sending twice at once, sending nothing, keeping a lent
//! buffer, touching memory it has lent, naming a slot that is not attached) panic here.
//!
//! | Module | Contents |
//! |---|---|
//! | `network` | the state that the backend shares with the clients, and a record of all events |
//! | `simulated_connection` | a connection as the kernel and its client see it |
//! | `ready_entries` | the ready events of one wait: their delays, order and completions |
//! | `completion_mode` | the shape of io_uring: the kernel works on submitted requests |
//! | `readiness_mode` | the shape of epoll: the kernel reports readiness, the engine transfers |
//! | `outgoing_connections` | the connections that the engine opens |
//! | `datagrams` | datagrams on their way between the sockets of the server and the QUIC clients |
//! | `receive_buffers` | the buffers into which the simulated kernel receives |
//! | `send_memory_check` | memory lent for a send, and the check that it does not change |
//! | `faults` | the faults of the simulated kernel: delays, short transfers, a lack of resources |
//! | `random` | the only source of randomness: SplitMix64 |
//! | `wall_clock` | the wall clock, which is set now and then in either direction |

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::io::Errno;

use super::{Backend, Completion, Lent, OpeningState, Sending, Slot, Waker};
use crate::clock::Now;
use crate::limits::{CHUNK_BYTES, SEND_PARTS_MAX, TURN_BYTES};
use crate::outgoing_connect::RemoteAddress;

mod completion_mode;
mod datagrams;
mod faults;
mod network;
mod outgoing_connections;
mod random;
mod readiness_mode;
mod ready_entries;
mod receive_buffers;
mod send_memory_check;
mod simulated_connection;
mod wall_clock;

pub(crate) use datagrams::DatagramRun;
pub use datagrams::{PeerDatagram, SimPeer};
pub use faults::Faults;
pub use network::{Network, SharedClock};
pub use random::Random;
pub use simulated_connection::{Client, Connect, Facts, Read};

use completion_mode::Flight;
use faults::Fallible;
use ready_entries::ReadyEntry;
use receive_buffers::Buffers;

/// Bytes of one lent buffer in the shape of io_uring.
const BUFFER_BYTES: usize = 4 * 1024;
/// The address that stands for the peers of adopted sockets.
const ADOPTED: &str = "adopted";
/// Bytes that one connection may send between two waits: its turn, once when it is ready for output
/// and once when it has input, each with a last send that goes beyond.
const SENT_PER_PASS_MAX_BYTES: usize = 4 * TURN_BYTES;
/// The number of lent buffers if the faults set none.
const BUFFERS: u16 = 64;

/// A connected socket; dropping it closes it.
pub struct SimSocket {
    network: Network,
    client: Client,
    /// Whether dropping resets the connection instead of ending it.
    reset: bool,
}

impl std::fmt::Debug for SimSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.client.fmt(f)
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        self.network.0.borrow_mut().close(self.client, self.reset);
    }
}

/// The entry of one slot.
#[derive(Default)]
struct SimEntry {
    socket: Option<SimSocket>,
    generation: u32,
    /// Whether the engine wants to receive.
    wanted: bool,
    /// Whether the engine waits for [`Completion::Writable`].
    writing: bool,
    /// Whether the connection is being opened.
    connecting: bool,
    /// Whether the engine has ended our side.
    finished: bool,
    closing: bool,
    /// Bytes taken from the engine at once, since the last wait.
    turn_bytes: usize,
    /// The requests in flight; used only in the shape of io_uring.
    flight: Flight,
    /// The time before which no input is reported, in milliseconds; the next field is that of
    /// output.
    input_after_ms: u64,
    output_after_ms: u64,
}

/// The state of a datagram socket.
#[derive(Default)]
struct WatchedSocket {
    /// Whether the engine waits for [`Completion::Datagrams`].
    wanted: bool,
    /// The time before which nothing is reported, in milliseconds.
    after_ms: u64,
}

/// The simulated backend of one worker.
pub struct Sim<const READINESS: bool> {
    network: Network,
    entries: Vec<SimEntry>,
    accepting: bool,
    accept_after_ms: u64,
    buffers: Buffers,
    /// The datagram sockets, by number.
    datagram_sockets: Vec<WatchedSocket>,
    /// Receives that found no buffer; they are tried again at the next wait.
    starved: Vec<Slot>,
    ready: Vec<ReadyEntry>,
    /// Ready entries beyond the batch of the last wait; they are the first of the next.
    deferred: Vec<ReadyEntry>,
    wake: Arc<AtomicBool>,
}

impl<const READINESS: bool> Sim<READINESS> {
    /// Creates a backend on `network`, whose listeners are its own.
    pub fn new(network: Network) -> Self {
        let wanted = network.0.borrow().dice.faults.buffers;
        let buffers = match (READINESS, wanted) {
            (true, _) => Buffers::new(1, CHUNK_BYTES),
            (false, 0) => Buffers::new(BUFFERS, BUFFER_BYTES),
            (false, count) => Buffers::new(count, BUFFER_BYTES),
        };
        Self {
            network,
            entries: Vec::new(),
            accepting: false,
            accept_after_ms: 0,
            buffers,
            datagram_sockets: Vec::new(),
            starved: Vec::new(),
            ready: Vec::new(),
            deferred: Vec::new(),
            wake: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Returns the slot's entry, which must be attached and open.
    fn open(&mut self, slot: Slot) -> &mut SimEntry {
        let entry = self.entries.get_mut(slot as usize).expect("the slot was attached");
        assert!(entry.socket.is_some() && !entry.closing, "slot {slot} is open");
        entry
    }

    /// Remembers that the engine waits for [`Completion::Writable`].
    fn report_writable(&mut self, slot: Slot) {
        if READINESS {
            self.entries[slot as usize].writing = true;
        } else {
            self.poll(slot);
        }
    }

    fn is_current(&self, slot: Slot, generation: u32) -> bool {
        let entry = &self.entries[slot as usize];
        entry.socket.is_some() && entry.generation == generation
    }
}

impl<const READINESS: bool> Backend for Sim<READINESS> {
    type Socket = SimSocket;

    const SENDS_FILES: bool = READINESS;

    fn now(&self) -> Now {
        self.network.now()
    }

    fn instant(&self) -> Instant {
        self.network.instant()
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        Waker(Arc::new(move || wake.store(true, Ordering::Release)))
    }

    fn accept(&mut self, on: bool) {
        self.accepting = on;
    }

    fn close_listeners(&mut self) {
        assert!(!self.accepting, "listeners are closed when accepting is off");
    }

    fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        assert!(self.ready.is_empty(), "the engine takes every completion of a pass");
        self.buffers.check_none_lent();
        self.entries.iter_mut().for_each(|entry| entry.turn_bytes = 0);
        {
            let mut state = self.network.0.borrow_mut();
            state.begin_wait();
            let interrupt = state.dice.faults.interrupt;
            if state.random.chance(interrupt) {
                return Ok(());
            }
        }
        self.feed_the_starved();
        self.ready = std::mem::take(&mut self.deferred);
        let kept = self.ready.len();
        let due = self.collect();
        if self.ready.is_empty() {
            self.network.0.borrow_mut().pass_time(timeout_ms, due);
            self.collect();
        }
        self.shuffle_batch(kept);
        let mut state = self.network.0.borrow_mut();
        state.work_takes_time(!self.ready.is_empty());
        Ok(())
    }

    fn next(&mut self) -> Option<Completion<SimSocket>> {
        loop {
            let ready = self.ready.pop()?;
            if let Some(completion) = self.complete(ready) {
                self.network.note(format_args!("{completion:?}"));
                return Some(completion);
            }
        }
    }

    fn input(&self, lent: &Lent) -> &[u8] {
        self.buffers.filled(lent)
    }

    fn give_back(&mut self, lent: Lent) {
        self.buffers.give_back(lent);
    }

    fn await_datagrams(&mut self, fd: Option<BorrowedFd<'_>>, number: u32) -> io::Result<()> {
        assert!(fd.is_none(), "sockets of the kernel are not simulated");
        let index = number as usize;
        if index >= self.datagram_sockets.len() {
            self.datagram_sockets.resize_with(index + 1, WatchedSocket::default);
        }
        self.datagram_sockets[index].wanted = true;
        Ok(())
    }

    fn attach(&mut self, slot: Slot, socket: SimSocket) -> io::Result<()> {
        let index = slot as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, SimEntry::default);
        }
        {
            let mut state = self.network.0.borrow_mut();
            if let Some(error) = state.fails(Fallible::Attach, Some(socket.client)) {
                state.connections[socket.client.0].facts.hurt = true;
                drop(state);
                return Err(error.into());
            }
            let now_ms = state.now.monotonic_ms;
            state.connections[socket.client.0].facts.attached_at_ms = Some(now_ms);
            state.note(format_args!("{:?} is slot {slot}", socket.client));
        }
        let entry = &mut self.entries[index];
        assert!(entry.socket.is_none(), "a slot is attached once");
        *entry = SimEntry {
            socket: Some(socket),
            generation: entry.generation + 1,
            wanted: true,
            flight: Flight::new(!READINESS),
            ..SimEntry::default()
        };
        Ok(())
    }

    fn connect(&mut self, slot: Slot, remote: &RemoteAddress) -> Result<OpeningState, Errno> {
        self.open_connection(slot, remote)
    }

    /// Opens a connection to a simulated peer, which has the address [`ADOPTED`], in place of the
    /// real socket, which has no use here.
    fn adopt(&mut self, slot: Slot, _socket: OwnedFd) -> Result<(), Errno> {
        self.begin_opening(slot, &RemoteAddress::Unix(ADOPTED.into()))
    }

    fn receive(&mut self, slot: Slot, on: bool) {
        self.network.note(format_args!("slot {slot} receives: {on}"));
        self.open(slot).wanted = on;
        if !READINESS {
            self.steer_receive(slot);
        }
    }

    /// Does nothing: the random faults decide how many bytes come at once.
    fn expect_content(&mut self, _slot: Slot, _on: bool) {}

    // SAFETY: in the shape of io_uring the memory is read until `Sent` or `Released`, which is the
    // contract of the trait; otherwise it is copied before the call returns.
    unsafe fn send(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(bytes > 0 && parts.len() <= SEND_PARTS_MAX, "a send of {bytes} bytes");
        let entry = self.open(slot);
        assert!(!entry.finished, "nothing is sent behind our end of stream");
        if READINESS {
            let mut all = Vec::with_capacity(bytes);
            parts.iter().for_each(|part| all.extend_from_slice(part));
            self.transfer(slot, &all)
        } else {
            // SAFETY: this function has the same contract: its caller must let the memory stay
            // until `Sent` or `Released`; both drop the parts made here.
            unsafe { self.begin_send(slot, parts) }
        }
    }

    fn send_now(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        // A kernel may take less than it is given.
        let bytes = parts.first().expect("a send of nothing");
        assert!(!bytes.is_empty(), "a send of nothing");
        let entry = self.open(slot);
        assert!(!entry.finished, "nothing is sent behind our end of stream");
        assert!(entry.flight.send.is_none(), "one send at a time");
        self.transfer(slot, bytes)
    }

    fn await_writable(&mut self, slot: Slot) {
        self.open(slot);
        self.report_writable(slot);
    }

    fn send_file(&mut self, slot: Slot, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Sending {
        assert!(READINESS && bytes > 0, "a file send of {bytes} bytes");
        assert!(!self.open(slot).finished, "nothing is sent behind our end of stream");
        let mut some = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(CHUNK_BYTES)];
        match rustix::io::pread(file, &mut some, offset) {
            Ok(0) => Sending::Failed(Errno::NODATA),
            Ok(got) => self.transfer(slot, &some[..got]),
            Err(error) => Sending::Failed(error),
        }
    }

    fn finish(&mut self, slot: Slot) {
        let entry = self.open(slot);
        assert!(entry.flight.send.is_none(), "our end of stream comes behind what is sent");
        entry.finished = true;
        let client = entry.socket.as_ref().expect("open").client;
        let mut state = self.network.0.borrow_mut();
        state.connections[client.0].server_ended = true;
        state.connections[client.0].facts.lingered = true;
        state.news = true;
        state.note(format_args!("slot {slot} finished"));
    }

    fn progress(&self, slot: Slot) -> Option<u64> {
        let client = self.entries[slot as usize].socket.as_ref()?.client;
        let state = self.network.0.borrow();
        let connection = &state.connections[client.0];
        Some(if connection.options.local {
            u64::MAX - connection.to_client.len() as u64
        } else {
            connection.acknowledged
        })
    }

    fn close(&mut self, slot: Slot, reset: bool) -> bool {
        self.network.note(format_args!("slot {slot} closes, reset: {reset}"));
        let entry = self.open(slot);
        entry.closing = true;
        entry.wanted = false;
        entry.writing = false;
        if let Some(socket) = &mut entry.socket {
            socket.reset = reset;
        }
        if entry.flight.is_quiet() && (READINESS || !entry.connecting) {
            entry.socket = None;
            return true;
        }
        false
    }
}
