//! One connection as the kernel knows it.

use std::alloc::{self, Layout};
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use crate::limits::SEND_PARTS_MAX;

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    pub(super) fd: OwnedFd,
    /// It is one of TCP. Of such a socket the kernel tells how far the peer is, so that a send may
    /// take as long as it likes; and the peer sees how it ends.
    pub(super) is_tcp: bool,
}

impl From<OwnedFd> for Socket {
    /// Of a socket nothing is known.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, is_tcp: false }
    }
}

/// One connection as the kernel knows it.
pub(super) struct UringEntry {
    pub(super) fd: Option<OwnedFd>,
    /// See [`Socket::is_tcp`].
    pub(super) is_tcp: bool,
    pub(super) generation: u32,
    /// A receive is armed; its last completion is still to come.
    pub(super) receiving: bool,
    /// Nothing was received yet.
    pub(super) fresh: bool,
    /// A pass, and the bytes that it has brought in it.
    pub(super) brought: (u16, u16),
    /// See [`Backend::expect_content`](super::super::Backend::expect_content).
    pub(super) content: bool,
    /// The engine wants to receive.
    pub(super) wanted: bool,
    /// It stands among those whose receive has ended.
    pub(super) listed: bool,
    /// Its receive found no buffer.
    pub(super) starved: bool,
    /// A cancel of the receive is under way.
    pub(super) cancelling: bool,
    pub(super) sending: bool,
    /// It is being opened.
    pub(super) connecting: bool,
    /// A poll for room in the socket is armed.
    pub(super) polling: bool,
    pub(super) closing: bool,
    /// The vectors of the send in flight, when it has more than one part.
    pub(super) message: Option<Box<Message>>,
}

/// A message header and its vectors at a fixed address.
pub(super) struct Message {
    header: libc::msghdr,
    vectors: [libc::iovec; SEND_PARTS_MAX],
}

impl UringEntry {
    /// Whether a completion of it is still to come.
    pub(super) fn is_busy(&self) -> bool {
        self.receiving || self.sending || self.polling || self.connecting
    }

    pub(super) fn empty() -> Self {
        Self {
            fd: None,
            is_tcp: false,
            generation: 0,
            receiving: false,
            fresh: true,
            brought: (0, 0),
            content: false,
            wanted: false,
            listed: false,
            starved: false,
            cancelling: false,
            sending: false,
            connecting: false,
            polling: false,
            closing: false,
            message: None,
        }
    }
}

impl Message {
    /// An empty one; `None` when there is no memory for it.
    pub(super) fn boxed() -> Option<Box<Self>> {
        // SAFETY: a message has a size, and all-zero headers and vectors are valid and empty; a box
        // frees what was allocated with the layout of its type.
        unsafe {
            let memory = alloc::alloc_zeroed(Layout::new::<Self>()).cast::<Self>();
            (!memory.is_null()).then(|| Box::from_raw(memory))
        }
    }

    /// The header, for the kernel.
    pub(super) fn header(&self) -> *const libc::msghdr {
        &raw const self.header
    }

    pub(super) fn point_to(&mut self, parts: &[IoSlice<'_>]) {
        for (vector, part) in self.vectors.iter_mut().zip(parts) {
            vector.iov_base = part.as_ptr().cast_mut().cast();
            vector.iov_len = part.len();
        }
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = parts.len().min(SEND_PARTS_MAX);
    }
}
