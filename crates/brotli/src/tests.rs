mod greedy_stream;

use std::cell::Cell;
use std::rc::Rc;

use brotli::{Allocator, SliceWrapper as _};

use crate::encoder_memory_reuse::Cells;
use crate::{
    BrotliEncoder, Decoder, EncoderMemory, EncoderOperation, STREAM_DECODER_MAX_BYTES,
    StreamDecoder,
};
use std::io::Read as _;

fn content(bytes: usize) -> Vec<u8> {
    let words = (0..).flat_map(|number: u32| format!("{} ", number % 977).into_bytes());
    words.take(bytes).collect()
}

/// Encodes content in pieces, each of which has come out before the next one goes in.
fn encoded(memory: &EncoderMemory, quality: u8, content: &[u8], output_bytes: usize) -> Vec<u8> {
    let mut encoder = BrotliEncoder::new(memory, quality, 22, content.len());
    let (mut stored, mut output) = (Vec::new(), vec![0; output_bytes]);
    let pieces = content.chunks(10_000).map(|piece| (EncoderOperation::Flush, piece));
    for (operation, mut piece) in pieces.chain([(EncoderOperation::Finish, &b""[..])]) {
        loop {
            let step = encoder.step(operation, piece, &mut output).unwrap();
            stored.extend_from_slice(&output[..step.written]);
            piece = &piece[step.read..];
            if step.is_done {
                break;
            }
        }
    }
    stored
}

#[test]
fn content_round_trips_at_every_quality_and_output_size() {
    let content = content(50_000);
    for quality in 0..=11 {
        let memory = EncoderMemory::new(quality);
        let stored = encoded(&memory, quality, &content, 1 << 20);
        assert!(stored.len() < content.len());
        for output_bytes in [7, 4096] {
            assert!(encoded(&memory, quality, &content, output_bytes) == stored, "{quality}");
        }
        let mut decoded = Vec::new();
        Decoder::new(&stored).read_to_end(&mut decoded).unwrap();
        assert!(decoded == content, "quality {quality}");
    }
}

#[test]
fn bytes_that_are_not_brotli_are_refused() {
    let stored = encoded(&EncoderMemory::new(5), 5, &content(50_000), 4096);
    for bytes in [&stored[..stored.len() - 1], b"\xff\xff\xff\xff", b""] {
        assert!(Decoder::new(bytes).read_to_end(&mut Vec::new()).is_err(), "{bytes:x?}");
    }
}

/// Counts what is allocated and not freed yet, and the most of it.
#[derive(Clone, Default)]
struct CountedMemory(Rc<(Cell<usize>, Cell<usize>)>);

impl<T: Clone + Default> Allocator<T> for CountedMemory {
    type AllocatedMemory = Cells<T>;

    fn alloc_cell(&mut self, len: usize) -> Cells<T> {
        let (held, most) = &*self.0;
        held.set(held.get() + len * size_of::<T>());
        most.set(most.get().max(held.get()));
        Cells::of_length(len)
    }

    fn free_cell(&mut self, cells: Cells<T>) {
        let held = &self.0.0;
        held.set(held.get() - size_of_val(cells.slice()));
    }
}

/// Decodes a stream that begins as one of the greediest kind, and returns the most bytes that were
/// allocated at once.
fn allocated_for(stream: &[u8]) -> usize {
    let memory = CountedMemory::default();
    let mut decoder = StreamDecoder::with_memory(|| memory.clone());
    let (mut output, mut rest, mut written) = (vec![0; 1 << 16], stream, 0);
    loop {
        let step = decoder.step(rest, &mut output).expect("a valid stream");
        (rest, written) = (&rest[step.used..], written + step.written);
        if step.used + step.written == 0 {
            break;
        }
    }
    assert!(rest.is_empty() && written > 0, "{written} bytes");
    drop(decoder);
    let (held, most) = &*memory.0;
    assert_eq!(held.get(), 0, "all of it is freed");
    most.get()
}

#[test]
fn a_decoder_takes_no_more_memory_than_its_limit() {
    let state_bytes = size_of::<StreamDecoder>();
    let most_bytes = state_bytes + allocated_for(&greedy_stream::stream());
    assert!(most_bytes <= STREAM_DECODER_MAX_BYTES, "{most_bytes} bytes");
    // It is the greediest there is, so the bound is no guess.
    assert!(most_bytes > STREAM_DECODER_MAX_BYTES / 100 * 99, "{most_bytes} bytes");
    let page = encoded(&EncoderMemory::new(5), 5, &content(50_000), 4096);
    let page_bytes = allocated_for(&page);
    assert!(page_bytes < STREAM_DECODER_MAX_BYTES / 10, "{page_bytes} bytes");
}
