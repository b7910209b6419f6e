//! gzip by zopfli.

use std::num::NonZeroU64;

use zopfli::{BlockType, Error, GzipEncoder, Options, Write};

/// Content that is searched at once: the length that zopfli itself advises. A search takes some 30
/// bytes of memory for each byte.
const CHUNK_BYTES: usize = 1_000_000;

/// Writes the gzip form of `content` to the front of `out`; `None` when it does not fit.
pub(super) fn encode(
    iterations: u8,
    content: &[u8],
    out: &mut [u8],
    read: &mut dyn FnMut(u64),
) -> Option<usize> {
    let options =
        Options { iteration_count: NonZeroU64::new(u64::from(iterations))?, ..Options::default() };
    let room = StoredRoom { out, used: 0 };
    let mut encoder = GzipEncoder::new(options, BlockType::Dynamic, room).ok()?;
    for chunk in content.chunks(CHUNK_BYTES) {
        encoder.write_all(chunk).ok()?;
        read(chunk.len() as u64);
    }
    let room = encoder.finish().ok()?;
    (room.used <= room.out.len()).then_some(room.used)
}

/// Memory that the stored form should fit into. Bytes that do not fit are counted and dropped:
/// after an error the encoder would do its last chunk once more.
struct StoredRoom<'a> {
    out: &'a mut [u8],
    used: usize,
}

impl Write for StoredRoom<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let place = self.out.get_mut(self.used..).and_then(|rest| rest.get_mut(..bytes.len()));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
        self.used = self.used.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
