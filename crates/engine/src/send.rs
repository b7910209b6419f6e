//! One piece of output, from the queue to the kernel.

use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use pinion_http::prepared_response::ExternalRange;
use rustix::io::Errno;

use crate::backend::{Backend, Sending, Slot};
use crate::end_reason::Gone;
use crate::file_mapping::ExternalFile;
use crate::limits::{EXTERNAL_READ_BYTES, TURN_BYTES};
use crate::output_queue::Next;

/// Hands one piece of output to the kernel; `None` if its file has changed since the archive was
/// made, or cannot be read. `buffer` is for bytes of files that are checked first.
#[inline]
pub(crate) fn send_piece<B: Backend>(
    backend: &mut B,
    slot: Slot,
    next: Next<'_>,
    buffer: &mut Vec<u8>,
) -> Option<Sending> {
    Some(match next {
        Next::Nothing => Sending::Done(0),
        Next::Changed => return None,
        Next::One(bytes) => {
            // SAFETY: the chunk's heap memory stays where it is until the queue drops it, which
            // `in_flight` forbids before `Sent` or `Released`.
            unsafe { backend.send(slot, &[IoSlice::new(bytes)]) }
        }
        Next::Memory { parts, large_behind } => match parts.as_slice() {
            // The peer can start on the head while the kernel takes the content.
            [front] if large_behind => backend.send_now(slot, &[*front]),
            // SAFETY: as above; mappings are held by the count of their slices.
            parts => unsafe { backend.send(slot, parts) },
        },
        Next::File { file, offset, bytes } => {
            backend.send_file(slot, file, offset, bytes.min(TURN_BYTES as u64))
        }
        Next::Read { file, offset, bytes } => {
            let fill = |piece: &mut [u8]| file.read_exact_at(piece, offset);
            return send_read(backend, slot, bytes, buffer, fill);
        }
        Next::External { file, range } => {
            return send_external(backend, slot, file, &range, buffer);
        }
    })
}

/// Sends a part of an external file. The bytes that complete a response are read, then the file is
/// checked, then they are sent: so a complete response was made from the unchanged file. The bytes
/// before them may leave unread where the backend can do that.
fn send_external<B: Backend>(
    backend: &mut B,
    slot: Slot,
    file: &ExternalFile,
    range: &ExternalRange,
    buffer: &mut Vec<u8>,
) -> Option<Sending> {
    let last = EXTERNAL_READ_BYTES as u64;
    if B::SENDS_FILES && range.bytes > last {
        let bytes = (range.bytes - last).min(TURN_BYTES as u64);
        let whole = file.is_unchanged(range);
        return whole.then(|| backend.send_file(slot, file.file(), range.offset, bytes));
    }
    send_read(backend, slot, range.bytes, buffer, |piece| file.read_unchanged(range, piece))
}

/// Sends bytes that `fill` reads from a file: the first of its `bytes`, as many as the buffer
/// takes.
fn send_read<B: Backend>(
    backend: &mut B,
    slot: Slot,
    bytes: u64,
    buffer: &mut Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
) -> Option<Sending> {
    let piece = piece(buffer, bytes)?;
    fill(piece).ok()?;
    Some(backend.send_now(slot, &[IoSlice::new(piece)]))
}

/// Returns room for the next of `bytes` of a file in `buffer`; `None` without memory for it.
pub(crate) fn piece(buffer: &mut Vec<u8>, bytes: u64) -> Option<&mut [u8]> {
    buffer.try_reserve_exact(EXTERNAL_READ_BYTES - buffer.len()).ok()?;
    buffer.resize(EXTERNAL_READ_BYTES, 0);
    buffer.get_mut(..bytes.min(EXTERNAL_READ_BYTES as u64) as usize)
}

/// Returns the reason of a failed send: the file or the peer.
#[cold]
pub(crate) fn why_failed(error: Errno) -> Gone {
    match error {
        // A file that ends too soon, or whose pages are lost.
        Errno::NODATA | Errno::FAULT | Errno::IO => Gone::Broken,
        // A file that cannot be sent: a pipe, a directory, one open for writing only.
        Errno::SPIPE | Errno::INVAL | Errno::BADF | Errno::OVERFLOW => Gone::Broken,
        _ => Gone::Peer,
    }
}
