//! Frames: their header, their types, the types of unidirectional streams, the codes of errors and
//! settings (RFC 9114 §6.2, §7, §8.1, §11.2; RFC 9204 §4.2, §5, §6; RFC 9218 §7.2).

use super::varint;

/// Most bytes of the header of a frame: two numbers of the longest form (RFC 9114 §7.1).
pub const FRAME_HEADER_MAX_BYTES: usize = 16;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: Kind,
    /// Length of the payload.
    pub(super) bytes: u64,
    /// Bytes of the header itself.
    pub(super) own_bytes: usize,
}

impl FrameHeader {
    /// Reads the header at the front of `input`, if there is a whole one.
    #[inline]
    pub(super) fn read(input: &[u8]) -> Option<FrameHeader> {
        let mut rest = input;
        let kind = Kind::of(varint::read(&mut rest)?);
        let bytes = varint::read(&mut rest)?;
        Some(FrameHeader { kind, bytes, own_bytes: input.len() - rest.len() })
    }
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    CancelPush,
    Settings,
    PushPromise,
    GoAway,
    MaxPushId,
    /// PRIORITY_UPDATE of a request.
    PriorityUpdate,
    /// PRIORITY_UPDATE of a push.
    PushPriorityUpdate,
    /// A type of HTTP/2 that has no meaning here, and is an error (RFC 9114 §7.2.8).
    Forbidden,
    /// A type without a meaning here, which is ignored (RFC 9114 §9).
    Unknown,
}

impl Kind {
    const fn of(number: u64) -> Kind {
        match number {
            kind::DATA => Kind::Data,
            kind::HEADERS => Kind::Headers,
            0x2 | 0x6 | 0x8 | 0x9 => Kind::Forbidden,
            0x3 => Kind::CancelPush,
            kind::SETTINGS => Kind::Settings,
            0x5 => Kind::PushPromise,
            kind::GO_AWAY => Kind::GoAway,
            0xd => Kind::MaxPushId,
            0xf_0700 => Kind::PriorityUpdate,
            0xf_0701 => Kind::PushPriorityUpdate,
            _ => Kind::Unknown,
        }
    }
}

/// Types of frames that this side writes.
pub(super) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const GO_AWAY: u64 = 0x7;
}

/// Types of unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).
pub(super) mod stream {
    pub(crate) const CONTROL: u64 = 0x0;
    pub(crate) const PUSH: u64 = 0x1;
    pub(crate) const ENCODER: u64 = 0x2;
    pub(crate) const DECODER: u64 = 0x3;
}

/// Settings (RFC 9114 §7.2.4.1, RFC 9220 §3).
pub(super) mod setting {
    /// RFC 9204 §5.
    pub(crate) const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    pub(crate) const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
    /// A reserved setting without a meaning: "Endpoints SHOULD include at least one such setting".
    pub(crate) const RESERVED: u64 = 0x1f + 0x21;

    /// Returns whether a name is that of a setting of HTTP/2 which must not be sent here (RFC 9114
    /// §11.2.2).
    pub(crate) const fn is_forbidden(name: u64) -> bool {
        matches!(name, 0x0 | 0x2..=0x5)
    }
}

/// The reason why a stream or a connection ends (RFC 9114 §8.1, RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// There is no error.
    NoError = 0x100,
    /// The peer broke the protocol in a way that has no code of its own.
    GeneralProtocolError = 0x101,
    /// The side that reports this has an internal error.
    InternalError = 0x102,
    /// A stream that is not accepted.
    StreamCreationError = 0x103,
    /// A stream has ended that must not.
    ClosedCriticalStream = 0x104,
    /// A frame that has no place where it came.
    FrameUnexpected = 0x105,
    /// The payload of a frame does not have the form of its type.
    FrameError = 0x106,
    /// The peer causes too much work.
    ExcessiveLoad = 0x107,
    /// A number of a stream or a push that cannot be.
    IdError = 0x108,
    /// A setting that must not be.
    SettingsError = 0x109,
    /// A control stream that does not begin with SETTINGS.
    MissingSettings = 0x10a,
    /// The request was not processed, and can be sent again.
    RequestRejected = 0x10b,
    /// The response is not needed any more.
    RequestCancelled = 0x10c,
    /// The stream has ended within the request.
    RequestIncomplete = 0x10d,
    /// A message that is malformed.
    MessageError = 0x10e,
    /// The connection of a CONNECT broke.
    ConnectError = 0x10f,
    /// The request needs another version.
    VersionFallback = 0x110,
    /// A field section that cannot be read.
    QpackDecompressionFailed = 0x200,
    /// An encoder stream that cannot be.
    QpackEncoderStreamError = 0x201,
    /// A decoder stream that cannot be.
    QpackDecoderStreamError = 0x202,
}

impl ErrorCode {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// Returns the code of a number. An unknown number is [`ErrorCode::NoError`] (RFC 9114 §9).
    #[must_use]
    pub const fn of(number: u64) -> ErrorCode {
        use ErrorCode as E;
        match number {
            0x101 => E::GeneralProtocolError,
            0x102 => E::InternalError,
            0x103 => E::StreamCreationError,
            0x104 => E::ClosedCriticalStream,
            0x105 => E::FrameUnexpected,
            0x106 => E::FrameError,
            0x107 => E::ExcessiveLoad,
            0x108 => E::IdError,
            0x109 => E::SettingsError,
            0x10a => E::MissingSettings,
            0x10b => E::RequestRejected,
            0x10c => E::RequestCancelled,
            0x10d => E::RequestIncomplete,
            0x10e => E::MessageError,
            0x10f => E::ConnectError,
            0x110 => E::VersionFallback,
            0x200 => E::QpackDecompressionFailed,
            0x201 => E::QpackEncoderStreamError,
            0x202 => E::QpackDecoderStreamError,
            _ => E::NoError,
        }
    }
}

/// Appends a frame whose payload is numbers.
pub(super) fn of_numbers(out: &mut Vec<u8>, kind: u64, numbers: &[u64]) {
    varint::write(out, kind);
    let bytes: usize = numbers.iter().map(|&number| varint::bytes(number)).sum();
    varint::write(out, bytes as u64);
    for &number in numbers {
        varint::write(out, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_meaning() {
        for number in (0x100..=0x110).chain(0x200..=0x202) {
            assert_eq!(ErrorCode::of(number).number(), number);
        }
        // RFC 9114 §9: "MUST be treated as equivalent to H3_NO_ERROR".
        for number in [0, 0xff, 0x111, 0x1ff, 0x203, varint::MAX] {
            assert_eq!(ErrorCode::of(number), ErrorCode::NoError);
        }
    }

    #[test]
    fn a_frame_header_is_parsed_with_any_varint_length() {
        let frame = [0x40, 0x01, 0x80, 0, 0x12, 0x34, 9];
        let header = FrameHeader { kind: Kind::Headers, bytes: 0x1234, own_bytes: 6 };
        assert_eq!(FrameHeader::read(&frame), Some(header));
        for cut in 0..6 {
            assert_eq!(FrameHeader::read(&frame[..cut]), None);
        }
    }
}
