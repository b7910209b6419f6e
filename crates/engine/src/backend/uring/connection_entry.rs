//! One connection as the kernel knows it.

use std::alloc::{self, Layout};
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use crate::limits::SEND_PARTS_MAX;

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    pub(super) fd: OwnedFd,
    /// Whether it is a TCP socket. Of such a socket the kernel reports how far the peer is, so that
    /// a send may take any time; and the peer sees how the connection ends.
    pub(super) is_tcp: bool,
}

impl From<OwnedFd> for Socket {
    /// Wraps a socket of an unknown kind.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, is_tcp: false }
    }
}

/// One connection as the kernel knows it.
pub(super) struct UringEntry {
    pub(super) fd: Option<OwnedFd>,
    /// Whether it is a TCP socket; see [`Socket::is_tcp`].
    pub(super) is_tcp: bool,
    pub(super) generation: u32,
    /// Whether a receive is armed; its last completion is still to come.
    pub(super) receiving: bool,
    /// Whether no bytes were received yet.
    pub(super) fresh: bool,
    /// A pass, and the number of bytes that were received in it.
    pub(super) brought: (u16, u16),
    /// Whether most of its input is content; see
    /// [`Backend::expect_content`](super::super::Backend::expect_content).
    pub(super) content: bool,
    /// Whether the engine wants to receive.
    pub(super) wanted: bool,
    /// Whether it is listed among those whose receive has ended.
    pub(super) listed: bool,
    /// Whether its receive found no buffer.
    pub(super) starved: bool,
    /// Whether a cancel of the receive is under way.
    pub(super) cancelling: bool,
    pub(super) sending: bool,
    /// Whether it is being opened.
    pub(super) connecting: bool,
    /// Whether a poll for room in the socket is armed.
    pub(super) polling: bool,
    pub(super) closing: bool,
    /// The vectors of the send in flight, if it has more than one part.
    pub(super) message: Option<Box<Message>>,
}

/// A message header and its vectors at a fixed address.
pub(super) struct Message {
    header: libc::msghdr,
    vectors: [libc::iovec; SEND_PARTS_MAX],
}

impl UringEntry {
    /// Returns whether a completion of it is still to come.
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
    /// Creates an empty message; `None` if there is no memory for it.
    pub(super) fn boxed() -> Option<Box<Self>> {
        // SAFETY: a message has a size, and all-zero headers and vectors are valid and empty; a box
        // frees its allocation with the layout of its type.
        unsafe {
            let memory = alloc::alloc_zeroed(Layout::new::<Self>()).cast::<Self>();
            (!memory.is_null()).then(|| Box::from_raw(memory))
        }
    }

    /// Returns the header, for the kernel.
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
