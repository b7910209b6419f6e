//! The sockets that epoll watches: the entry of each, and how it is registered with the system.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net;

use super::Epoll;
use crate::backend::{Completion, OpeningState, Slot};
use crate::table_capacity::has_places;

/// One watched socket.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) fd: Option<OwnedFd>,
    pub(super) generation: u32,
    pub(super) reading: bool,
    pub(super) writing: bool,
    pub(super) content: bool,
    /// Whether it is being opened.
    pub(super) connecting: bool,
    /// Whether the server has opened it.
    pub(super) opened: bool,
    /// Whether it is a Unix socket that the server has opened, for which a reset is the same as an
    /// end.
    pub(super) is_local: bool,
    /// Whether our side has ended.
    pub(super) finished: bool,
    /// Whether epoll does not watch it; see [`Epoll::park`].
    pub(super) parked: bool,
    /// The error with which the system could not watch it as required.
    pub(super) failed: Option<Errno>,
}

impl Epoll {
    /// Watches a socket as `slot`, for these events.
    pub(super) fn add(&mut self, slot: Slot, socket: OwnedFd, flags: EventFlags) -> io::Result<()> {
        let index = slot as usize;
        if index >= self.sockets.len() {
            if !has_places(&mut self.sockets, index + 1) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.sockets.resize_with(index + 1, Watched::default);
        }
        let watched = &mut self.sockets[index];
        assert!(watched.fd.is_none(), "a slot is attached once");
        watched.generation = watched.generation.wrapping_add(1) & (u32::MAX >> 2);
        epoll::add(&self.poll, &socket, token(slot, watched.generation), flags)?;
        *watched = Watched {
            fd: Some(socket),
            generation: watched.generation,
            reading: flags.contains(EventFlags::IN),
            writing: flags.contains(EventFlags::OUT),
            ..Watched::default()
        };
        Ok(())
    }

    /// Watches a socket that the server has opened as `slot`: until it is connected, which makes it
    /// writable, or for input.
    pub(super) fn add_opened(
        &mut self,
        slot: Slot,
        socket: OwnedFd,
        opening: OpeningState,
    ) -> Result<(), Errno> {
        let is_pending = opening == OpeningState::Pending;
        let added =
            self.add(slot, socket, if is_pending { EventFlags::OUT } else { EventFlags::IN });
        added.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
        let watched = &mut self.sockets[slot as usize];
        (watched.connecting, watched.opened) = (is_pending, true);
        Ok(())
    }

    /// Registers the events for which a socket is to be reported now.
    pub(super) fn watch(&mut self, slot: Slot) {
        let watched = &mut self.sockets[slot as usize];
        let Some(fd) = &watched.fd else { return };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, watched.reading);
        flags.set(EventFlags::OUT, watched.writing);
        let token = token(slot, watched.generation);
        let result = match watched.parked {
            true if flags.is_empty() => return,
            true => epoll::add(&self.poll, fd, token, flags),
            false => epoll::modify(&self.poll, fd, token, flags),
        };
        watched.parked = false;
        if let Err(error) = result
            && watched.failed.replace(error).is_none()
        {
            self.failed += 1;
        }
    }

    /// Stops watching a socket until it is read or written again: epoll would report without end
    /// that both of its sides have ended.
    #[cold]
    pub(super) fn park(&mut self, slot: Slot) {
        let watched = &mut self.sockets[slot as usize];
        if let Some(fd) = &watched.fd {
            watched.parked = epoll::delete(&self.poll, fd).is_ok();
        }
    }

    /// Handles a connection that was being opened and is writable: it is open, or has failed.
    pub(super) fn connected(&mut self, slot: Slot) -> Option<Completion<OwnedFd>> {
        let watched = &mut self.sockets[slot as usize];
        let result = net::sockopt::socket_error(watched.fd.as_ref()?).and_then(|result| result);
        watched.connecting = false;
        watched.writing = false;
        watched.reading = result.is_ok();
        self.watch(slot);
        Some(Completion::Connected { slot, result })
    }

    /// Returns a failure to watch that was not reported yet.
    #[cold]
    pub(super) fn next_failed(&mut self) -> Option<Completion<OwnedFd>> {
        if let Some(error) = self.listener_lost.take() {
            return Some(Completion::ListenerLost { error });
        }
        let slot = self.sockets.iter().position(|watched| watched.failed.is_some())?;
        let error = self.sockets[slot].failed.take()?;
        self.failed -= 1;
        Some(Completion::Failed { slot: slot as Slot, error })
    }
}

fn token(slot: Slot, generation: u32) -> EventData {
    EventData::new_u64(u64::from(generation) << 32 | u64::from(slot))
}
