//! What the engine asks of the kernel, and how the kernel answers: completions, whatever the system
//! interface underneath.
//!
//! One pass of a worker: [`Backend::wait`], then [`Backend::next`] until it is `None`. The engine
//! never blocks anywhere else. A connection is named by its slot; results of a slot's former tenant
//! never come out.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use crate::clock::Now;
use crate::limits::{CONTENT_TURN_BYTES, INPUT_TURN_BYTES};
use crate::remote::RemoteAddress;

pub mod epoll;
mod outgoing;
mod probe;
#[cfg(feature = "sim")]
pub mod sim;
pub mod uring;

pub use probe::probe_uring;

/// Index of a connection in a worker's tables.
pub type Slot = u32;

/// Input the backend has lent; goes back by [`Backend::give_back`]. Not `Copy`, so that it is given
/// back once.
#[derive(Debug)]
pub struct Lent {
    /// Which buffer.
    pub(crate) buffer: u16,
    /// How many bytes of it are filled.
    pub(crate) bytes: u32,
}

/// What the kernel had to say.
#[derive(Debug)]
pub enum Completion<S> {
    /// A client connected.
    Accepted {
        /// Index of the listener.
        listener: usize,
        /// The new socket, not attached yet.
        socket: S,
        /// Where the client is; `None` for a Unix socket.
        peer: Option<SocketAddr>,
    },
    /// Accepting failed: the client has gone again (harmless) or the system lacks something.
    AcceptFailed {
        /// Why.
        error: Errno,
    },
    /// A listener cannot be watched. Accepting has to be turned off and on again.
    ListenerLost {
        /// Why.
        error: Errno,
    },
    /// Accepting is off, and the kernel may have told this worker, and no other, of a client.
    /// Another worker finds it by turning accepting off and on again.
    ClientMissed,
    /// A connection that was [asked for](Backend::connect) is open and receives as one that was
    /// attached; or it cannot be opened, and is to be closed all the same.
    Connected {
        /// The connection.
        slot: Slot,
        /// Why not.
        result: Result<(), Errno>,
    },
    /// Bytes arrived. More may follow without asking until [`Backend::receive`] turns it off; up to
    /// one lent buffer may still come after that. In one pass there are not many more of a
    /// connection than its turn has; see [`Backend::expect_content`].
    Received {
        /// The connection.
        slot: Slot,
        /// The bytes; at least one.
        lent: Lent,
    },
    /// The peer will send no more.
    Ended {
        /// The connection.
        slot: Slot,
    },
    /// Receiving failed; the connection is broken.
    Failed {
        /// The connection.
        slot: Slot,
        /// Why.
        error: Errno,
    },
    /// A send that reported [`Sending::Blocked`] can be tried again.
    Writable {
        /// The connection.
        slot: Slot,
    },
    /// A send that reported [`Sending::Pending`] is done; its memory is ours again.
    Sent {
        /// The connection.
        slot: Slot,
        /// Bytes taken by the kernel.
        result: Result<usize, Errno>,
    },
    /// After [`Backend::close`]: the kernel holds nothing of this slot any more.
    Released {
        /// The connection.
        slot: Slot,
    },
    /// Datagrams stand in a socket; see [`Backend::await_datagrams`].
    Datagrams {
        /// Its number.
        number: u32,
    },
    /// Another thread called [`Waker::wake`].
    Woken,
}

/// How far a connection is that is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningState {
    /// It is open, and receives as one that was attached: a Unix socket, whose peer is on this
    /// machine.
    Done,
    /// [`Completion::Connected`] follows, unless it is closed before.
    Pending,
}

/// How a send went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// The kernel took this many bytes; the memory is ours again.
    Done(usize),
    /// The kernel takes nothing now; [`Completion::Writable`] follows.
    Blocked,
    /// The kernel works on it and holds the memory until [`Completion::Sent`].
    Pending,
    /// The connection is broken, or the system lacks memory at the moment (`ENOBUFS`, `ENOMEM`).
    Failed(Errno),
}

/// The system interface of one worker.
pub trait Backend: Sized {
    /// A connected socket before it is attached.
    type Socket;

    /// Whether [`Self::send_file`] exists; otherwise ranges of mapped files leave as memory.
    const SENDS_FILES: bool;

    /// The clocks, read once per pass.
    fn now(&self) -> Now;

    /// The same time in the form and with the precision that QUIC needs.
    fn instant(&self) -> Instant;

    /// A handle with which any thread ends a [`Self::wait`].
    fn waker(&self) -> Waker;

    /// Turns accepting on or off for all listeners. Turned off, not one client more is taken.
    fn accept(&mut self, on: bool);

    /// Gives the listeners up; accepting is off, and stays so.
    fn close_listeners(&mut self);

    /// Hands what was asked for to the kernel and waits until something is ready, or for
    /// `timeout_ms` (`None`: as long as it takes; `Some(0)`: not at all).
    ///
    /// # Errors
    /// Only what makes the backend unusable; interruptions are not errors.
    fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()>;

    /// The next result of this pass.
    fn next(&mut self) -> Option<Completion<Self::Socket>>;

    /// The bytes of a lent buffer.
    fn input(&self, lent: &Lent) -> &[u8];

    /// Returns a lent buffer to the backend.
    fn give_back(&mut self, lent: Lent);

    /// Reports when datagrams have arrived at a non-blocking socket. It is called again each time
    /// some of them were received, and then reports whether more have arrived. `socket` is `None`
    /// for a simulated socket, which only the simulated backend can watch.
    ///
    /// # Errors
    /// When the system cannot watch one more socket.
    fn await_datagrams(&mut self, socket: Option<BorrowedFd<'_>>, number: u32) -> io::Result<()>;

    /// Takes a socket over as `slot` and starts to receive.
    ///
    /// # Errors
    /// When the system cannot watch one more socket; the socket is closed then.
    fn attach(&mut self, slot: Slot, socket: Self::Socket) -> io::Result<()>;

    /// Opens a connection as `slot`.
    ///
    /// # Errors
    /// When the system cannot begin; the slot is free then.
    fn connect(&mut self, slot: Slot, remote: &RemoteAddress) -> Result<OpeningState, Errno>;

    /// Takes a socket over as `slot` that is connected already. [`Completion::Connected`] follows,
    /// as for one that is opened.
    ///
    /// # Errors
    /// When the system cannot watch one more socket; the socket is closed and the slot free then.
    fn adopt(&mut self, slot: Slot, socket: OwnedFd) -> Result<(), Errno>;

    /// Turns receiving on or off (back-pressure). A socket that the system cannot watch any more is
    /// told as [`Completion::Failed`]; so it is in [`Self::await_writable`].
    fn receive(&mut self, slot: Slot, on: bool);

    /// Whether what a connection receives is content, most of it. Its turn in a pass is
    /// [`CONTENT_TURN_BYTES`] then, and else [`INPUT_TURN_BYTES`], as from the beginning.
    fn expect_content(&mut self, slot: Slot, on: bool);

    /// Sends `parts` in order, as far as the kernel takes them. At most one send per slot is in
    /// flight.
    ///
    /// # Safety
    /// After [`Sending::Pending`] the memory of `parts` must stay in place and unchanged until
    /// [`Completion::Sent`] or [`Completion::Released`] of this slot.
    unsafe fn send(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending;

    /// Sends what the kernel takes at once of `parts`: never [`Sending::Pending`], so their memory
    /// is ours again. No other send of the slot may be in flight.
    fn send_now(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending;

    /// Asks for one [`Completion::Writable`], as a send that was [`Sending::Blocked`] does.
    fn await_writable(&mut self, slot: Slot);

    /// Sends `bytes` of a file from `offset`. Only called when [`Self::SENDS_FILES`].
    fn send_file(&mut self, slot: Slot, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Sending;

    /// Sends the peer our end of stream; receiving goes on.
    fn finish(&mut self, slot: Slot);

    /// A number above 0 that grows when the peer takes bytes, if the system tells. It may fall when
    /// a send has taken bytes, which is progress as well.
    fn progress(&self, slot: Slot) -> Option<u64>;

    /// Closes the connection; `abruptly` resets it, so that what went out never looks like a
    /// complete answer. True: the slot is free now. False: the kernel still holds memory of it;
    /// [`Completion::Released`] follows.
    fn close(&mut self, slot: Slot, abruptly: bool) -> bool;
}

/// Ends the wait of one worker from any thread.
#[derive(Clone)]
pub struct Waker(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Makes the worker's current or next wait return with [`Completion::Woken`].
    pub fn wake(&self) {
        (self.0)();
    }
}

/// Bytes of a connection's turn in a pass; see [`Backend::expect_content`].
#[inline]
fn turn_bytes(is_content: bool) -> usize {
    if is_content { CONTENT_TURN_BYTES } else { INPUT_TURN_BYTES }
}

/// Takes a client off the queue of a non-blocking listener, with `flags` and close-on-exec for its
/// socket; `None` when nobody waits.
fn take_client(
    listener: &OwnedFd,
    flags: SocketFlags,
) -> Option<Result<(OwnedFd, Option<SocketAddr>), Errno>> {
    match acceptfrom_with(listener, flags | SocketFlags::CLOEXEC) {
        Ok((socket, peer)) => {
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            Some(Ok((socket, peer)))
        }
        Err(Errno::AGAIN) => None,
        Err(error) => Some(Err(error)),
    }
}

/// See [`Backend::progress`].
pub(crate) fn progress_of(socket: BorrowedFd<'_>) -> Option<u64> {
    tcp_bytes_acknowledged(socket).or_else(|| Some(u64::MAX - bytes_unread(socket)?))
}

/// `tcpi_bytes_acked` of a TCP socket; `None` for other sockets.
fn tcp_bytes_acknowledged(socket: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: a zeroed tcp_info is a valid value; the kernel writes at most `bytes` of it and says
    // how many it wrote.
    unsafe {
        let mut info: TcpInfo = std::mem::zeroed();
        let mut bytes = size_of::<TcpInfo>() as libc::socklen_t;
        let outcome = libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut bytes,
        );
        (outcome == 0 && bytes as usize >= size_of::<TcpInfo>()).then_some(info.bytes_acked)
    }
}

/// Bytes of memory for what was sent and the peer has not read, of a Unix socket (unix(7)).
fn bytes_unread(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    let outcome = unsafe {
        libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&socket), libc::TIOCOUTQ, &raw mut bytes)
    };
    (outcome == 0).then(|| u64::try_from(bytes).ok()).flatten()
}

/// The head of the kernel's `struct tcp_info` (linux/tcp.h) up to the one field we read.
#[repr(C)]
struct TcpInfo {
    before: [u8; 120],
    bytes_acked: u64,
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::epoll::Epoll;
    use super::uring::Uring;
    use super::*;

    /// More than a Unix socket holds.
    static BYTES: [u8; 4 << 20] = [7; 4 << 20];

    /// How many bytes the socket of slot 0 takes before its peer reads.
    fn send<B: Backend>(backend: &mut B, bytes: &'static [u8]) -> usize {
        // SAFETY: `bytes` stay for ever.
        match unsafe { backend.send(0, &[IoSlice::new(bytes)]) } {
            Sending::Done(bytes) => return bytes,
            Sending::Pending => {}
            other => panic!("{other:?}"),
        }
        backend.wait(Some(10_000)).expect("a wait");
        match backend.next() {
            Some(Completion::Sent { result, .. }) => result.expect("bytes"),
            _ => panic!("nothing was sent although there was room"),
        }
    }

    /// `non_blocking` as the backend makes the sockets it accepts.
    fn a_unix_socket_tells_how_far_it_is<B: Backend>(mut backend: B, non_blocking: bool)
    where
        B::Socket: From<OwnedFd>,
    {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        near.set_nonblocking(non_blocking).expect("set");
        backend.attach(0, OwnedFd::from(near).into()).expect("room for one");
        let taken = send(&mut backend, &BYTES);
        assert!(taken > 0 && taken < BYTES.len(), "{taken} bytes");
        let before = backend.progress(0).expect("a figure");
        far.read_exact(&mut vec![0; 64 << 10]).expect("what was sent");
        let after = backend.progress(0).expect("a figure");
        assert!(after > before, "{before}, then {after}");
    }

    #[test]
    fn unix_sockets_tell_how_far_they_are() {
        a_unix_socket_tells_how_far_it_is(Epoll::new(Vec::new()).expect("epoll"), true);
        a_unix_socket_tells_how_far_it_is(
            Uring::new(Vec::new(), usize::MAX).expect("io_uring"),
            false,
        );
    }
}
