//! The io_uring backend: multishot receive into lent buffers, one send in flight per connection,
//! and all requests of a pass handed over by the one `io_uring_enter` that also waits.
//!
//! Memory that the kernel holds stays in place until its completion: buffers of the lent ring
//! belong to this module, and output belongs to the connection's queue until `Sent` or `Released`.
//! A closed slot is released only when none of its operations is in flight any more.
//!
//! | Module | Holds |
//! |---|---|
//! | `operation` | the operation to which a completion belongs |
//! | `connection_entry` | a connection as the kernel knows it |
//! | `accept`, `connect`, `receive`, `send` | the requested operations |
//! | `buffer_ring` | the buffers that are received into |

mod accept;
mod buffer_ring;
mod connect;
mod connection_entry;
mod operation;
mod receive;
mod send;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{self, Shutdown, SocketAddrAny};

use super::{Backend, Completion, Lent, OpeningState, Sending, Slot, Waker};
use crate::clock::Now;
use crate::outgoing_connect::RemoteAddress;
use crate::table_capacity::has_places;
use accept::Listener;
use buffer_ring::LentRing;
pub use connection_entry::Socket;
use connection_entry::{Message, UringEntry};
use operation::{GENERATION_MASK, Op, slot_of, user_data};

/// Submission entries: enough for a busy pass; a full queue is handed over early.
const SUBMISSIONS: u32 = 1024;
/// Completion entries: room for the receives and sends of several thousand busy connections; beyond
/// that, the kernel keeps them.
const COMPLETIONS: u32 = 8192;
/// Bytes of a ring: its two queues (64 bytes and an index for each submission, 16 for each
/// completion), the completions of a pass and those set apart.
pub(crate) const WORKER_BYTES: usize =
    SUBMISSIONS as usize * (64 + 4) + 3 * COMPLETIONS as usize * 16;
/// Returns the bytes of the buffers that a ring lends, for a worker with this budget for buffers.
pub(crate) const fn lent_bytes(budget_bytes: usize) -> usize {
    buffer_ring::ring_bytes(budget_bytes)
}
/// Results of one connection in one pass: of a receive, a send, a poll and a cancel. Further
/// results, and those unrelated to connections, use the entries that are there from the start.
const RESULTS_PER_CONNECTION: usize = 4;
/// Bytes of one connection: its entry, the message of a send in flight with its entry among the
/// spare ones, its results, also where they are set apart, and its entry among those that are to
/// receive again.
pub(crate) const CONNECTION_BYTES: usize = size_of::<UringEntry>()
    + MESSAGE_BYTES
    + size_of::<Box<Message>>()
    + 2 * RESULTS_PER_CONNECTION * size_of::<Completed>()
    + size_of::<Slot>();
/// Bytes of the message of one send with several parts.
pub(crate) const MESSAGE_BYTES: usize = size_of::<Message>();
/// A completion as it was taken off the ring: user data, result, flags.
type Completed = (u64, i32, u32);
/// The group of the lent buffers.
const GROUP: u16 = 0;

/// The backend of one worker with io_uring.
pub struct Uring {
    /// The ring, which is dropped before the memory that it works on.
    ring: IoUring,
    lent: LentRing,
    listeners: Vec<Listener>,
    accepting: bool,
    /// The listener whose clients are accepted now, and how many more in this pass.
    accept_from: Option<(usize, u32)>,
    entries: Vec<UringEntry>,
    /// The results of this pass, taken off the ring before any is processed. It grows with
    /// `entries` only.
    ready: Vec<Completed>,
    position: usize,
    /// The number of this pass, which identifies its results.
    pass: u16,
    /// Receives that wait for the next pass. It has the capacity of `ready`.
    later: Vec<Completed>,
    /// A closed slot whose last send was reported; it is to be released.
    quiet: Option<Slot>,
    /// Slots whose receive has ended, each once: armed again at the end of the pass, if more is
    /// wanted by then. It grows with `entries` only.
    ended: Vec<Slot>,
    #[expect(clippy::vec_box, reason = "the kernel needs each at a fixed address")]
    spare_messages: Vec<Box<Message>>,
    wake: Arc<OwnedFd>,
    wake_count: Box<u64>,
    /// The number of submitted entries whose last completion has not arrived.
    outstanding: usize,
    /// The addresses to which connections are opened; the kernel reads each when it takes the
    /// entry.
    #[expect(clippy::vec_box, reason = "the kernel needs each at a fixed address")]
    remotes: Vec<Box<SocketAddrAny>>,
}

impl Uring {
    /// Creates a ring over non-blocking `listeners`, which may be shared with other workers. It
    /// must be created on the thread that uses it (the ring has a single issuer), whose worker has
    /// this budget for buffers.
    ///
    /// # Errors
    /// Fails if the system has no io_uring, forbids it, or lacks a feature that this backend needs.
    pub fn new(listeners: Vec<Arc<OwnedFd>>, budget_bytes: usize) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring without ext_arg"));
        }
        let lent = LentRing::register(&ring, GROUP, budget_bytes)?;
        let mut uring = Self {
            ring,
            lent,
            listeners: listeners.into_iter().map(Listener::new).collect(),
            accepting: false,
            accept_from: None,
            entries: Vec::new(),
            ready: Vec::with_capacity(COMPLETIONS as usize),
            position: 0,
            pass: 0,
            later: Vec::with_capacity(COMPLETIONS as usize),
            quiet: None,
            ended: Vec::new(),
            spare_messages: Vec::new(),
            wake: Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?),
            wake_count: Box::new(0),
            outstanding: 0,
            remotes: Vec::new(),
        };
        uring.arm_wake();
        Ok(uring)
    }

    /// Queues an entry that has a completion.
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        self.outstanding += 1;
        self.queue(entry);
    }

    /// Queues an entry; hands the queue over if it is full.
    #[inline]
    fn queue(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the memory an entry names lives until its completion; see the documentation
            // of the module.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            // A full queue is handed over. A failure is transient (the completion queue is full);
            // taking completions off makes room.
            let _ = self.ring.submit();
            self.reap();
        }
    }

    /// Takes completions off the ring. Those for which there is no room stay on it until there is.
    fn reap(&mut self) {
        let taken = self.ready.len() + self.later.len();
        let places = self.ready.capacity().min(self.later.capacity()).saturating_sub(taken);
        for entry in self.ring.completion().take(places) {
            // A close has no completion, unless it fails.
            let counts = Op::of(entry.user_data()) != Some(Op::Close);
            if counts && !cqueue::more(entry.flags()) {
                self.outstanding -= 1;
            }
            self.ready.push((entry.user_data(), entry.result(), entry.flags()));
        }
    }

    /// Makes room for so many connections; returns false if there is no memory for them.
    fn has_room(&mut self, connections: usize) -> bool {
        let results = COMPLETIONS as usize + RESULTS_PER_CONNECTION * connections;
        has_places(&mut self.entries, connections)
            && has_places(&mut self.ended, connections)
            && has_places(&mut self.ready, results)
            && has_places(&mut self.later, results)
    }

    /// Attaches a socket as `slot`; returns false if there is no memory for it.
    fn fill(&mut self, slot: Slot, socket: Socket) -> bool {
        let index = slot as usize;
        if index >= self.entries.len() {
            if !self.has_room(index + 1) {
                return false;
            }
            self.entries.resize_with(index + 1, UringEntry::empty);
        }
        let entry = &mut self.entries[index];
        assert!(entry.fd.is_none(), "a slot is attached once");
        let generation = entry.generation.wrapping_add(1) & GENERATION_MASK;
        let listed = entry.listed;
        let Socket { fd, is_tcp } = socket;
        let fd = Some(fd);
        *entry = UringEntry { fd, is_tcp, generation, wanted: true, listed, ..UringEntry::empty() };
        true
    }

    fn arm_wake(&mut self) {
        let into = (&raw mut *self.wake_count).cast::<u8>();
        let read = opcode::Read::new(Fd(self.wake.as_raw_fd()), into, 8).build();
        self.push(&read.user_data(user_data(Op::Wake, 0, 0)));
    }

    fn cancel(&mut self, target: u64) {
        let cancel = opcode::AsyncCancel::new(target).build();
        self.push(&cancel.user_data(user_data(Op::Cancel, 0, 0)));
    }

    /// Returns the slot to which a completion belongs, unless the slot has a new connection.
    fn tenant(&self, data: u64) -> Option<Slot> {
        let (slot, generation) = slot_of(data);
        let entry = self.entries.get(slot as usize)?;
        (entry.fd.is_some() && entry.generation == generation).then_some(slot)
    }

    fn release_if_quiet(&mut self, slot: Slot) -> Option<Completion<Socket>> {
        let entry = &mut self.entries[slot as usize];
        if entry.is_busy() {
            return None;
        }
        self.close_socket(slot);
        Some(Completion::Released { slot })
    }

    /// Requests the close of the socket of a quiet slot, with the next submission. A system call of
    /// its own would double the cost.
    fn close_socket(&mut self, slot: Slot) {
        let Some(fd) = self.entries[slot as usize].fd.take() else { return };
        let close = opcode::Close::new(Fd(fd.into_raw_fd())).build();
        let close = close.flags(squeue::Flags::SKIP_SUCCESS);
        self.queue(&close.user_data(user_data(Op::Close, 0, 0)));
    }
}

impl Backend for Uring {
    type Socket = Socket;

    const SENDS_FILES: bool = false;

    fn now(&self) -> Now {
        Now::read()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        Waker(Arc::new(move || {
            let _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
        }))
    }

    fn accept(&mut self, on: bool) {
        self.accept_all(on);
    }

    fn close_listeners(&mut self) {
        // Queued entries name descriptors; they must reach the kernel before those are closed.
        let _ = self.ring.submit();
        self.listeners.clear();
    }

    fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        self.arm_ended();
        self.ready.drain(..self.position);
        self.position = 0;
        let is_idle = self.ready.is_empty() && self.later.is_empty();
        let timeout_ms = if is_idle { timeout_ms } else { Some(0) };
        let outcome = match timeout_ms {
            None => self.ring.submit_and_wait(1),
            Some(ms) => {
                let timeout = Timespec::from(Duration::from_millis(ms));
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        if self.ring.submission().is_empty() {
            self.remotes.clear();
        }
        self.reap();
        self.begin_pass();
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Completion<Socket>> {
        if let Some(slot) = self.quiet.take() {
            return self.release_if_quiet(slot);
        }
        if let Some(completion) = self.next_client() {
            return Some(completion);
        }
        loop {
            let &(data, result, flags) = self.ready.get(self.position)?;
            self.position += 1;
            let completion = match Op::of(data) {
                Some(Op::Receive) if self.is_turn_over(data, result) => {
                    self.put_off((data, result, flags));
                    None
                }
                Some(Op::Receive) => self.received(data, result, flags),
                Some(Op::Send) => self.sent(data, result),
                Some(Op::Accept) => match self.listener_polled(data, result) {
                    // A client waits there.
                    None => self.next_client(),
                    failed => failed,
                },
                Some(Op::Poll) => self.writable(data),
                Some(Op::Connect) => self.connected(data, result),
                Some(Op::Datagrams) => Some(Completion::Datagrams { number: data as u32 }),
                Some(Op::Wake) => {
                    self.arm_wake();
                    Some(Completion::Woken)
                }
                Some(Op::Cancel | Op::Close) | None => None,
            };
            if completion.is_some() {
                return completion;
            }
        }
    }

    #[inline]
    fn input(&self, lent: &Lent) -> &[u8] {
        self.lent.bytes(lent)
    }

    #[inline]
    fn give_back(&mut self, lent: Lent) {
        self.lent.give_back(lent);
    }

    fn await_datagrams(&mut self, socket: Option<BorrowedFd<'_>>, number: u32) -> io::Result<()> {
        let socket = socket.ok_or(io::ErrorKind::Unsupported)?;
        let poll = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(&poll.user_data(user_data(Op::Datagrams, 0, number)));
        Ok(())
    }

    fn attach(&mut self, slot: Slot, socket: Socket) -> io::Result<()> {
        if !self.fill(slot, socket) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.arm_receive(slot);
        Ok(())
    }

    fn connect(&mut self, slot: Slot, remote: &RemoteAddress) -> Result<OpeningState, Errno> {
        self.open_connection(slot, remote)
    }

    fn adopt(&mut self, slot: Slot, socket: OwnedFd) -> Result<(), Errno> {
        self.adopt_socket(slot, socket)
    }

    fn receive(&mut self, slot: Slot, on: bool) {
        self.steer_receive(slot, on);
    }

    fn expect_content(&mut self, slot: Slot, on: bool) {
        self.entries[slot as usize].content = on;
    }

    // SAFETY: requires the contract of `Backend::send` from its caller: the entry names the memory
    // of `parts`.
    #[inline]
    unsafe fn send(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        // SAFETY: the promise of the caller is the required one.
        unsafe { self.send_parts(slot, parts) }
    }

    fn send_now(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        self.send_at_once(slot, parts)
    }

    fn await_writable(&mut self, slot: Slot) {
        self.arm_poll(slot);
    }

    fn send_file(&mut self, _: Slot, _: BorrowedFd<'_>, _: u64, _: u64) -> Sending {
        Sending::Failed(Errno::OPNOTSUPP)
    }

    fn finish(&mut self, slot: Slot) {
        if let Some(fd) = &self.entries[slot as usize].fd {
            let _ = net::shutdown(fd, Shutdown::Write);
        }
    }

    fn progress(&self, slot: Slot) -> Option<u64> {
        super::progress_of(self.entries[slot as usize].fd.as_ref()?.as_fd())
    }

    fn close(&mut self, slot: Slot, reset: bool) -> bool {
        let entry = &mut self.entries[slot as usize];
        entry.closing = true;
        entry.wanted = false;
        let Some(fd) = &entry.fd else { return true };
        if reset && entry.is_tcp {
            let _ = net::sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
        if !entry.is_busy() {
            self.close_socket(slot);
            return true;
        }
        let all = CancelBuilder::fd(Fd(fd.as_raw_fd())).all();
        let cancel = opcode::AsyncCancel2::new(all).build();
        self.push(&cancel.user_data(user_data(Op::Cancel, 0, 0)));
        false
    }
}

impl Drop for Uring {
    /// Cancels everything and waits until the kernel is done with it. Closing a ring cancels its
    /// work in the background, so memory could be freed while it is in use.
    fn drop(&mut self) {
        self.accepting = false;
        for entry in &mut self.entries {
            entry.closing = true;
        }
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.push(&everything.user_data(user_data(Op::Cancel, 0, 0)));
        // Cancelled work completes at once; the bound only guards against a kernel that forgets.
        // With nothing outstanding a wait would last for its whole timeout, at each start and stop.
        for _ in 0..1000 {
            self.ready.clear();
            self.later.clear();
            let timeout = Timespec::from(Duration::from_millis(10));
            let args = SubmitArgs::new().timespec(&timeout);
            let _ = self.ring.submitter().submit_with_args(1, &args);
            self.reap();
            if self.outstanding == 0 {
                return;
            }
        }
    }
}
