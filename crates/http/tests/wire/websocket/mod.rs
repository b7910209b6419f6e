//! WebSockets: frames, messages, the opening handshake.

mod autobahn_cases;
mod handshakes;
mod properties;
mod tungstenite_client;

use flate2::{Compress, Compression, FlushCompress};

/// The mask of the example of RFC 6455 §5.7.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

const FIN: u8 = 0x80;
/// The bit of a compressed message.
const RSV1: u8 = 0x40;

/// Returns a frame of a client. `first` has the opcode and the other bits of its byte.
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match content.len() {
        bytes @ 0..=125 => frame.push(0x80 | bytes as u8),
        bytes @ 126..=0xffff => {
            frame.push(0xfe);
            frame.extend((bytes as u16).to_be_bytes());
        }
        bytes => {
            frame.push(0xff);
            frame.extend((bytes as u64).to_be_bytes());
        }
    }
    frame.extend(KEY);
    frame.extend(content.iter().zip(KEY.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Returns a message as a client compresses it.
fn deflate(content: &[u8]) -> Vec<u8> {
    let mut machine = Compress::new(Compression::default(), false);
    let mut out = Vec::with_capacity(content.len() * 2 + 1000);
    machine.compress_vec(content, &mut out, FlushCompress::Sync).expect("it is compressed");
    assert!(out.ends_with(&[0, 0, 255, 255]) && machine.total_in() == content.len() as u64);
    out.truncate(out.len() - 4);
    out
}
