//! Options of sockets that rustix does not have.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::limits::NOTSENT_LOWAT_BYTES;

/// Bounds the unsent bytes that the kernel keeps for a TCP connection; accepted sockets inherit the
/// bound from their listener.
///
/// # Errors
/// Returns the error of the system.
pub(crate) fn limit_unsent(socket: &OwnedFd) -> io::Result<()> {
    set_integer(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES as i32)
}

/// Sets an option of a socket whose value is an integer.
///
/// # Errors
/// Returns the error of the system.
pub(crate) fn set_integer(socket: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let bytes = size_of_val(&value) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `bytes` of `value`, regardless of the option.
    let outcome = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), bytes) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
