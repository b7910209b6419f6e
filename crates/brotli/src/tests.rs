use crate::{Decoder, Encoder, Memory, Operation};
use std::io::Read as _;

fn content(bytes: usize) -> Vec<u8> {
    let words = (0..).flat_map(|number: u32| format!("{} ", number % 977).into_bytes());
    words.take(bytes).collect()
}

/// Encodes content in pieces, each of which has come out before the next one goes in.
fn encoded(memory: &Memory, quality: u8, content: &[u8], output_bytes: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(memory, quality, 22, content.len());
    let (mut stored, mut output) = (Vec::new(), vec![0; output_bytes]);
    let pieces = content.chunks(10_000).map(|piece| (Operation::Flush, piece));
    for (operation, mut piece) in pieces.chain([(Operation::Finish, &b""[..])]) {
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
fn what_goes_in_comes_out_at_every_quality_and_with_any_room() {
    let content = content(50_000);
    for quality in 0..=11 {
        let memory = Memory::new(quality);
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
    let stored = encoded(&Memory::new(5), 5, &content(50_000), 4096);
    for bytes in [&stored[..stored.len() - 1], b"\xff\xff\xff\xff", b""] {
        assert!(Decoder::new(bytes).read_to_end(&mut Vec::new()).is_err(), "{bytes:x?}");
    }
}
