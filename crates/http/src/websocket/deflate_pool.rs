//! Compressors and decompressors of messages (RFC 7692), which the connections of a worker share:
//! no message needs the history of one before it, so none is kept for a connection.

use core::cell::{Cell, RefCell};
use core::fmt;
use std::rc::Rc;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::limits::{
    COMPRESSORS_MAX, DECOMPRESSORS_MAX, DEFLATE_LEVEL, KEPT_CODERS, WINDOW_BITS_MAX,
};

/// The bytes that a peer leaves out at the end of a compressed message (RFC 7692 §7.2.1): an empty
/// block.
pub(super) const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// Least space for the output of one step of a compressor. Below 7 bytes, the end of a block could
/// be written twice.
const STEP_SPACE_BYTES: usize = 64;

/// The compressors and decompressors of a worker. Clones are the same pool.
#[derive(Clone, Default)]
pub struct DeflatePool {
    shared: Rc<PooledCoders>,
}

#[derive(Default)]
struct PooledCoders {
    compressors: RefCell<Vec<Compress>>,
    decompressors: RefCell<Vec<Decompress>>,
    compressors_in_use: Cell<usize>,
    decompressors_in_use: Cell<usize>,
}

impl fmt::Debug for DeflatePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeflatePool")
            .field("compressors_in_use", &self.shared.compressors_in_use)
            .field("decompressors_in_use", &self.shared.decompressors_in_use)
            .finish_non_exhaustive()
    }
}

impl DeflatePool {
    /// Returns a decompressor for a message, `None` if [`DECOMPRESSORS_MAX`] of them are in use.
    pub(super) fn decompressor(&self) -> Option<MessageDecompressor> {
        let in_use = &self.shared.decompressors_in_use;
        if in_use.get() >= DECOMPRESSORS_MAX {
            return None;
        }
        in_use.set(in_use.get() + 1);
        let kept = self.shared.decompressors.borrow_mut().pop();
        let machine = kept.unwrap_or_else(|| Decompress::new(false));
        Some(MessageDecompressor { machine: Some(machine), pool: self.clone() })
    }

    /// Returns a compressor with a window of so many bits for a message, `None` if
    /// [`COMPRESSORS_MAX`] of them are in use.
    pub(super) fn compressor(&self, window_bits: u8) -> Option<MessageCompressor> {
        let in_use = &self.shared.compressors_in_use;
        if in_use.get() >= COMPRESSORS_MAX {
            return None;
        }
        in_use.set(in_use.get() + 1);
        let is_kept = window_bits == WINDOW_BITS_MAX;
        let kept = if is_kept { self.shared.compressors.borrow_mut().pop() } else { None };
        let machine = kept.unwrap_or_else(|| {
            Compress::new_with_window_bits(Compression::new(DEFLATE_LEVEL), false, window_bits)
        });
        Some(MessageCompressor { machine: Some(machine), is_kept, pool: self.clone() })
    }
}

/// Keeps a machine if the pool has less than [`KEPT_CODERS`] of its kind.
fn keep<T>(kept: &RefCell<Vec<T>>, in_use: &Cell<usize>, machine: Option<T>) {
    in_use.set(in_use.get() - 1);
    let mut kept = kept.borrow_mut();
    if kept.len() < KEPT_CODERS {
        kept.extend(machine);
    }
}

/// Bytes that a step has used and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoderStep {
    pub(super) used: usize,
    pub(super) written: usize,
}

/// The error that data is no valid deflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedDeflate;

/// Decompresses one message.
pub(super) struct MessageDecompressor {
    /// Always there until it is given back.
    machine: Option<Decompress>,
    pool: DeflatePool,
}

impl fmt::Debug for MessageDecompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageDecompressor")
    }
}

impl MessageDecompressor {
    /// Fills `output` from the front. If it is not full all of the input was used, and no output is
    /// pending. Output that was written before malformed data is valid.
    ///
    /// A block may say that it is the last one, and others follow it (RFC 7692 §7.2.3.4): they
    /// begin with the next byte, and without a history.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> (CoderStep, Result<(), MalformedDeflate>) {
        let (mut used, mut written) = (0, 0);
        let mut result = Ok(());
        while let Some(machine) = &mut self.machine {
            let rest = input.get(used..).unwrap_or_default();
            let space = output.get_mut(written..).unwrap_or_default();
            let before = (machine.total_in(), machine.total_out());
            let status = machine.decompress(rest, space, FlushDecompress::None);
            let step_used = (machine.total_in() - before.0) as usize;
            let step_written = (machine.total_out() - before.1) as usize;
            used += step_used;
            written += step_written;
            let is_stuck = step_used == 0 && step_written == 0 && used < input.len();
            match status {
                Ok(Status::StreamEnd) => machine.reset(false),
                Ok(_) if !is_stuck => {}
                _ => result = Err(MalformedDeflate),
            }
            if written >= output.len() || used >= input.len() || result.is_err() {
                break;
            }
        }
        (CoderStep { used, written }, result)
    }
}

impl Drop for MessageDecompressor {
    fn drop(&mut self) {
        let shared = &self.pool.shared;
        let mut machine = self.machine.take();
        machine.iter_mut().for_each(|machine| machine.reset(false));
        keep(&shared.decompressors, &shared.decompressors_in_use, machine);
    }
}

/// Compresses one message.
pub(super) struct MessageCompressor {
    /// Always there until it is given back.
    machine: Option<Compress>,
    /// Whether it has the usual window.
    is_kept: bool,
    pool: DeflatePool,
}

impl fmt::Debug for MessageCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageCompressor")
    }
}

/// The compressor has failed, which happens only if it has a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompressorFailure;

impl MessageCompressor {
    /// Appends the output of a piece of the message. At the end of the message all output is
    /// written, without [`TAIL`]; before, it may be empty.
    pub(super) fn compress(
        &mut self,
        piece: &[u8],
        is_end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), CompressorFailure> {
        let Some(machine) = &mut self.machine else { return Err(CompressorFailure) };
        let flush = if is_end { FlushCompress::Sync } else { FlushCompress::None };
        let mut used = 0;
        loop {
            out.reserve(STEP_SPACE_BYTES);
            let rest = piece.get(used..).unwrap_or_default();
            let before = (machine.total_in(), machine.total_out());
            machine.compress_vec(rest, out, flush).map_err(|_| CompressorFailure)?;
            used += (machine.total_in() - before.0) as usize;
            let is_full = out.len() == out.capacity();
            if used == piece.len() && !is_full {
                break;
            }
            if !is_full && before == (machine.total_in(), machine.total_out()) {
                return Err(CompressorFailure);
            }
        }
        if is_end {
            let length = out.strip_suffix(&TAIL).ok_or(CompressorFailure)?.len();
            out.truncate(length);
        }
        Ok(())
    }
}

impl Drop for MessageCompressor {
    fn drop(&mut self) {
        let shared = &self.pool.shared;
        let mut machine = self.machine.take().filter(|_| self.is_kept);
        machine.iter_mut().for_each(Compress::reset);
        keep(&shared.compressors, &shared.compressors_in_use, machine);
    }
}
