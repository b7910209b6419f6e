//! The io_uring backend: multishot receive into lent buffers, one send in flight per connection,
//! everything asked for in a pass handed over by the one `io_uring_enter` that also waits.
//!
//! Memory the kernel holds stays in place until its completion: buffers of the lent ring belong to
//! this file, output belongs to the connection's queue until `Sent` or `Released`. A closed slot is
//! released only when nothing of it is in flight any more.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{self, SendFlags, Shutdown};

use super::lent::LentRing;
use super::{Backend, Completion, Lent, Sending, Slot, Waker};
use crate::clock::Now;
use crate::limits::SEND_PARTS_MAX;

/// Submission entries: what a busy pass asks for; a full queue is handed over early.
const SUBMISSIONS: u32 = 1024;
/// Completion entries: room for the receives and sends of several thousand busy connections;
/// beyond, the kernel keeps them for us.
const COMPLETIONS: u32 = 8192;
/// Accepts asked for at once per listener: what one pass takes at most (design §4.2).
const ACCEPTS: usize = 16;
/// The group of the lent buffers.
const GROUP: u16 = 0;

/// What an entry was asked for, in the top byte of its user data.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Accept = 1,
    Receive = 2,
    Send = 3,
    Wake = 4,
    Cancel = 5,
    Poll = 6,
}

impl Op {
    fn of(user_data: u64) -> Option<Self> {
        [Self::Accept, Self::Receive, Self::Send, Self::Wake, Self::Cancel, Self::Poll]
            .into_iter()
            .find(|op| *op as u64 == user_data >> 56)
    }
}

const GENERATION_MASK: u32 = (1 << 24) - 1;

/// One connection as the kernel knows it.
struct Entry {
    fd: Option<OwnedFd>,
    generation: u32,
    /// A receive is armed; its last completion is still to come.
    receiving: bool,
    /// The engine wants to receive.
    wanted: bool,
    /// A cancel of the receive is under way.
    cancelling: bool,
    sending: bool,
    /// A poll for room in the socket is armed.
    polling: bool,
    closing: bool,
    /// The vectors of the send in flight, when it has more than one part.
    message: Option<Box<Message>>,
}

/// A message header and its vectors at a fixed address.
struct Message {
    header: libc::msghdr,
    vectors: [libc::iovec; SEND_PARTS_MAX],
}

/// Where the kernel writes the address of a client.
struct Peer {
    address: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

struct Listener {
    socket: Arc<OwnedFd>,
    peers: Box<[Peer; ACCEPTS]>,
    armed: [bool; ACCEPTS],
}

/// See the module's head.
pub struct Uring {
    /// Dropped before the memory it works on.
    ring: IoUring,
    lent: LentRing,
    listeners: Vec<Listener>,
    accepting: bool,
    entries: Vec<Entry>,
    /// Results of this pass, taken off the ring before any is looked at.
    ready: Vec<(u64, i32, u32)>,
    position: usize,
    /// Receives that found no buffer; armed again at the end of the pass.
    starved: Vec<Slot>,
    #[expect(clippy::vec_box, reason = "the kernel needs each at a fixed address")]
    spare_messages: Vec<Box<Message>>,
    wake: Arc<OwnedFd>,
    wake_count: Box<u64>,
    /// Entries handed over whose last completion has not come.
    outstanding: usize,
}

impl Uring {
    /// A ring over `listeners`, which may be shared with other workers. Must be made on the thread
    /// that uses it (the ring has a single issuer).
    ///
    /// # Errors
    /// When the system has no io_uring, forbids it, or lacks a feature this backend needs.
    pub fn new(listeners: Vec<Arc<OwnedFd>>) -> io::Result<Self> {
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
        let lent = LentRing::register(&ring, GROUP)?;
        for socket in &listeners {
            // The ring answers EAGAIN instead of waiting on a non-blocking descriptor.
            rustix::io::ioctl_fionbio(socket, false)?;
        }
        let listener = |socket| Listener {
            socket,
            peers: Box::new([const { Peer::EMPTY }; ACCEPTS]),
            armed: [false; ACCEPTS],
        };
        let mut uring = Self {
            ring,
            lent,
            listeners: listeners.into_iter().map(listener).collect(),
            accepting: false,
            entries: Vec::new(),
            ready: Vec::with_capacity(COMPLETIONS as usize / 8),
            position: 0,
            starved: Vec::new(),
            spare_messages: Vec::new(),
            wake: Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?),
            wake_count: Box::new(0),
            outstanding: 0,
        };
        uring.arm_wake();
        Ok(uring)
    }

    /// Queues an entry; hands the queue over when it is full.
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        self.outstanding += 1;
        loop {
            // SAFETY: the memory an entry names lives until its completion; see the module's head.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            // A full queue: hand it over. Failing is transient (the completion queue is full);
            // taking completions off makes room.
            let _ = self.ring.submit();
            self.reap();
        }
    }

    /// Takes completions off the ring.
    fn reap(&mut self) {
        for entry in self.ring.completion() {
            if !cqueue::more(entry.flags()) {
                self.outstanding -= 1;
            }
            self.ready.push((entry.user_data(), entry.result(), entry.flags()));
        }
    }

    fn arm_wake(&mut self) {
        let into = (&raw mut *self.wake_count).cast::<u8>();
        let read = opcode::Read::new(Fd(self.wake.as_raw_fd()), into, 8).build();
        self.push(&read.user_data(user_data(Op::Wake, 0, 0)));
    }

    fn arm_accept(&mut self, listener: usize, place: usize) {
        let at = &mut self.listeners[listener];
        at.armed[place] = true;
        let peer = &mut at.peers[place];
        peer.bytes = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        let address = (&raw mut peer.address).cast();
        let accept = opcode::Accept::new(Fd(at.socket.as_raw_fd()), address, &raw mut peer.bytes)
            .flags(libc::SOCK_CLOEXEC)
            .build();
        let data = user_data(Op::Accept, place as u32, listener as u32);
        self.push(&accept.user_data(data));
    }

    fn arm_receive(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let Some(fd) = &entry.fd else { return };
        entry.receiving = true;
        let data = user_data(Op::Receive, entry.generation, slot);
        let receive = opcode::RecvMulti::new(Fd(fd.as_raw_fd()), GROUP).build();
        self.push(&receive.user_data(data));
    }

    fn cancel(&mut self, target: u64) {
        let cancel = opcode::AsyncCancel::new(target).build();
        self.push(&cancel.user_data(user_data(Op::Cancel, 0, 0)));
    }

    /// The slot a completion belongs to, unless it has a new tenant.
    fn tenant(&self, data: u64) -> Option<Slot> {
        let slot = data as u32;
        let generation = (data >> 32) as u32 & GENERATION_MASK;
        let entry = self.entries.get(slot as usize)?;
        (entry.fd.is_some() && entry.generation == generation).then_some(slot)
    }

    fn accepted(&mut self, data: u64, result: i32) -> Option<Completion<OwnedFd>> {
        let listener = data as u32 as usize;
        let place = (data >> 32) as usize & (ACCEPTS - 1);
        let at = &mut self.listeners[listener];
        at.armed[place] = false;
        let peer = at.peers[place].address();
        if self.accepting {
            self.arm_accept(listener, place);
        }
        if result < 0 {
            let error = Errno::from_raw_os_error(-result);
            let cancelled = error == Errno::CANCELED;
            return (!cancelled).then_some(Completion::AcceptFailed { error });
        }
        // SAFETY: a successful accept gives a fresh descriptor that is ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(result) };
        Some(Completion::Accepted { listener, socket, peer })
    }

    fn received(&mut self, data: u64, result: i32, flags: u32) -> Option<Completion<OwnedFd>> {
        let lent =
            cqueue::buffer_select(flags).map(|buffer| Lent { buffer, bytes: result.max(0) as u32 });
        let Some(slot) = self.tenant(data) else {
            self.lent.give_back_if(lent);
            return None;
        };
        let entry = &mut self.entries[slot as usize];
        if !cqueue::more(flags) {
            entry.receiving = false;
            entry.cancelling = false;
        }
        if entry.closing {
            self.lent.give_back_if(lent);
            return self.release_if_quiet(slot);
        }
        let rearm = entry.wanted && !entry.receiving;
        match (result, lent) {
            (1.., Some(lent)) => {
                if rearm {
                    self.arm_receive(slot);
                }
                Some(Completion::Received { slot, lent })
            }
            (0, lent) => {
                self.lent.give_back_if(lent);
                self.entries[slot as usize].wanted = false;
                Some(Completion::Ended { slot })
            }
            (_, lent) => {
                self.lent.give_back_if(lent);
                match Errno::from_raw_os_error(-result) {
                    Errno::CANCELED | Errno::INTR | Errno::AGAIN => {
                        if rearm {
                            self.arm_receive(slot);
                        }
                        None
                    }
                    Errno::NOBUFS => {
                        self.starved.push(slot);
                        None
                    }
                    error => Some(Completion::Failed { slot, error }),
                }
            }
        }
    }

    fn sent(&mut self, data: u64, result: i32) -> Option<Completion<OwnedFd>> {
        let slot = self.tenant(data)?;
        let entry = &mut self.entries[slot as usize];
        entry.sending = false;
        if let Some(message) = entry.message.take() {
            self.spare_messages.push(message);
        }
        if entry.closing {
            return self.release_if_quiet(slot);
        }
        let result = match result {
            0.. => Ok(result as usize),
            _ => match Errno::from_raw_os_error(-result) {
                Errno::INTR | Errno::AGAIN => Ok(0),
                error => Err(error),
            },
        };
        Some(Completion::Sent { slot, result })
    }

    fn writable(&mut self, data: u64) -> Option<Completion<OwnedFd>> {
        let slot = self.tenant(data)?;
        let entry = &mut self.entries[slot as usize];
        entry.polling = false;
        match entry.closing {
            true => self.release_if_quiet(slot),
            // A socket that failed is writable as well: the next send tells.
            false => Some(Completion::Writable { slot }),
        }
    }

    fn release_if_quiet(&mut self, slot: Slot) -> Option<Completion<OwnedFd>> {
        let entry = &mut self.entries[slot as usize];
        if entry.is_busy() {
            return None;
        }
        entry.fd = None;
        Some(Completion::Released { slot })
    }

    fn queue_send(&mut self, slot: Slot, entry: &squeue::Entry) -> Sending {
        let at = &mut self.entries[slot as usize];
        debug_assert!(!at.sending, "one send in flight per connection");
        at.sending = true;
        let data = user_data(Op::Send, at.generation, slot);
        self.push(&entry.clone().user_data(data));
        Sending::Pending
    }
}

impl Backend for Uring {
    type Socket = OwnedFd;

    const SENDS_FILES: bool = false;

    fn now(&self) -> Now {
        Now::read()
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        Waker(Arc::new(move || {
            let _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
        }))
    }

    fn accept(&mut self, on: bool) {
        if self.accepting == on {
            return;
        }
        self.accepting = on;
        for listener in 0..self.listeners.len() {
            for place in 0..ACCEPTS {
                match (on, self.listeners[listener].armed[place]) {
                    (true, false) => self.arm_accept(listener, place),
                    (false, true) => {
                        self.cancel(user_data(Op::Accept, place as u32, listener as u32));
                    }
                    _ => {}
                }
            }
        }
    }

    fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        for slot in std::mem::take(&mut self.starved) {
            let entry = &self.entries[slot as usize];
            if entry.wanted && !entry.receiving && !entry.closing {
                self.lent.grow();
                self.arm_receive(slot);
            }
        }
        self.ready.drain(..self.position);
        self.position = 0;
        let timeout_ms = if self.ready.is_empty() { timeout_ms } else { Some(0) };
        let outcome = match timeout_ms {
            None => self.ring.submit_and_wait(1),
            Some(ms) => {
                let timeout = Timespec::from(Duration::from_millis(ms));
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        self.reap();
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Completion<OwnedFd>> {
        loop {
            let &(data, result, flags) = self.ready.get(self.position)?;
            self.position += 1;
            let completion = match Op::of(data) {
                Some(Op::Receive) => self.received(data, result, flags),
                Some(Op::Send) => self.sent(data, result),
                Some(Op::Accept) => self.accepted(data, result),
                Some(Op::Poll) => self.writable(data),
                Some(Op::Wake) => {
                    self.arm_wake();
                    Some(Completion::Woken)
                }
                Some(Op::Cancel) | None => None,
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

    fn attach(&mut self, slot: Slot, socket: OwnedFd) -> io::Result<()> {
        let index = slot as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, Entry::empty);
        }
        let entry = &mut self.entries[index];
        assert!(entry.fd.is_none(), "a slot is attached once");
        let generation = entry.generation.wrapping_add(1) & GENERATION_MASK;
        *entry = Entry { fd: Some(socket), generation, wanted: true, ..Entry::empty() };
        self.arm_receive(slot);
        Ok(())
    }

    fn receive(&mut self, slot: Slot, on: bool) {
        let entry = &mut self.entries[slot as usize];
        entry.wanted = on;
        if on && !entry.receiving {
            self.arm_receive(slot);
        } else if !on && entry.receiving && !entry.cancelling {
            entry.cancelling = true;
            let target = user_data(Op::Receive, entry.generation, slot);
            self.cancel(target);
        }
    }

    // SAFETY: needs what `Backend::send` asks of its caller: the entry names the memory of `parts`.
    #[inline]
    unsafe fn send(&mut self, slot: Slot, parts: &[IoSlice<'_>], more: bool) -> Sending {
        let Some(fd) = self.entries[slot as usize].fd.as_ref().map(|fd| Fd(fd.as_raw_fd())) else {
            return Sending::Failed(Errno::BADF);
        };
        // WAITALL: the kernel goes on after a short send by itself.
        let mut flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        if more {
            flags |= libc::MSG_MORE;
        }
        if let [one] = parts {
            let bytes = u32::try_from(one.len()).unwrap_or(1 << 30);
            let send = opcode::Send::new(fd, one.as_ptr(), bytes).flags(flags).build();
            return self.queue_send(slot, &send);
        }
        let mut message = self.spare_messages.pop().unwrap_or_else(Message::boxed);
        message.point_to(parts);
        let header = &raw const message.header;
        self.entries[slot as usize].message = Some(message);
        let send = opcode::SendMsg::new(fd, header).flags(flags as u32).build();
        self.queue_send(slot, &send)
    }

    fn send_now(&mut self, slot: Slot, bytes: &[u8]) -> Sending {
        let Some(fd) = &self.entries[slot as usize].fd else {
            return Sending::Failed(Errno::BADF);
        };
        match net::send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => Sending::Done(sent),
            Err(Errno::AGAIN | Errno::NOBUFS) => {
                self.await_writable(slot);
                Sending::Blocked
            }
            Err(Errno::INTR) => Sending::Done(0),
            Err(error) => Sending::Failed(error),
        }
    }

    fn await_writable(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let Some(fd) = &entry.fd else { return };
        if entry.polling {
            return;
        }
        entry.polling = true;
        let data = user_data(Op::Poll, entry.generation, slot);
        let poll = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLOUT as u32).build();
        self.push(&poll.user_data(data));
    }

    fn send_file(&mut self, _: Slot, _: BorrowedFd<'_>, _: u64, _: u64) -> Sending {
        Sending::Failed(Errno::OPNOTSUPP)
    }

    fn finish(&mut self, slot: Slot) {
        if let Some(fd) = &self.entries[slot as usize].fd {
            let _ = net::shutdown(fd, Shutdown::Write);
        }
    }

    fn acknowledged(&self, slot: Slot) -> Option<u64> {
        use std::os::fd::AsFd;
        super::tcp_bytes_acknowledged(self.entries[slot as usize].fd.as_ref()?.as_fd())
    }

    fn close(&mut self, slot: Slot, abruptly: bool) -> bool {
        let entry = &mut self.entries[slot as usize];
        entry.closing = true;
        entry.wanted = false;
        let Some(fd) = &entry.fd else { return true };
        if abruptly {
            let _ = net::sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
        if !entry.is_busy() {
            entry.fd = None;
            return true;
        }
        let all = CancelBuilder::fd(Fd(fd.as_raw_fd())).all();
        let cancel = opcode::AsyncCancel2::new(all).build();
        self.push(&cancel.user_data(user_data(Op::Cancel, 0, 0)));
        false
    }
}

impl Drop for Uring {
    /// Closing a ring cancels its work in the background; memory could be freed under it. So cancel
    /// everything here and wait until the kernel is done with it.
    fn drop(&mut self) {
        self.accepting = false;
        for entry in &mut self.entries {
            entry.closing = true;
        }
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.push(&everything.user_data(user_data(Op::Cancel, 0, 0)));
        // Cancelled work completes at once; the bound only guards against a kernel that forgets.
        for _ in 0..1000 {
            self.ready.clear();
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

impl Entry {
    /// Whether a completion of it is still to come.
    fn is_busy(&self) -> bool {
        self.receiving || self.sending || self.polling
    }

    fn empty() -> Self {
        Self {
            fd: None,
            generation: 0,
            receiving: false,
            wanted: false,
            cancelling: false,
            sending: false,
            polling: false,
            closing: false,
            message: None,
        }
    }
}

impl Message {
    fn boxed() -> Box<Self> {
        // SAFETY: all-zero headers and vectors are valid and empty.
        Box::new(unsafe { std::mem::zeroed() })
    }

    fn point_to(&mut self, parts: &[IoSlice<'_>]) {
        for (vector, part) in self.vectors.iter_mut().zip(parts) {
            vector.iov_base = part.as_ptr().cast_mut().cast();
            vector.iov_len = part.len();
        }
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = parts.len().min(SEND_PARTS_MAX);
    }
}

impl Peer {
    // SAFETY: all-zero bytes are a valid, unspecified address.
    const EMPTY: Self = Self { address: unsafe { std::mem::zeroed() }, bytes: 0 };

    fn address(&self) -> Option<SocketAddr> {
        match i32::from(self.address.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which form the kernel wrote.
                let v4 = unsafe { &*(&raw const self.address).cast::<libc::sockaddr_in>() };
                let ip = u32::from_be(v4.sin_addr.s_addr);
                Some((std::net::Ipv4Addr::from(ip), u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { &*(&raw const self.address).cast::<libc::sockaddr_in6>() };
                let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some((ip, u16::from_be(v6.sin6_port)).into())
            }
            _ => None,
        }
    }
}

fn user_data(op: Op, generation: u32, index: u32) -> u64 {
    (op as u64) << 56 | u64::from(generation & GENERATION_MASK) << 32 | u64::from(index)
}
