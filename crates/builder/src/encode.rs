//! Content → its codings, where that pays.
//!
//! Everything here is a function of content, coding and level: state that is kept from one content
//! to the next is memory, never history. The brotli encoder is built with `portable-float` and
//! zopfli without the standard library: their cost estimates, and with them their bytes, do not
//! depend on the system's mathematics library.

mod zopfli;

use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor};
use pinion_archive::Digest;
use pinion_brotli::{EncoderMemory, EncoderOperation};
use zstd::bulk::Compressor as ZstdCompressor;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::coding_options::{CodingLevel, Method};
use crate::limits::{
    BROTLI_WINDOW_LOG, CODING_OVERHEAD_BYTES, GZIP_HARDER_BYTES, KEEP_PERCENT, SCRATCH_KEPT_BYTES,
    ZSTD_WINDOW_LOG_MAX,
};

/// Content in a coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedContent {
    /// The digest of the stored bytes.
    pub(crate) digest: Digest,
    /// The stored bytes.
    pub(crate) stored: Bytes,
}

/// One worker's encoders, made when they are needed first.
#[derive(Default)]
pub(crate) struct Encoders {
    encoders: Vec<(CodingLevel, ContentEncoder)>,
    /// Output of the encoder at work.
    scratch: Vec<u8>,
}

/// Returns the most that a stored form of so many bytes may take to be kept; `None` when no form
/// can be small enough.
pub(crate) fn largest_kept(identity_bytes: u64) -> Option<u64> {
    let allowed = u128::from(identity_bytes) * u128::from(KEEP_PERCENT) / 100;
    u64::try_from(allowed).ok()?.checked_sub(CODING_OVERHEAD_BYTES).filter(|&bytes| bytes > 0)
}

impl Encoders {
    /// Returns `content` in a coding; `None` when that is not worth keeping.
    pub(crate) fn encode(&mut self, choice: CodingLevel, content: &[u8]) -> Option<EncodedContent> {
        self.encode_watched(choice, content, &mut |_| ())
    }

    /// Works as [`Self::encode`]; calls `read` with the bytes of content that were read since the
    /// last call, for the codings that take their content in pieces. The last piece is not
    /// reported.
    pub(crate) fn encode_watched(
        &mut self,
        choice: CodingLevel,
        content: &[u8],
        read: &mut dyn FnMut(u64),
    ) -> Option<EncodedContent> {
        let room = usize::try_from(largest_kept(content.len() as u64)?).ok()?;
        let known = self.encoders.iter().position(|(known, _)| *known == choice);
        let place = match known {
            Some(place) => place,
            None => {
                self.encoders.push((choice, encoder(choice)?));
                self.encoders.len() - 1
            }
        };
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        let (_, encoder) = self.encoders.get_mut(place)?;
        let out = self.scratch.get_mut(..room)?;
        let stored = encoder.encode(content, out, read).and_then(|bytes| out.get(..bytes));
        let encoded = stored.map(|stored| EncodedContent {
            digest: Digest::of(stored),
            stored: Bytes::copy_from_slice(stored),
        });
        if room > SCRATCH_KEPT_BYTES {
            self.scratch = Vec::new();
        }
        encoded
    }
}

/// Returns content in a coding; `None` when that is not worth keeping.
#[must_use]
pub fn encode_once(choice: CodingLevel, content: &[u8]) -> Option<Bytes> {
    Encoders::default().encode(choice, content).map(|encoded| encoded.stored)
}

enum ContentEncoder {
    Gzip(Gzip),
    /// Its iterations.
    Zopfli(u8),
    /// Its quality.
    Brotli(u8, EncoderMemory),
    Zstd(ZstdCompressor<'static>),
}

/// Returns the encoder; `None` for a level that [`CodingLevel`] does not allow.
fn encoder(choice: CodingLevel) -> Option<ContentEncoder> {
    let level = i32::from(choice.level);
    match choice.method {
        Method::Gzip => Some(ContentEncoder::Gzip(Gzip::new(level)?)),
        Method::Zopfli => Some(ContentEncoder::Zopfli(choice.level)),
        Method::Brotli => {
            Some(ContentEncoder::Brotli(choice.level, EncoderMemory::new(choice.level)))
        }
        Method::Zstd => {
            let mut compressor = ZstdCompressor::new(level).ok()?;
            if choice.level > 19 {
                // Only these levels would choose a larger one by themselves.
                compressor.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG_MAX)).ok()?;
            }
            Some(ContentEncoder::Zstd(compressor))
        }
    }
}

impl ContentEncoder {
    /// Writes the coding of `content` to the front of `out`; `None` when it does not fit.
    fn encode(
        &mut self,
        content: &[u8],
        out: &mut [u8],
        read: &mut dyn FnMut(u64),
    ) -> Option<usize> {
        match self {
            ContentEncoder::Gzip(gzip) => gzip.encode(content, out),
            ContentEncoder::Zopfli(iterations) => zopfli::encode(*iterations, content, out, read),
            ContentEncoder::Brotli(quality, memory) => brotli(*quality, memory, content, out, read),
            ContentEncoder::Zstd(compressor) if content.len() <= ZSTD_PIECE_BYTES => {
                compressor.compress_to_buffer(content, out).ok()
            }
            ContentEncoder::Zstd(compressor) => {
                let bytes = zstd_in_pieces(compressor, content, out, read);
                if bytes.is_none() {
                    compressor.context_mut().reset(ResetDirective::SessionOnly).ok()?;
                }
                bytes
            }
        }
    }
}

/// libdeflate, which has no level between 6 and 7.
///
/// It takes its content at once, so there is no progress while it works: 0.6 s for 66 MB at level
/// 6, 16 s at level 12 (docs/decisions/0003). The bar stands still for that time, which is about a
/// quarter of a file at most, unless gzip is its only coding. To take content in pieces, the last
/// block of each piece would have to be found and changed, or another encoder be as good.
struct Gzip {
    compressor: Compressor,
    /// The compressor for content of [`GZIP_HARDER_BYTES`] at level 6.
    harder: Option<Compressor>,
}

impl Gzip {
    fn new(level: i32) -> Option<Gzip> {
        let compressor = |level| CompressionLvl::new(level).ok().map(Compressor::new);
        let harder = if level == 6 { compressor(7) } else { None };
        Some(Gzip { compressor: compressor(level)?, harder })
    }

    fn encode(&mut self, content: &[u8], out: &mut [u8]) -> Option<usize> {
        let harder = self.harder.as_mut().filter(|_| GZIP_HARDER_BYTES.contains(&content.len()));
        harder.unwrap_or(&mut self.compressor).gzip_compress(content, out).ok()
    }
}

/// Bytes that zstd takes at once: a few seconds of work at its highest levels. Longer content is
/// taken in pieces, so that its progress can be reported; its blocks end elsewhere then.
const ZSTD_PIECE_BYTES: usize = 4 << 20;

fn zstd_in_pieces(
    compressor: &mut ZstdCompressor<'static>,
    content: &[u8],
    out: &mut [u8],
    read: &mut dyn FnMut(u64),
) -> Option<usize> {
    let room = out.len();
    let context = compressor.context_mut();
    context.set_pledged_src_size(Some(content.len() as u64)).ok()?;
    let mut output = OutBuffer::around(out);
    let (mut pieces, mut piece) = (content.chunks(ZSTD_PIECE_BYTES), None);
    while let Some(bytes) = pieces.next() {
        if let Some(before) = piece.replace(bytes.len() as u64) {
            read(before);
        }
        let is_last = pieces.len() == 0;
        let directive = if is_last {
            ZSTD_EndDirective::ZSTD_e_end
        } else {
            ZSTD_EndDirective::ZSTD_e_continue
        };
        let mut input = InBuffer::around(bytes);
        loop {
            let left = context.compress_stream2(&mut output, &mut input, directive).ok()?;
            if input.pos() == bytes.len() && (!is_last || left == 0) {
                break;
            }
            if output.pos() == room {
                return None;
            }
        }
    }
    Some(output.pos())
}

/// Bytes that the brotli encoder takes at once. Its output does not depend on that, as long as it
/// is a multiple of its input blocks: these have up to 2^18 bytes, and at levels 0 and 1, which are
/// quick, as many as its window.
const BROTLI_PIECE_BYTES: usize = 1 << 20;

/// Encodes with Brotli. The encoder can choose its tables by the length of the whole content, which
/// it gets as a hint.
fn brotli(
    quality: u8,
    memory: &EncoderMemory,
    content: &[u8],
    out: &mut [u8],
    read: &mut dyn FnMut(u64),
) -> Option<usize> {
    let piece_bytes = if quality < 2 { usize::MAX } else { BROTLI_PIECE_BYTES };
    let hint = brotli_hint(content.len());
    let mut encoder = pinion_brotli::BrotliEncoder::new(memory, quality, BROTLI_WINDOW_LOG, hint);
    let (mut rest, mut written) = (content, 0);
    loop {
        let (piece, behind) = rest.split_at_checked(piece_bytes).unwrap_or((rest, &[]));
        let is_last = behind.is_empty();
        let operation = if is_last { EncoderOperation::Finish } else { EncoderOperation::Process };
        let step = encoder.step(operation, piece, out.get_mut(written..)?)?;
        written += step.written;
        // The rest of a piece has no room in the output.
        if is_last || !step.is_done {
            return (is_last && step.is_done).then_some(written);
        }
        rest = behind;
        read(piece_bytes as u64);
    }
}

/// Returns the length hint for the encoder. Content of a mebibyte and more is best searched by
/// hashes of five bytes, and the reference encoder does so; ours waits for more than 4 MiB, so the
/// hint is raised to that. A script of 3.6 MB gets 3 % smaller by it (docs/decisions/0007).
fn brotli_hint(bytes: usize) -> usize {
    const LARGE_MIN_BYTES: usize = 1 << 20;
    const HEARD_AS_LARGE_BYTES: usize = (4 << 20) + 1;
    if bytes < LARGE_MIN_BYTES { bytes } else { bytes.max(HEARD_AS_LARGE_BYTES) }
}

#[cfg(test)]
mod tests;
