//! Encodes content to brotli, piece by piece.

use crate::encoder_memory_reuse::EncoderMemory;
use brotli::enc::BrotliEncoderParams;
use brotli::enc::encode::{
    BrotliEncoderDestroyInstance, BrotliEncoderOperation, BrotliEncoderStateStruct,
};

/// The treatment of the content that the encoder has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncoderOperation {
    /// It may stay inside until there is enough of it.
    Process,
    /// All of it is written, so that the output can be decoded so far.
    Flush,
    /// The content ends here.
    Finish,
}

/// The progress of [`BrotliEncoder::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderProgress {
    /// Bytes of the input that were consumed.
    pub read: usize,
    /// Bytes of the output that were written.
    pub written: usize,
    /// Whether the operation is complete; else more output follows.
    pub is_done: bool,
}

/// An encoder of one content.
pub struct BrotliEncoder(Box<BrotliEncoderStateStruct<EncoderMemory>>);

impl BrotliEncoder {
    /// Creates an encoder of `quality`, 0 to 11, with a window of `1 << window_log` bytes, whose
    /// arrays come from `memory`. It chooses its tables by `size_hint`, which is the length of the
    /// content in bytes, or 0 if that is unknown.
    pub fn new(
        memory: &EncoderMemory,
        quality: u8,
        window_log: u8,
        size_hint: usize,
    ) -> BrotliEncoder {
        let mut state = Box::new(BrotliEncoderStateStruct::new(memory.clone()));
        state.params = BrotliEncoderParams {
            quality: quality.into(),
            lgwin: window_log.into(),
            size_hint,
            ..BrotliEncoderParams::default()
        };
        BrotliEncoder(state)
    }

    /// Consumes content and writes output to the front of `output`. Call it again, with the rest of
    /// the input, until it is done; it returns `None` when the encoder is broken.
    pub fn step(
        &mut self,
        operation: EncoderOperation,
        input: &[u8],
        output: &mut [u8],
    ) -> Option<EncoderProgress> {
        let state = &mut self.0;
        let (mut in_left, mut read) = (input.len(), 0);
        let (mut out_left, mut written) = (output.len(), 0);
        let is_sound = state.compress_stream(
            match operation {
                EncoderOperation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
                EncoderOperation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
                EncoderOperation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
            },
            &mut in_left,
            input,
            &mut read,
            &mut out_left,
            output,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        let is_done = match operation {
            EncoderOperation::Process => in_left == 0,
            EncoderOperation::Flush => in_left == 0 && !state.has_more_output(),
            EncoderOperation::Finish => state.is_finished(),
        };
        is_sound.then_some(EncoderProgress { read, written, is_done })
    }
}

impl Drop for BrotliEncoder {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.0);
    }
}

impl std::fmt::Debug for BrotliEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}
