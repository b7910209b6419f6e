//! Connections that are opened.

use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::super::outgoing::socket_for;
use super::super::{Completion, Slot};
use super::operation::{Op, user_data};
use super::{Socket, Uring};
use crate::remote::RemoteAddress;
use crate::tables::has_places;

impl Uring {
    /// See [`super::super::Backend::connect`].
    pub(super) fn open_connection(
        &mut self,
        slot: Slot,
        remote: &RemoteAddress,
    ) -> Result<(), Errno> {
        let (fd, address) = socket_for(remote, SocketFlags::empty())?;
        let places = self.remotes.len() + 1;
        if !has_places(&mut self.remotes, places) {
            return Err(Errno::NOMEM);
        }
        let tells = matches!(remote, RemoteAddress::Tcp(_));
        let raw = Fd(fd.as_raw_fd());
        if !self.fill(slot, Socket { fd, tells }) {
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
        Ok(())
    }

    /// See [`super::super::Backend::adopt`].
    pub(super) fn adopt_socket(&mut self, slot: Slot, fd: OwnedFd) -> Result<(), Errno> {
        if !self.fill(slot, Socket { fd, tells: false }) {
            return Err(Errno::NOMEM);
        }
        let entry = &mut self.entries[slot as usize];
        entry.connecting = true;
        let data = user_data(Op::Connect, entry.generation, slot);
        self.push(&opcode::Nop::new().build().user_data(data));
        Ok(())
    }

    /// A connection is open, or cannot be opened.
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
