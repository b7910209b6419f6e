//! Connections from the listeners: each is polled, and clients are accepted by plain system calls,
//! one at a time, so that no client is accepted without a permit of the engine (decisions/0009).

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::super::{Completion, take_client};
use super::operation::{Op, user_data};
use super::{Socket, Uring};
use crate::limits::ACCEPTS_PER_PASS;

/// The events for which a listener is polled. Of the workers that share one, a client wakes one.
const CLIENTS: u32 = libc::EPOLLIN as u32 | libc::EPOLLEXCLUSIVE as u32;

/// A listener and the poll that is armed on it.
pub(super) struct Listener {
    socket: Arc<OwnedFd>,
    polling: bool,
}

impl Listener {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket, polling: false }
    }
}

impl Uring {
    /// Turns accepting on or off for all listeners.
    pub(super) fn accept_all(&mut self, on: bool) {
        if self.accepting == on {
            return;
        }
        self.accepting = on;
        if !on {
            self.accept_from = None;
        }
        for listener in 0..self.listeners.len() {
            if on {
                self.poll_listener(listener);
            } else if self.listeners[listener].polling {
                self.cancel(user_data(Op::Accept, 0, listener as u32));
            }
        }
    }

    /// Polls a listener for waiting clients. A poll whose cancel is under way goes on when the
    /// cancel is reported.
    fn poll_listener(&mut self, listener: usize) {
        let at = &mut self.listeners[listener];
        if std::mem::replace(&mut at.polling, true) {
            return;
        }
        let poll = opcode::PollAdd::new(Fd(at.socket.as_raw_fd()), CLIENTS).build();
        self.push(&poll.user_data(user_data(Op::Accept, 0, listener as u32)));
    }

    /// Handles the end of a listener's poll: a client waits there, or it was cancelled.
    pub(super) fn listener_polled(&mut self, data: u64, result: i32) -> Option<Completion<Socket>> {
        let listener = data as u32 as usize;
        let at = self.listeners.get_mut(listener)?;
        at.polling = false;
        if !self.accepting {
            // A cancelled poll may have been woken as well, and no worker would notice the client.
            return Some(Completion::ClientMissed);
        }
        match result {
            0.. => self.accept_from = Some((listener, ACCEPTS_PER_PASS)),
            _ => match Errno::from_raw_os_error(-result) {
                Errno::CANCELED => self.poll_listener(listener),
                error => return Some(Completion::ListenerLost { error }),
            },
        }
        None
    }

    /// Returns the next client of the listener whose turn it is.
    pub(super) fn next_client(&mut self) -> Option<Completion<Socket>> {
        let (listener, left) = self.accept_from.take()?;
        if left > 0
            && let Some(outcome) =
                take_client(&self.listeners[listener].socket, SocketFlags::empty())
        {
            self.accept_from = Some((listener, left - 1));
            return Some(match outcome {
                Ok((fd, peer)) => {
                    let socket = Socket { fd, is_tcp: peer.is_some() };
                    Completion::Accepted { listener, socket, peer }
                }
                Err(error) => Completion::AcceptFailed { error },
            });
        }
        self.poll_listener(listener);
        None
    }
}
