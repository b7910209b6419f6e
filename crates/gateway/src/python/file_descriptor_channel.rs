//! The channel by which a process sends the descriptors of files: a second connection to it, beside
//! that with the frames. The file of a `wsgi.file_wrapper` is sent by this server, and the process
//! does not read it.

use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use pinion_http::python::frame_header::FRAME_HEADER_BYTES;
use pinion_http::python::frame_writer::{ChannelToken, channel_frame};
use pinion_http::python::limits::READY_MAX_BYTES;
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};

use super::limits::UNCLAIMED_FILES_MAX;

/// Bytes of the number of a request, which comes with each descriptor.
const NUMBER_BYTES: usize = size_of::<u32>();

/// Bytes that are received at once: the frame `READY`, which begins every connection of a process,
/// and a number.
const RECEIVE_BYTES: usize = FRAME_HEADER_BYTES + READY_MAX_BYTES as usize + NUMBER_BYTES;

/// The channel by which a process sends the descriptors of files.
#[derive(Debug)]
pub(super) struct FileChannel {
    socket: OwnedFd,
    token: ChannelToken,
    /// Whether bytes without a descriptor have come, which happens once.
    is_ready: bool,
    /// Files whose requests have not asked for them, by the numbers of these.
    files: FxHashMap<u32, File>,
}

/// Takes the file that a process has sent for a request by its channel. If there is none the
/// channel ends: the process sees that, and reads its files itself.
pub(super) fn take_file(channel: &mut Option<FileChannel>, number: u32) -> Option<File> {
    let file = channel.as_mut()?.take(number);
    if file.is_err() {
        *channel = None;
    }
    file.ok()
}

impl FileChannel {
    /// Opens a channel to the process with this socket. It never waits.
    ///
    /// # Errors
    /// The process does not accept it now, or there are too many descriptors.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let mut token = ChannelToken::default();
        getrandom::fill(&mut token).map_err(|_| Errno::IO)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        send(&socket, &channel_frame(&token), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(Self { socket, token, is_ready: false, files: FxHashMap::default() })
    }

    /// Returns the token by which the process knows the channel.
    pub(super) fn token(&self) -> &ChannelToken {
        &self.token
    }

    /// Takes the file that the process has sent for a request.
    ///
    /// # Errors
    /// `EAGAIN` if it has sent none, `EMFILE` if there are too many descriptors, and `EPROTO` if it
    /// has violated the protocol.
    fn take(&mut self, number: u32) -> Result<File, Errno> {
        loop {
            if let Some(file) = self.files.remove(&number) {
                return Ok(file);
            }
            self.receive()?;
        }
    }

    /// Receives once. One receive of the kernel ends after bytes that came with a descriptor.
    fn receive(&mut self) -> Result<(), Errno> {
        let mut bytes = [0; RECEIVE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let pieces = &mut [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, pieces, &mut ancillary, flags)?;
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE);
        }
        let rights = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let Some(descriptor) = rights else {
            let is_first = !std::mem::replace(&mut self.is_ready, true);
            return if is_first && received.bytes > 0 { Ok(()) } else { Err(Errno::PROTO) };
        };
        let number = bytes.get(..received.bytes).and_then(<[u8]>::last_chunk);
        if self.files.len() >= UNCLAIMED_FILES_MAX {
            return Err(Errno::PROTO);
        }
        let number = u32::from_le_bytes(*number.ok_or(Errno::PROTO)?);
        // A process that sends a second one for the same request could go on with that without end.
        match self.files.insert(number, File::from(descriptor)) {
            None => Ok(()),
            Some(_) => Err(Errno::PROTO),
        }
    }
}
