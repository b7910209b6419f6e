//! Output: one send in flight for each connection.

use std::io::IoSlice;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use rustix::net::{self, SendAncillaryBuffer, SendFlags};

use super::super::{Completion, Sending, Slot};
use super::connection_entry::Message;
use super::operation::{Op, user_data};
use super::{Socket, Uring};
use crate::limits::SEND_MAX_BYTES;
use crate::table_capacity::has_places;

impl Uring {
    /// Queues one send for [`super::super::Backend::send`].
    ///
    /// # Safety
    /// The memory of `parts` stays in place and unchanged until the completion.
    #[inline]
    pub(super) unsafe fn send_parts(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        let entry = &self.entries[slot as usize];
        let Some(fd) = entry.fd.as_ref().map(|fd| Fd(fd.as_raw_fd())) else {
            return Sending::Failed(Errno::BADF);
        };
        // With WAITALL, the kernel continues after a short send on its own. That is not for a
        // socket which does not report its progress: a slow reader would look like none.
        let waits = if entry.is_tcp { libc::MSG_WAITALL } else { 0 };
        let flags = libc::MSG_NOSIGNAL | waits;
        let message = match parts {
            [_] => None,
            _ => self.spare_messages.pop().or_else(Message::boxed),
        };
        // Without memory for a message the first part is sent alone.
        let Some(mut message) = message else {
            let Some(one) = parts.first() else { return Sending::Done(0) };
            debug_assert!(one.len() <= SEND_MAX_BYTES);
            let bytes = one.len() as u32;
            let send = opcode::Send::new(fd, one.as_ptr(), bytes).flags(flags).build();
            return self.queue_send(slot, &send);
        };
        message.point_to(parts);
        let header = message.header();
        self.entries[slot as usize].message = Some(message);
        let send = opcode::SendMsg::new(fd, header).flags(flags as u32).build();
        self.queue_send(slot, &send)
    }

    /// Sends the bytes that the kernel takes at once, without the ring.
    pub(super) fn send_at_once(&mut self, slot: Slot, parts: &[IoSlice<'_>]) -> Sending {
        let Some(fd) = &self.entries[slot as usize].fd else {
            return Sending::Failed(Errno::BADF);
        };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let result = match parts {
            [one] => net::send(fd, one, flags),
            many => net::sendmsg(fd, many, &mut SendAncillaryBuffer::default(), flags),
        };
        match result {
            Ok(sent) => Sending::Done(sent),
            Err(Errno::AGAIN) => {
                self.arm_poll(slot);
                Sending::Blocked
            }
            Err(Errno::INTR) => Sending::Done(0),
            Err(error) => Sending::Failed(error),
        }
    }

    /// Requests a report when there is room in the socket.
    pub(super) fn arm_poll(&mut self, slot: Slot) {
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

    pub(super) fn sent(&mut self, data: u64, result: i32) -> Option<Completion<Socket>> {
        let slot = self.tenant(data)?;
        let entry = &mut self.entries[slot as usize];
        entry.sending = false;
        let message = entry.message.take();
        if entry.closing && !entry.is_busy() {
            self.quiet = Some(slot);
        }
        let places = self.spare_messages.len() + 1;
        if let Some(message) = message
            && has_places(&mut self.spare_messages, places)
        {
            self.spare_messages.push(message);
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

    pub(super) fn writable(&mut self, data: u64) -> Option<Completion<Socket>> {
        let slot = self.tenant(data)?;
        let entry = &mut self.entries[slot as usize];
        entry.polling = false;
        if entry.closing {
            self.release_if_quiet(slot)
        } else {
            // A socket that failed is writable as well: the next send returns the error.
            Some(Completion::Writable { slot })
        }
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
