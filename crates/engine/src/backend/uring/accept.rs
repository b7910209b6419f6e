//! Connections from the listeners: a few single accepts are armed for each, so that a worker which
//! has enough takes no more than those (design §4.2).

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::Errno;

use super::super::Completion;
use super::Uring;
use super::operation::{Op, user_data};

/// Accepts asked for at once per listener: what one pass takes at most (design §4.2).
const ACCEPTS: usize = 16;

/// A listener and the accepts that are armed on it.
pub(super) struct Listener {
    socket: Arc<OwnedFd>,
    peers: Box<[Peer; ACCEPTS]>,
    armed: [bool; ACCEPTS],
}

/// Where the kernel writes the address of a client.
struct Peer {
    address: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl Listener {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        let peers = Box::new([const { Peer::EMPTY }; ACCEPTS]);
        Self { socket, peers, armed: [false; ACCEPTS] }
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
                    (true, false) => self.arm_accept(listener, place),
                    (false, true) => {
                        self.cancel(user_data(Op::Accept, place as u32, listener as u32));
                    }
                    _ => {}
                }
            }
        }
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

    pub(super) fn accepted(&mut self, data: u64, result: i32) -> Option<Completion<OwnedFd>> {
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
