//! The interface between the engine and the kernel: requests of the engine, and completions of the
//! kernel, independent of the system interface underneath.
//!
//! One pass of a worker calls [`Backend::wait`], then [`Backend::next`] until it is `None`. The
//! engine never blocks anywhere else. A connection is identified by its slot; results of a slot's
//! former connection are never returned.
//!
//! | Module | Contents |
//! |---|---|
//! | `epoll` | the epoll backend: level-triggered readiness turned into completions |
//! | `uring` | the io_uring backend: multishot receives, and one system call for each pass |
//! | `sim` | the simulated backend, without sockets, threads and a clock (feature `sim`) |
//! | `uring_probe` | the check whether io_uring works here, by an attempt |
//! | `outgoing_socket` | sockets for connections to other servers |

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};

use crate::clock::Now;
use crate::limits::{CONTENT_TURN_BYTES, INPUT_TURN_BYTES};
use crate::outgoing_connect::RemoteAddress;

pub mod epoll;
mod outgoing_socket;
#[cfg(feature = "sim")]
pub mod sim;
pub mod uring;
mod uring_probe;

pub use uring_probe::probe_uring;

/// Index of a connection in a worker's tables.
pub type Slot = u32;

/// Input that the backend has lent. It is returned by [`Backend::give_back`], and is not `Copy`, so
/// that it is returned once.
#[derive(Debug)]
pub struct Lent {
    /// The index of the buffer.
    pub(crate) buffer: u16,
    /// The number of filled bytes in it.
    pub(crate) bytes: u32,
}

/// A result of the kernel.
#[derive(Debug)]
pub enum Completion<S> {
    /// A client connected.
    Accepted {
        /// Index of the listener.
        listener: usize,
        /// The new socket, not attached yet.
        socket: S,
        /// The address of the client; `None` for a Unix socket.
        peer: Option<SocketAddr>,
    },
    /// Accepting failed: the client has gone again (harmless) or the system lacks a resource.
    AcceptFailed {
        /// The error of the system.
        error: Errno,
    },
    /// A listener cannot be watched. Accepting has to be turned off and on again.
    ListenerLost {
        /// The error of the system.
        error: Errno,
    },
    /// Accepting is off, and the kernel may have notified this worker, and no other, of a client.
    /// Another worker finds it by turning accepting off and on again.
    ClientMissed,
    /// A [requested](Backend::connect) connection is open and receives as an attached one does; or
    /// it cannot be opened, and is to be closed all the same.
    Connected {
        /// The connection.
        slot: Slot,
        /// The error of the system, if it cannot be opened.
        result: Result<(), Errno>,
    },
    /// Bytes arrived. More may follow without a request until [`Backend::receive`] turns it off; up
    /// to one lent buffer may still come after that. In one pass a connection gets not many more
    /// bytes than its turn has; see [`Backend::expect_content`].
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
        /// The error of the system.
        error: Errno,
    },
    /// A send that reported [`Sending::Blocked`] can be tried again.
    Writable {
        /// The connection.
        slot: Slot,
    },
    /// A send that reported [`Sending::Pending`] is done; its memory belongs to the engine again.
    Sent {
        /// The connection.
        slot: Slot,
        /// The number of bytes that the kernel took.
        result: Result<usize, Errno>,
    },
    /// The kernel holds nothing of this slot any more. This follows [`Backend::close`].
    Released {
        /// The connection.
        slot: Slot,
    },
    /// Datagrams wait in a socket; see [`Backend::await_datagrams`].
    Datagrams {
        /// The number of the socket.
        number: u32,
    },
    /// Another thread called [`Waker::wake`].
    Woken,
}

/// The state of a connection that is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningState {
    /// The connection is open, and receives as an attached one does: a Unix socket, whose peer is
    /// on this machine.
    Done,
    /// [`Completion::Connected`] follows, unless it is closed before.
    Pending,
}

/// The outcome of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// The kernel took this many bytes; the memory belongs to the engine again.
    Done(usize),
    /// The kernel takes no bytes now; [`Completion::Writable`] follows.
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

    /// Returns the clocks, read once per pass.
    fn now(&self) -> Now;

    /// Returns the same time in the form and with the precision that QUIC needs.
    fn instant(&self) -> Instant;

    /// Returns a handle with which any thread ends a [`Self::wait`].
    fn waker(&self) -> Waker;

    /// Turns accepting on or off for all listeners. Once it is off, no further client is accepted.
    fn accept(&mut self, on: bool);

    /// Closes the listeners; accepting is off, and stays so.
    fn close_listeners(&mut self);

    /// Hands all requests to the kernel and waits until a result is ready, or for `timeout_ms`
    /// (`None`: as long as it takes; `Some(0)`: not at all).
    ///
    /// # Errors
    /// Returns only errors that make the backend unusable; interruptions are not errors.
    fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()>;

    /// Returns the next result of this pass.
    fn next(&mut self) -> Option<Completion<Self::Socket>>;

    /// Returns the bytes of a lent buffer.
    fn input(&self, lent: &Lent) -> &[u8];

    /// Returns a lent buffer to the backend.
    fn give_back(&mut self, lent: Lent);

    /// Reports when datagrams have arrived at a non-blocking socket. It is called again each time
    /// some of them were received, and then reports whether more have arrived. `socket` is `None`
    /// for a simulated socket, which only the simulated backend can watch.
    ///
    /// # Errors
    /// Fails if the system cannot watch one more socket.
    fn await_datagrams(&mut self, socket: Option<BorrowedFd<'_>>, number: u32) -> io::Result<()>;

    /// Attaches a socket as `slot` and starts to receive.
    ///
    /// # Errors
    /// Fails if the system cannot watch one more socket; the socket is closed then.
    fn attach(&mut self, slot: Slot, socket: Self::Socket) -> io::Result<()>;

    /// Opens a connection as `slot`.
    ///
    /// # Errors
    /// Fails if the system cannot begin; the slot is free then.
    fn connect(&mut self, slot: Slot, remote: &RemoteAddress) -> Result<OpeningState, Errno>;

    /// Attaches a socket that is connected already as `slot`. [`Completion::Connected`] follows, as
    /// for one that is opened.
    ///
    /// # Errors
    /// Fails if the system cannot watch one more socket; the socket is closed and the slot free
    /// then.
    fn adopt(&mut self, slot: Slot, socket: OwnedFd) -> Result<(), Errno>;

    /// Turns receiving on or off (back-pressure). A socket that the system cannot watch any more is
    /// reported as [`Completion::Failed`]; this holds for [`Self::await_writable`] too.
    fn receive(&mut self, slot: Slot, on: bool);

    /// Sets whether most of a connection's input is content. Its turn in a pass is
    /// [`CONTENT_TURN_BYTES`] then, and else [`INPUT_TURN_BYTES`], as from the beginning.
    fn expect_content(&mut self, slot: Slot, on: bool);

    /// Sends `parts` in order, as far as the kernel takes them. At most one send per slot is in
    /// flight.
    ///
    /// # Safety
    /// After [`Sending::Pending`] the memory of `parts` must stay in place and unchanged until
    /// [`Completion::Sent`] or [`Completion::Released`] of this slot.
    unsafe fn send(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending;

    /// Sends the part of `parts` that the kernel takes at once: never [`Sending::Pending`], so
    /// their memory belongs to the engine again. No other send of the slot may be in flight.
    fn send_now(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending;

    /// Requests one [`Completion::Writable`], as a send that was [`Sending::Blocked`] does.
    fn await_writable(&mut self, slot: Slot);

    /// Sends `bytes` of a file from `offset`. Only called if [`Self::SENDS_FILES`].
    fn send_file(&mut self, slot: Slot, file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Sending;

    /// Sends the peer our end of stream; receiving goes on.
    fn finish(&mut self, slot: Slot);

    /// Returns a number above 0 that grows when the peer takes bytes, if the system reports them.
    /// It may fall when a send has taken bytes, which is progress as well.
    fn progress(&self, slot: Slot) -> Option<u64>;

    /// Closes the connection; `reset` resets it, so that an incomplete response never looks like
    /// a complete one. Returns true if the slot is free now, and false if the kernel still holds
    /// memory of it; [`Completion::Released`] follows then.
    fn close(&mut self, slot: Slot, reset: bool) -> bool;
}

/// A handle that ends the wait of one worker from any thread.
#[derive(Clone)]
pub struct Waker(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Makes the worker's current or next wait return with [`Completion::Woken`].
    pub fn wake(&self) {
        (self.0)();
    }
}

/// Returns the bytes of a connection's turn in a pass; see [`Backend::expect_content`].
#[inline]
fn turn_bytes(is_content: bool) -> usize {
    if is_content { CONTENT_TURN_BYTES } else { INPUT_TURN_BYTES }
}

/// Takes a client off the accept queue of a non-blocking listener, with `flags` and close-on-exec
/// for its socket; returns `None` if no client waits.
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

/// Returns the number of [`Backend::progress`] for a socket.
pub(crate) fn progress_of(socket: BorrowedFd<'_>) -> Option<u64> {
    tcp_bytes_acknowledged(socket).or_else(|| Some(u64::MAX - bytes_unread(socket)?))
}

/// Returns `tcpi_bytes_acked` of a TCP socket; `None` for other sockets.
fn tcp_bytes_acknowledged(socket: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: a zeroed tcp_info is a valid value; the kernel writes at most `bytes` of it and
    // returns how many it wrote.
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

/// Returns the bytes of memory for sent data that the peer of a Unix socket has not read (unix(7)).
fn bytes_unread(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    let outcome = unsafe {
        libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&socket), libc::TIOCOUTQ, &raw mut bytes)
    };
    (outcome == 0).then(|| u64::try_from(bytes).ok()).flatten()
}

/// The head of the kernel's `struct tcp_info` (linux/tcp.h) up to the one field that is read.
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

    /// These are more bytes than a Unix socket holds.
    static BYTES: [u8; 4 << 20] = [7; 4 << 20];

    /// Returns the number of bytes that the socket of slot 0 accepts before its peer reads.
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

    /// Checks that the progress of a Unix socket is known. `non_blocking` is the mode of the
    /// sockets that the backend accepts.
    fn a_unix_socket_reports_its_progress<B: Backend>(mut backend: B, non_blocking: bool)
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
    fn unix_sockets_report_the_progress_of_sends() {
        a_unix_socket_reports_its_progress(Epoll::new(Vec::new()).expect("epoll"), true);
        a_unix_socket_reports_its_progress(
            Uring::new(Vec::new(), usize::MAX).expect("io_uring"),
            false,
        );
    }
}
