//! Frames: their header, their types and flags, the codes of errors and settings
//! (RFC 9113 §4.1, §6, §7, §11), and how those are written whose content is a few numbers.

/// The first bytes of every client (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of the header of a frame (RFC 9113 §4.1).
pub const FRAME_HEADER_BYTES: usize = 9;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Length of the payload.
    pub(super) bytes: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    /// The stream; 0 is the connection.
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Reads the header at the front of `input`, if there is a whole one.
    #[inline]
    pub(super) fn read(input: &[u8]) -> Option<FrameHeader> {
        let [a, b, c, kind, flags, stream @ ..] = input.first_chunk::<FRAME_HEADER_BYTES>()?;
        let bytes = u32::from_be_bytes([0, *a, *b, *c]);
        // RFC 9113 §4.1: the first bit is reserved and ignored.
        let stream = u32::from_be_bytes(*stream) & STREAM_MAX;
        Some(FrameHeader { bytes, kind: Kind::of(*kind), flags: *flags, stream })
    }

    /// Returns whether a flag is set.
    #[inline]
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the header in the form of the wire.
    #[inline]
    pub(super) fn wire(&self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, a, b, c] = self.bytes.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind as u8, self.flags, d, e, f, g]
    }

    /// Appends the header.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.wire());
    }
}

/// The highest number of a stream, and of a window (RFC 9113 §5.1.1, §6.9.1).
pub(super) const STREAM_MAX: u32 = (1 << 31) - 1;

/// The type of a frame (RFC 9113 §6, RFC 9218 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data = 0x0,
    Headers = 0x1,
    Priority = 0x2,
    ResetStream = 0x3,
    Settings = 0x4,
    PushPromise = 0x5,
    Ping = 0x6,
    GoAway = 0x7,
    WindowUpdate = 0x8,
    Continuation = 0x9,
    PriorityUpdate = 0x10,
    /// A type without a meaning here, which is ignored (RFC 9113 §5.5). The number is reserved for
    /// that.
    Unknown = 0xff,
}

impl Kind {
    const fn of(byte: u8) -> Kind {
        match byte {
            0x0 => Kind::Data,
            0x1 => Kind::Headers,
            0x2 => Kind::Priority,
            0x3 => Kind::ResetStream,
            0x4 => Kind::Settings,
            0x5 => Kind::PushPromise,
            0x6 => Kind::Ping,
            0x7 => Kind::GoAway,
            0x8 => Kind::WindowUpdate,
            0x9 => Kind::Continuation,
            0x10 => Kind::PriorityUpdate,
            _ => Kind::Unknown,
        }
    }
}

/// Flags; which of them a frame can have depends on its type.
pub(super) mod flag {
    /// The flag ACK of SETTINGS and PING.
    pub(crate) const ACK: u8 = 0x1;
    /// The flag END_STREAM of DATA and HEADERS.
    pub(crate) const END_STREAM: u8 = 0x1;
    /// The flag END_HEADERS of HEADERS and CONTINUATION.
    pub(crate) const END_HEADERS: u8 = 0x4;
    /// The flag PADDED of DATA and HEADERS.
    pub(crate) const PADDED: u8 = 0x8;
    /// The flag PRIORITY of HEADERS.
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Settings (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1).
pub(super) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(crate) const ENABLE_PUSH: u16 = 0x2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
    pub(crate) const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// The default window of a stream, and of a connection (RFC 9113 §6.9.2).
pub(super) const WINDOW_DEFAULT_BYTES: u32 = 65_535;

/// Payload of a frame that everybody must take (RFC 9113 §4.2). This server takes no longer one.
pub(super) const FRAME_DEFAULT_BYTES: u32 = 1 << 14;

/// Longest payload that a peer can allow (RFC 9113 §6.5.2).
pub(super) const FRAME_MAX_BYTES: u32 = (1 << 24) - 1;

/// Dynamic table of a decoder before it says otherwise (RFC 9113 §6.5.2).
pub(super) const TABLE_DEFAULT_BYTES: u32 = 4096;

/// The reason why a stream or a connection ends (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// There is no error.
    NoError = 0x0,
    /// The peer broke the protocol.
    ProtocolError = 0x1,
    /// The side that reports this has an internal error.
    InternalError = 0x2,
    /// More DATA than the window allowed, or a window beyond any number.
    FlowControlError = 0x3,
    /// SETTINGS were not acknowledged in time.
    SettingsTimeout = 0x4,
    /// A frame for a stream that had ended.
    StreamClosed = 0x5,
    /// A frame of a wrong length.
    FrameSizeError = 0x6,
    /// The request was not processed, and can be sent again.
    RefusedStream = 0x7,
    /// The response is not needed any more.
    Cancel = 0x8,
    /// A field block that cannot be read.
    CompressionError = 0x9,
    /// The connection of a CONNECT broke.
    ConnectError = 0xa,
    /// The peer causes too much work.
    EnhanceYourCalm = 0xb,
    /// The transport is not as safe as it must be.
    InadequateSecurity = 0xc,
    /// The request needs HTTP/1.1.
    Http11Required = 0xd,
}

impl ErrorCode {
    /// Returns the code of a number. An unknown number is [`ErrorCode::InternalError`], as RFC 9113
    /// §7 allows.
    #[must_use]
    pub const fn of(number: u32) -> ErrorCode {
        use ErrorCode as E;
        match number {
            0x0 => E::NoError,
            0x1 => E::ProtocolError,
            0x3 => E::FlowControlError,
            0x4 => E::SettingsTimeout,
            0x5 => E::StreamClosed,
            0x6 => E::FrameSizeError,
            0x7 => E::RefusedStream,
            0x8 => E::Cancel,
            0x9 => E::CompressionError,
            0xa => E::ConnectError,
            0xb => E::EnhanceYourCalm,
            0xc => E::InadequateSecurity,
            0xd => E::Http11Required,
            _ => E::InternalError,
        }
    }
}

/// Appends SETTINGS (RFC 9113 §6.5).
pub(super) fn settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    let bytes = 6 * values.len() as u32;
    FrameHeader { bytes, kind: Kind::Settings, flags: 0, stream: 0 }.write(out);
    for (name, value) in values {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of SETTINGS.
pub(super) fn settings_ack(out: &mut Vec<u8>) {
    FrameHeader { bytes: 0, kind: Kind::Settings, flags: flag::ACK, stream: 0 }.write(out);
}

/// Appends a PING or its response (RFC 9113 §6.7).
pub(super) fn ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    FrameHeader { bytes: 8, kind: Kind::Ping, flags, stream: 0 }.write(out);
    out.extend_from_slice(&payload);
}

/// Appends a WINDOW_UPDATE (RFC 9113 §6.9); `increment` is 1 to 2^31-1.
pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    debug_assert!(increment > 0 && increment <= STREAM_MAX, "no increment");
    FrameHeader { bytes: 4, kind: Kind::WindowUpdate, flags: 0, stream }.write(out);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends a RST_STREAM (RFC 9113 §6.4).
pub(super) fn reset_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    FrameHeader { bytes: 4, kind: Kind::ResetStream, flags: 0, stream }.write(out);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends a GOAWAY (RFC 9113 §6.8).
pub(super) fn go_away(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    FrameHeader { bytes: 8, kind: Kind::GoAway, flags: 0, stream: 0 }.write(out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Returns the number in the first four bytes of a payload; 0 when it is shorter.
#[inline]
pub(super) fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_header_round_trips() {
        let kinds = [Kind::Data, Kind::Headers, Kind::GoAway, Kind::PriorityUpdate];
        for (bytes, kind) in [0, 1, 0x01_02_03, FRAME_MAX_BYTES].into_iter().zip(kinds) {
            let header = FrameHeader { bytes, kind, flags: 0x2d, stream: 0x0102_0304 };
            assert_eq!(FrameHeader::read(&header.wire()), Some(header));
            assert_eq!(FrameHeader::read(&header.wire()[..8]), None);
        }
    }

    /// RFC 9113 §4.1: "Reserved: [...] this field [...] MUST be ignored when receiving."
    #[test]
    fn the_reserved_bit_is_ignored() {
        let header = FrameHeader::read(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).unwrap();
        assert_eq!(header.stream, 1);
    }

    #[test]
    fn every_number_has_one_meaning() {
        for number in 0..=0xd {
            assert_eq!(ErrorCode::of(number) as u32, number);
        }
        assert_eq!(ErrorCode::of(0xe), ErrorCode::InternalError);
        assert_eq!(ErrorCode::of(u32::MAX), ErrorCode::InternalError);
        for byte in 0..=u8::MAX {
            let kind = Kind::of(byte);
            assert!(kind as u8 == byte || kind == Kind::Unknown);
        }
    }
}
