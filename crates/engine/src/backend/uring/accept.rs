//! Connections from the listeners: a few single accepts are armed for each, so that a worker which
//! has enough takes no more than those (design §4.2).

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::io::Errno;

use super::super::Completion;
use super::operation::{Op, user_data};
use super::{Socket, Uring};

/// Accepts asked for at once per listener: what one pass takes at most (design §4.2).
const ACCEPTS: usize = 16;

/// IORING_ACCEPT_POLL_FIRST (linux/io_uring.h, Linux 6.10): nobody is expected to be there yet. An
/// accept that tries at once makes a socket and a file, and throws them away again: 6 % of all that
/// a connection with one request costs. A kernel that does not know it says EINVAL.
pub(super) const POLL_FIRST: u16 = 1 << 2;

/// A listener and the accepts that are armed on it.
pub(super) struct Listener {
    /// `None` once the listener is given up.
    socket: Option<Arc<OwnedFd>>,
    peers: Box<[Peer; ACCEPTS]>,
    /// The hints that the accepts under way went with.
    armed: [Option<u16>; ACCEPTS],
}

/// Where the kernel writes the address of a client.
struct Peer {
    address: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl Listener {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        let peers = Box::new([const { Peer::EMPTY }; ACCEPTS]);
        Self { socket: Some(socket), peers, armed: [None; ACCEPTS] }
    }

    /// Gives the socket up; the addresses stay for accepts that are still under way.
    pub(super) fn close(&mut self) {
        self.socket = None;
    }
}

impl Uring {
    /// Asks for connections, or takes that back.
    pub(super) fn accept_all(&mut self, on: bool) {
        if self.accepting == on {
            return;
        }
        self.accepting = on;
        for listener in 0..self.listeners.len() {
            for place in 0..ACCEPTS {
                match (on, self.listeners[listener].armed[place]) {
                    (true, None) => self.arm_accept(listener, place),
                    (false, Some(_)) => {
                        self.cancel(user_data(Op::Accept, place as u32, listener as u32));
                    }
                    _ => {}
                }
            }
        }
    }

    fn arm_accept(&mut self, listener: usize, place: usize) {
        let at = &mut self.listeners[listener];
        let Some(socket) = &at.socket else { return };
        let socket = Fd(socket.as_raw_fd());
        at.armed[place] = Some(self.accept_hint);
        let peer = &mut at.peers[place];
        peer.bytes = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        let address = (&raw mut peer.address).cast();
        let accept = opcode::Accept::new(socket, address, &raw mut peer.bytes)
            .flags(libc::SOCK_CLOEXEC)
            .build();
        let data = user_data(Op::Accept, place as u32, listener as u32);
        self.push(&with_hint(accept, self.accept_hint).user_data(data));
    }

    pub(super) fn accepted(&mut self, data: u64, result: i32) -> Option<Completion<Socket>> {
        let listener = data as u32 as usize;
        let place = (data >> 32) as usize & (ACCEPTS - 1);
        let at = &mut self.listeners[listener];
        let hint = at.armed[place].take().unwrap_or(0);
        let peer = at.peers[place].address();
        let hint_unknown = result == -libc::EINVAL && hint != 0;
        if hint_unknown {
            self.accept_hint = 0;
        }
        if self.accepting {
            self.arm_accept(listener, place);
        }
        if result < 0 {
            if hint_unknown {
                return None;
            }
            let error = Errno::from_raw_os_error(-result);
            let cancelled = error == Errno::CANCELED;
            return (!cancelled).then_some(Completion::AcceptFailed { error });
        }
        // SAFETY: a successful accept gives a fresh descriptor that is ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        let socket = Socket { fd, tells: peer.is_some() };
        Some(Completion::Accepted { listener, socket, peer })
    }
}

/// Puts a hint for the kernel into an accept; the library has no name for it.
fn with_hint(mut accept: squeue::Entry, hint: u16) -> squeue::Entry {
    const { assert!(size_of::<squeue::Entry>() == 64) };
    // SAFETY: an entry is the kernel's 64-byte `io_uring_sqe` and nothing else (`repr(C)`); its
    // bytes 2 and 3 are `ioprio` (linux/io_uring.h), where an accept has its hints.
    unsafe { (&raw mut accept).cast::<u16>().add(1).write(hint) };
    accept
}

/// Closes the socket of an accept that nobody will look at any more.
pub(super) fn refuse_accepted(result: i32) {
    if result >= 0 {
        // SAFETY: a successful accept gives a fresh descriptor that is ours alone.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::super::Backend;
    use super::*;

    /// Accepts one client by a ring whose accepts go with `hint`.
    fn accept_with(hint: u16) -> Uring {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let at = listener.local_addr().expect("its address");
        let mut ring = Uring::new(vec![Arc::new(listener.into())]).expect("io_uring");
        ring.accept_hint = hint;
        ring.accept(true);
        let client = TcpStream::connect(at).expect("a connection");
        loop {
            ring.wait(Some(10_000)).expect("a wait");
            match ring.next() {
                Some(Completion::Accepted { peer, .. }) => {
                    assert_eq!(peer, client.local_addr().ok());
                    return ring;
                }
                Some(other) => panic!("{other:?} instead of a client"),
                None => assert!(ring.position > 0, "nobody came"),
            }
        }
    }

    #[test]
    fn a_kernel_that_does_not_know_the_hint_accepts_without_it() {
        let ring = accept_with(1 << 15);
        assert_eq!(ring.accept_hint, 0);
    }

    #[test]
    fn a_client_is_accepted_with_the_hint() {
        drop(accept_with(POLL_FIRST));
    }
}
