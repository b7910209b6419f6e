//! The epoll backend: level-triggered readiness turned into completions.
//!
//! A request costs one `recv` and one `send`; `epoll_wait` is shared by all ready sockets. A socket
//! is watched for input once, when it is attached, and again only when back-pressure turns reading
//! off or a full socket buffer needs a report when it drains.

mod watched_sockets;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags};

use super::outgoing_socket::socket_for;
use super::{Backend, Completion, Lent, OpeningState, Sending, Slot, Waker};
use crate::clock::Now;
use crate::limits::{ACCEPTS_PER_PASS, CONTENT_TURN_BYTES, SEND_MAX_BYTES};
use crate::outgoing_connect::RemoteAddress;
use watched_sockets::Watched;

/// Events taken from the kernel per wait: enough to amortise the call, few enough to stay in cache.
const EVENTS_PER_WAIT: usize = 512;

/// Bytes of a poller: its input buffer and its events.
pub(crate) const WORKER_BYTES: usize = CONTENT_TURN_BYTES + EVENTS_PER_WAIT * size_of::<Event>();
/// Bytes of one connection in its table.
pub(crate) const CONNECTION_BYTES: usize = size_of::<Watched>();

const LISTENER_BIT: u64 = 1 << 63;
const WAKE_BIT: u64 = 1 << 62;
const DATAGRAM_BITS: u64 = LISTENER_BIT | WAKE_BIT;

/// The backend of one worker with epoll.
pub struct Epoll {
    poll: OwnedFd,
    wake: Arc<OwnedFd>,
    listeners: Vec<Arc<OwnedFd>>,
    accepting: bool,
    /// The error with which a listener could not be watched.
    listener_lost: Option<Errno>,
    sockets: Vec<Watched>,
    /// The number of sockets that have failed without a report.
    failed: usize,
    events: Vec<Event>,
    position: usize,
    /// The listener that still may have connections in this pass, and how many more are accepted
    /// from it.
    accept_from: Option<(usize, u32)>,
    /// Whether the event at `position` was writable too, so that its input is still to be
    /// processed.
    input_next: bool,
    input: Box<[u8]>,
    /// The numbers of the datagram sockets that are watched.
    datagrams: Vec<u32>,
}

impl Epoll {
    /// Creates a poller over non-blocking `listeners`, which may be shared with other workers.
    /// Accepting is off at first.
    ///
    /// # Errors
    /// Fails if the system gives no epoll or event descriptor.
    pub fn new(listeners: Vec<Arc<OwnedFd>>) -> io::Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&poll, &wake, EventData::new_u64(WAKE_BIT), EventFlags::IN)?;
        Ok(Self {
            poll,
            wake,
            listeners,
            accepting: false,
            listener_lost: None,
            sockets: Vec::new(),
            failed: 0,
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            position: 0,
            accept_from: None,
            input_next: false,
            input: vec![0; CONTENT_TURN_BYTES].into_boxed_slice(),
            datagrams: Vec::new(),
        })
    }

    fn accept_one(&mut self, listener: usize) -> Option<Completion<OwnedFd>> {
        Some(match super::take_client(&self.listeners[listener], SocketFlags::NONBLOCK)? {
            Ok((socket, peer)) => Completion::Accepted { listener, socket, peer },
            Err(error) => Completion::AcceptFailed { error },
        })
    }

    fn receive_from(&mut self, slot: Slot) -> Option<Completion<OwnedFd>> {
        let watched = &self.sockets[slot as usize];
        let room = &mut self.input[..super::turn_bytes(watched.content)];
        match net::recv(watched.fd.as_ref()?, room, RecvFlags::empty()).map(|(got, _)| got) {
            Ok(0) => {
                self.receive(slot, false);
                Some(Completion::Ended { slot })
            }
            Ok(got) => {
                let lent = Lent { buffer: 0, bytes: got as u32 };
                Some(Completion::Received { slot, lent })
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(error) => Some(Completion::Failed { slot, error }),
        }
    }

    /// Returns the slot to which an event belongs, unless its socket is gone.
    fn tenant(&self, data: u64) -> Option<Slot> {
        let slot = data as u32;
        let watched = self.sockets.get(slot as usize)?;
        (watched.fd.is_some() && watched.generation == (data >> 32) as u32).then_some(slot)
    }

    fn outcome(&mut self, slot: Slot, result: Result<usize, Errno>) -> Sending {
        match result {
            Ok(sent) => Sending::Done(sent),
            Err(Errno::AGAIN) => {
                self.await_writable(slot);
                Sending::Blocked
            }
            Err(Errno::INTR) => Sending::Done(0),
            Err(error) => Sending::Failed(error),
        }
    }

    /// Processes the event at `position`; returns `None` if it has no (more) results for the
    /// engine.
    fn look(&mut self) -> Option<Completion<OwnedFd>> {
        let event = self.events[self.position];
        let (data, flags) = (event.data.u64(), event.flags);
        if data & DATAGRAM_BITS == DATAGRAM_BITS {
            self.position += 1;
            return Some(Completion::Datagrams { number: data as u32 });
        }
        if data & LISTENER_BIT != 0 {
            self.position += 1;
            let listener = (data & !LISTENER_BIT) as usize;
            // An event may be older than the end of accepting.
            self.accept_from = self.accepting.then_some((listener, ACCEPTS_PER_PASS));
            return None;
        }
        if data == WAKE_BIT {
            self.position += 1;
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.wake, &mut count);
            return Some(Completion::Woken);
        }
        let Some(slot) = self.tenant(data) else {
            self.input_next = false;
            self.position += 1;
            return None;
        };
        let watched = &mut self.sockets[slot as usize];
        if watched.connecting {
            self.position += 1;
            return self.connected(slot);
        }
        if watched.writing && !self.input_next && flags.intersects(EventFlags::OUT | broken()) {
            self.input_next = true;
            watched.writing = false;
            self.watch(slot);
            return Some(Completion::Writable { slot });
        }
        self.input_next = false;
        self.position += 1;
        let watched = &self.sockets[slot as usize];
        if watched.reading {
            return self.receive_from(slot);
        }
        // Without a reader and a waiting writer, only a broken connection is reported. One whose
        // sides have both ended in order is not broken; its received input may still be read, and
        // so may the response of a server that has reset the connection after it.
        if watched.opened || watched.finished && !flags.contains(EventFlags::ERR) {
            self.park(slot);
            return None;
        }
        flags
            .intersects(EventFlags::ERR | EventFlags::HUP)
            .then_some(Completion::Failed { slot, error: Errno::CONNRESET })
    }
}

impl Backend for Epoll {
    type Socket = OwnedFd;

    const SENDS_FILES: bool = true;

    fn now(&self) -> Now {
        Now::read()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        Waker(Arc::new(move || {
            // EAGAIN means the counter is full: the worker is being woken already.
            let _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
        }))
    }

    fn accept(&mut self, on: bool) {
        if self.accepting == on {
            return;
        }
        self.accepting = on;
        self.listener_lost = None;
        for (index, listener) in self.listeners.iter().enumerate() {
            if on {
                let data = EventData::new_u64(LISTENER_BIT | index as u64);
                let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
                self.listener_lost = epoll::add(&self.poll, listener, data, flags).err();
                if self.listener_lost.is_some() {
                    break;
                }
            } else {
                let _ = epoll::delete(&self.poll, listener);
            }
        }
        if !on {
            self.accept_from = None;
        }
    }

    fn close_listeners(&mut self) {
        self.listeners.clear();
    }

    fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        let failed = self.failed > 0 || self.listener_lost.is_some();
        let timeout_ms = if failed { Some(0) } else { timeout_ms };
        let timeout = timeout_ms.map(|ms| Timespec {
            tv_sec: (ms / 1000) as i64,
            tv_nsec: (ms % 1000 * 1_000_000) as i64,
        });
        self.position = 0;
        self.input_next = false;
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.poll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Completion<OwnedFd>> {
        loop {
            if let Some((listener, left)) = self.accept_from {
                if left > 0
                    && let Some(completion) = self.accept_one(listener)
                {
                    self.accept_from = Some((listener, left - 1));
                    return Some(completion);
                }
                self.accept_from = None;
            }
            if self.position >= self.events.len() {
                let failed = self.failed > 0 || self.listener_lost.is_some();
                return if failed { self.next_failed() } else { None };
            }
            if let Some(completion) = self.look() {
                return Some(completion);
            }
        }
    }

    #[inline]
    fn input(&self, lent: &Lent) -> &[u8] {
        &self.input[..lent.bytes as usize]
    }

    #[inline]
    fn give_back(&mut self, _lent: Lent) {}

    fn await_datagrams(&mut self, socket: Option<BorrowedFd<'_>>, number: u32) -> io::Result<()> {
        let socket = socket.ok_or(io::ErrorKind::Unsupported)?;
        // Level-triggered: it is watched until it is closed.
        if !self.datagrams.contains(&number) {
            let data = EventData::new_u64(DATAGRAM_BITS | u64::from(number));
            epoll::add(&self.poll, socket, data, EventFlags::IN)?;
            self.datagrams.push(number);
        }
        Ok(())
    }

    fn attach(&mut self, slot: Slot, socket: OwnedFd) -> io::Result<()> {
        self.add(slot, socket, EventFlags::IN)
    }

    fn connect(&mut self, slot: Slot, remote: &RemoteAddress) -> Result<OpeningState, Errno> {
        let (socket, address) = socket_for(remote, SocketFlags::NONBLOCK)?;
        let opening = match net::connect(&socket, &address) {
            Ok(()) => OpeningState::Done,
            Err(Errno::INPROGRESS | Errno::INTR) => OpeningState::Pending,
            Err(error) => return Err(error),
        };
        self.add_opened(slot, socket, opening)?;
        self.sockets[slot as usize].is_local = matches!(remote, RemoteAddress::Unix(_));
        Ok(opening)
    }

    fn adopt(&mut self, slot: Slot, socket: OwnedFd) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        self.add_opened(slot, socket, OpeningState::Pending)
    }

    fn receive(&mut self, slot: Slot, on: bool) {
        let watched = &mut self.sockets[slot as usize];
        if watched.reading != on {
            watched.reading = on;
            self.watch(slot);
        }
    }

    fn expect_content(&mut self, slot: Slot, on: bool) {
        self.sockets[slot as usize].content = on;
    }

    // SAFETY: safe for every caller: the kernel has copied the bytes that it takes when the call
    // returns.
    #[inline]
    unsafe fn send(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        let Some(fd) = &self.sockets[slot as usize].fd else {
            return Sending::Failed(Errno::BADF);
        };
        let flags = SendFlags::NOSIGNAL;
        let result = match parts {
            [one] => net::send(fd, one, flags),
            many => net::sendmsg(fd, many, &mut SendAncillaryBuffer::default(), flags),
        };
        self.outcome(slot, result)
    }

    fn send_now(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        // SAFETY: a non-blocking send is over when it returns; it keeps nothing.
        unsafe { self.send(slot, parts) }
    }

    fn await_writable(&mut self, slot: Slot) {
        let watched = &mut self.sockets[slot as usize];
        if !watched.writing {
            watched.writing = true;
            self.watch(slot);
        }
    }

    fn send_file(&mut self, slot: Slot, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Sending {
        let Some(fd) = &self.sockets[slot as usize].fd else {
            return Sending::Failed(Errno::BADF);
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(SEND_MAX_BYTES);
        let mut position = offset;
        match rustix::fs::sendfile(fd, file, Some(&mut position), bytes) {
            // If nothing was sent although bytes are left, the file is shorter than it was.
            Ok(0) if bytes > 0 => Sending::Failed(Errno::NODATA),
            other => self.outcome(slot, other),
        }
    }

    fn finish(&mut self, slot: Slot) {
        let watched = &mut self.sockets[slot as usize];
        if let Some(fd) = &watched.fd {
            let _ = net::shutdown(fd, Shutdown::Write);
            watched.finished = true;
        }
    }

    fn progress(&self, slot: Slot) -> Option<u64> {
        super::progress_of(self.sockets[slot as usize].fd.as_ref()?.as_fd())
    }

    fn close(&mut self, slot: Slot, reset: bool) -> bool {
        let watched = &mut self.sockets[slot as usize];
        watched.reading = false;
        watched.writing = false;
        if watched.failed.take().is_some() {
            self.failed -= 1;
        }
        // Closing the only descriptor of a socket takes it out of the poller.
        if let Some(fd) = watched.fd.take()
            && reset
            && !watched.is_local
        {
            let _ = net::sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
        }
        true
    }
}

fn broken() -> EventFlags {
    EventFlags::ERR | EventFlags::HUP
}

#[cfg(test)]
mod tests;
