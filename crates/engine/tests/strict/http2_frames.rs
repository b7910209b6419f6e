//! Frames as bytes (RFC 9113 §4.1, §6), and field blocks of literals (RFC 7541 §6.2.2). Nothing
//! here is taken from the tested code.

/// The bytes that every client sends first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A setting.
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// Codes of errors.
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const CANCEL: u32 = 8;

/// Types of frames that a test writes or reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Data = 0,
    Headers = 1,
    ResetStream = 3,
    Settings = 4,
    Ping = 6,
    GoAway = 7,
    WindowUpdate = 8,
    Continuation = 9,
}

/// Flags.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
}

/// A received frame.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes a whole frame off the front of `rest`, if there is one.
    pub(crate) fn read(rest: &mut &'a [u8]) -> Option<Frame<'a>> {
        let (&[a, b, c, kind, flags, ref stream @ ..], behind) = rest.split_first_chunk::<9>()?;
        let bytes = u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = behind.get(..bytes)?;
        *rest = &behind[bytes..];
        Some(Frame { kind, flags, stream: u32::from_be_bytes(*stream), payload })
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number in the payload at `at`.
    pub(crate) fn number(&self, at: usize) -> Result<u32, String> {
        let four = self.payload.get(at..at + 4).and_then(|four| four.first_chunk());
        four.map(|four| u32::from_be_bytes(*four)).ok_or_else(|| "too short".to_owned())
    }
}

/// Appends a frame.
pub(crate) fn frame(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind as u8, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a frame whose payload is a number.
pub(crate) fn number(out: &mut Vec<u8>, kind: Kind, stream: u32, number: u32) {
    frame(out, kind, 0, stream, &number.to_be_bytes());
}

/// Appends DATA.
pub(crate) fn data(out: &mut Vec<u8>, stream: u32, bytes: &[u8], end: bool) {
    frame(out, Kind::Data, if end { flag::END_STREAM } else { 0 }, stream, bytes);
}

/// Appends SETTINGS.
pub(crate) fn settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    let bytes = |&(name, value): &(u16, u32)| {
        let (name, value): ([u8; 2], [u8; 4]) = (name.to_be_bytes(), value.to_be_bytes());
        [&name[..], &value[..]].concat()
    };
    let payload: Vec<u8> = values.iter().flat_map(bytes).collect();
    frame(out, Kind::Settings, 0, 0, &payload);
}

/// Appends a field block in one HEADERS frame.
pub(crate) fn headers(out: &mut Vec<u8>, stream: u32, fields: &[&(&str, &str)], end: bool) {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
    frame(out, Kind::Headers, flags, stream, &block);
}

/// Appends a string without Huffman: its length with a prefix of seven bits, and its bytes.
fn text(block: &mut Vec<u8>, text: &str) {
    match text.len() {
        short @ 0..=126 => block.push(short as u8),
        long => {
            block.push(127);
            let mut rest = long - 127;
            while rest >= 128 {
                block.push(rest as u8 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(text.as_bytes());
}
