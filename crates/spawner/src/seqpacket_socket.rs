//! Records with descriptors over a socket of type `SOCK_SEQPACKET`: a record is sent and received
//! whole or not at all (unix(7)).

use std::io::IoSlice;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

use crate::limits::DESCRIPTORS_MAX;

/// Returns two connected sockets that are closed on execution. A record that is sent on one is
/// received on the other.
pub(crate) fn record_sockets() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a record with at most [`DESCRIPTORS_MAX`] descriptors. This function never waits.
///
/// # Errors
/// `EAGAIN` if the receiver has not received earlier records yet, `EPIPE` if it is gone.
pub(crate) fn send_record(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags).map(drop)
}

/// A received record.
#[derive(Debug)]
pub(crate) struct ReceivedRecord<'b> {
    pub(crate) bytes: &'b [u8],
    /// The descriptors that came with the record. Dropping them closes them.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether the record came with more descriptors than it may have, or than this process may
    /// open. The kernel has closed the surplus ones.
    pub(crate) lost_descriptors: bool,
}

/// The result of a receive.
#[derive(Debug)]
pub(crate) enum Received<'b> {
    Record(ReceivedRecord<'b>),
    /// A record that is longer than the buffer. Its descriptors are closed.
    TooLong,
    /// The sender has closed its socket. An empty record means the same.
    End,
}

/// Receives a record without waiting.
///
/// # Errors
/// `EAGAIN` if there is none.
pub(crate) fn receive_record<'b>(
    socket: impl AsFd,
    buffer: &'b mut [u8],
) -> Result<Received<'b>, Errno> {
    // Space for one more descriptor than allowed shows that there are too many.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Received::TooLong);
    }
    if received.bytes == 0 {
        return Ok(Received::End);
    }
    let lost_descriptors = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received::Record(ReceivedRecord {
        bytes: &buffer[..received.bytes],
        descriptors,
        lost_descriptors,
    }))
}
