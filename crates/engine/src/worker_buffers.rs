//! The buffers that the connections of a worker share: output queues, the budget for their memory,
//! the mappings that they send from, and the encoders that compress content before it is queued.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use pinion_http::prepared_response::{ExternalRange, Piece, PreparedBody};

use crate::buffer_pool::Pool;
use crate::end_reason::Gone;
use crate::exchange::slice::{RangeSource, Slice};
use crate::file_mapping::{MappingId, Mappings};
use crate::limits::COPY_BODY_MAX_BYTES;
use crate::output_queue::Outputs;
use crate::response_compression::Encoders;
use crate::transport_link::TransportLink;

/// The shared buffers of one worker.
pub(crate) struct Buffers {
    pub(crate) outputs: Outputs,
    pub(crate) pool: Pool,
    pub(crate) mappings: Mappings,
    pub(crate) encoders: Encoders,
    /// The buffer in which a connection writes frames of its own; taken out during each use.
    pub(crate) control: Vec<u8>,
    /// Numbers of exchanges on streams that have ended, whose ends have yet to be reported to the
    /// application.
    pub(crate) ended: Vec<NonZeroU32>,
}

impl Buffers {
    /// Creates empty buffers that take at most `budget_bytes` of memory.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            outputs: Outputs::default(),
            pool: Pool::new(budget_bytes),
            mappings: Mappings::default(),
            encoders: Encoders::default(),
            control: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Returns the bytes that wait to be sent on a connection, without those in the queues of its
    /// exchanges.
    #[inline]
    pub(crate) fn waiting_bytes(&self, link: &TransportLink) -> u64 {
        let sealed_bytes = link.tls.as_ref().map_or(0, |tls| tls.sealed_bytes());
        self.outputs.bytes(link.output) + sealed_bytes as u64
    }

    /// Queues an application's content on the queue with this index, which is allocated if there is
    /// none yet.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    pub(crate) fn queue(&mut self, index: &mut u32, slice: Slice<'_>) -> Result<(), Gone> {
        let (output, pool) = (self.outputs.of(index), &mut self.pool);
        let queued = match slice {
            Slice::Copied(bytes) => output.append_bytes(pool, bytes),
            Slice::Shared(bytes) => output.push_shared(pool, bytes),
            Slice::File { offset, bytes, .. } if !output.can_count(offset, bytes) => {
                return Err(Gone::Broken);
            }
            Slice::File { file, offset, bytes } => output.push_file(pool, file, offset, bytes),
            Slice::Mapped { mapping, offset, bytes } => {
                return self.queue_mapped(index, mapping, offset, bytes);
            }
        };
        or_overload(queued)
    }

    /// Queues the content of a prepared response.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    pub(crate) fn queue_body(
        &mut self,
        index: &mut u32,
        body: PreparedBody<'_>,
        source: RangeSource<'_>,
    ) -> Result<(), Gone> {
        let pieces = match body {
            PreparedBody::None => return Ok(()),
            PreparedBody::Bytes(bytes) => {
                return or_overload(self.outputs.of(index).append_bytes(&mut self.pool, bytes));
            }
            PreparedBody::Archive(pieces) => pieces,
        };
        pieces.iter().try_for_each(|piece| match (*piece, source) {
            (Piece::Bytes(bytes), _) => {
                or_overload(self.outputs.of(index).append_bytes(&mut self.pool, bytes))
            }
            (Piece::Archive(range), RangeSource::Mapping(mapping)) => {
                self.queue_mapped(index, mapping, range.offset, range.bytes)
            }
            (Piece::External(range), RangeSource::Mapping(mapping)) => {
                let Self { outputs, pool, mappings, .. } = self;
                or_overload(outputs.of(index).push_external(pool, mappings, mapping, range))
            }
            (Piece::External(range), RangeSource::File(file)) => {
                let (file, offset, bytes) = (Arc::clone(file), range.offset, range.bytes);
                self.queue(index, Slice::File { file, offset, bytes })
            }
            (Piece::External(range), RangeSource::Shared(shared)) => {
                self.queue_shared(index, shared, range)
            }
            (Piece::Archive(_) | Piece::External(_), _) => {
                debug_assert!(false, "ranges need what they are ranges of");
                Err(Gone::Broken)
            }
        })
    }

    /// Queues a range of bytes in memory: copied while that is cheaper than a slice of its own.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    #[inline]
    fn queue_shared(
        &mut self,
        index: &mut u32,
        shared: &Bytes,
        range: ExternalRange,
    ) -> Result<(), Gone> {
        let end = range.offset.checked_add(range.bytes).and_then(|end| usize::try_from(end).ok());
        let start = range.offset as usize;
        let bytes = end.and_then(|end| shared.get(start..end)).ok_or(Gone::Broken)?;
        if bytes.len() as u64 > COPY_BODY_MAX_BYTES {
            return self.queue(index, Slice::Shared(shared.slice_ref(bytes)));
        }
        or_overload(self.outputs.of(index).append_bytes(&mut self.pool, bytes))
    }

    /// Queues a range of a mapping: copied while that is cheaper than a slice of its own.
    ///
    /// # Errors
    /// Returns the reason if that is not possible.
    #[inline]
    fn queue_mapped(
        &mut self,
        index: &mut u32,
        mapping: MappingId,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Gone> {
        let Self { outputs, pool, mappings, .. } = self;
        let output = outputs.of(index);
        let range = mappings.get(mapping).and_then(|held| held.range(offset, bytes));
        let Some(range) = range else { return Err(Gone::Broken) };
        let queued = if bytes > COPY_BODY_MAX_BYTES {
            output.push_mapped(pool, mappings, mapping, offset, bytes)
        } else {
            output.append(pool, range.len(), |out| out.extend_from_slice(range))
        };
        or_overload(queued)
    }
}

/// Converts output without room in the memory budget for buffers to an error.
///
/// # Errors
/// Returns [`Gone::Overload`] if it was not `queued`.
#[inline]
pub(crate) fn or_overload(queued: bool) -> Result<(), Gone> {
    if queued { Ok(()) } else { Err(Gone::Overload) }
}
