//! A check whether io_uring works here, by trying: containers forbid it, older kernels lack parts
//! of it, and no version number shows that.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::uring::Uring;
use super::{Backend, Completion};

/// Milliseconds to wait for a byte that is already there.
const PATIENCE_MS: u64 = 1_000;

/// Sets up as many rings as there will be workers, since each takes memory that may be limited.
/// With one of them it receives two bytes into lent buffers, the second by a multishot receive, and
/// closes.
///
/// # Errors
/// Returns the first step that did not work, in words for the log.
pub fn probe_uring(workers: usize) -> Result<(), String> {
    // The memory that a ring lends is not touched here.
    let ring = |_| Uring::new(Vec::new(), usize::MAX);
    let rings = (0..workers.max(1)).map(ring).collect::<io::Result<Vec<_>>>();
    let mut rings = rings.map_err(|error| format!("setting rings up: {error}"))?;
    let Some(mut ring) = rings.pop() else { return Ok(()) };
    drop(rings);
    let (near, mut far) = UnixStream::pair().map_err(|error| format!("a socket pair: {error}"))?;
    ring.attach(0, OwnedFd::from(near).into())
        .map_err(|error| format!("attaching a socket: {error}"))?;
    for byte in [1, 2] {
        far.write_all(&[byte]).map_err(|error| format!("writing to a socket: {error}"))?;
        let got = receive(&mut ring).map_err(|error| format!("multishot receive: {error}"))?;
        if got != [byte] {
            return Err(format!("multishot receive: sent {byte}, got {got:?}"));
        }
    }
    close(&mut ring, &mut far).map_err(|error| format!("closing a socket: {error}"))
}

/// Closes the slot 0, whose peer is `far`.
fn close(ring: &mut Uring, far: &mut UnixStream) -> io::Result<()> {
    let mut released = ring.close(0, false);
    while !released {
        ring.wait(Some(PATIENCE_MS))?;
        let mut none = true;
        while let Some(completion) = ring.next() {
            none = false;
            released |= matches!(completion, Completion::Released { .. });
        }
        if none {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    // Requests are submitted by a wait.
    ring.wait(Some(0))?;
    far.set_read_timeout(Some(Duration::from_millis(PATIENCE_MS)))?;
    match far.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn receive(ring: &mut Uring) -> io::Result<Vec<u8>> {
    ring.wait(Some(PATIENCE_MS))?;
    let mut got = Vec::new();
    while let Some(completion) = ring.next() {
        match completion {
            Completion::Received { lent, .. } => {
                got.extend_from_slice(ring.input(&lent));
                ring.give_back(lent);
            }
            Completion::Failed { error, .. } => return Err(error.into()),
            _ => {}
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_machine_that_runs_the_tests_has_io_uring() {
        // The black-box suite runs over both backends; without io_uring half of it would be void.
        super::probe_uring(2).expect("io_uring");
    }
}
