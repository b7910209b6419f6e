//! The connections that the server opens, over io_uring.

use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{self, SocketFlags};

use super::super::outgoing_socket::socket_for;
use super::super::{Completion, OpeningState, Slot};
use super::operation::{Op, user_data};
use super::{Socket, Uring};
use crate::outgoing_connect::RemoteAddress;
use crate::table_capacity::has_places;

impl Uring {
    /// Opens a connection for [`super::super::Backend::connect`].
    pub(super) fn open_connection(
        &mut self,
        slot: Slot,
        remote: &RemoteAddress,
    ) -> Result<OpeningState, Errno> {
        if let RemoteAddress::Unix(_) = remote {
            return self.open_local(slot, remote);
        }
        let (fd, address) = socket_for(remote, SocketFlags::empty())?;
        let places = self.remotes.len() + 1;
        if !has_places(&mut self.remotes, places) {
            return Err(Errno::NOMEM);
        }
        let raw = Fd(fd.as_raw_fd());
        if !self.fill(slot, Socket { fd, is_tcp: true }) {
            return Err(Errno::NOMEM);
        }
        // The kernel reads the address when it takes the entry (IORING_FEAT_SUBMIT_STABLE), so it
        // stays in place until then.
        let address = Box::new(address);
        let connect =
            opcode::Connect::new(raw, address.as_ptr().cast(), address.addr_len()).build();
        self.remotes.push(address);
        let entry = &mut self.entries[slot as usize];
        entry.connecting = true;
        let data = user_data(Op::Connect, entry.generation, slot);
        self.push(&connect.user_data(data));
        Ok(OpeningState::Pending)
    }

    /// Opens a connection to a Unix socket, which is done in the call. The call must not block if
    /// the accept queue of the socket is full, and sends must.
    fn open_local(&mut self, slot: Slot, remote: &RemoteAddress) -> Result<OpeningState, Errno> {
        let (fd, address) = socket_for(remote, SocketFlags::NONBLOCK)?;
        net::connect(&fd, &address)?;
        ioctl_fionbio(&fd, false)?;
        if !self.fill(slot, Socket { fd, is_tcp: false }) {
            return Err(Errno::NOMEM);
        }
        self.arm_receive(slot);
        Ok(OpeningState::Done)
    }

    /// Adopts a connected socket for [`super::super::Backend::adopt`].
    pub(super) fn adopt_socket(&mut self, slot: Slot, fd: OwnedFd) -> Result<(), Errno> {
        if !self.fill(slot, Socket { fd, is_tcp: false }) {
            return Err(Errno::NOMEM);
        }
        let entry = &mut self.entries[slot as usize];
        entry.connecting = true;
        let data = user_data(Op::Connect, entry.generation, slot);
        self.push(&opcode::Nop::new().build().user_data(data));
        Ok(())
    }

    /// Handles the result of opening a connection.
    pub(super) fn connected(&mut self, data: u64, result: i32) -> Option<Completion<Socket>> {
        let slot = self.tenant(data)?;
        let entry = &mut self.entries[slot as usize];
        entry.connecting = false;
        if entry.closing {
            return self.release_if_quiet(slot);
        }
        let result = match result {
            0.. => Ok(()),
            _ => Err(Errno::from_raw_os_error(-result)),
        };
        if result.is_ok() && entry.wanted {
            self.arm_receive(slot);
        }
        Some(Completion::Connected { slot, result })
    }
}
