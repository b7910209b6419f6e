//! Requests of the server on the control connection as bytes, and the replies to them.
//!
//! A table is sent in several records: its generation and the number of its rows, then each row,
//! then the request to use it. Until then the spawner keeps the previous table. A row that the
//! previous table has as well is sent only as its number, and is not checked again: its program may
//! have been removed since, and may not be needed any more.

use crate::byte_codec::{ByteReader, ByteWriter};
use crate::limits::STARTS_MAX;

/// A request of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRequest<'b> {
    /// Adds the connection of a worker, whose socket comes with the record.
    Connect,
    /// Begins a new table. The server uses the table with the generation `previous` until the new
    /// one is in use.
    BeginTable { generation: u32, previous: u32, starts: u16 },
    /// Adds the next row to the new table, encoded by `table_codec`.
    AddStart { start: &'b [u8] },
    /// Adds a row of the previous table as the next row of the new one.
    KeepStart { number: u16 },
    /// Completes the new table and puts it into use.
    UseTable,
    /// Stops all programs, and ends the spawner.
    Stop,
}

/// A message of the spawner to the server: at its start, and after [`ControlRequest::UseTable`]
/// with the generation of that table. A reply may be late; the generation shows that it does not
/// belong to a later table. The encoding is one byte for the kind, followed by the generation,
/// little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlReply {
    Ready,
    TableInUse { generation: u32 },
    TableRefused { generation: u32 },
}

/// Size of each reply in bytes.
pub(crate) const CONTROL_REPLY_BYTES: usize = 5;

const READY: u8 = 1;
const TABLE_IN_USE: u8 = 2;
const TABLE_REFUSED: u8 = 3;

const CONNECT: u8 = 1;
const BEGIN_TABLE: u8 = 2;
const ADD_START: u8 = 3;
const USE_TABLE: u8 = 4;
const STOP: u8 = 5;
const KEEP_START: u8 = 6;

impl<'b> ControlRequest<'b> {
    /// Encodes the request. A row is at most `START_MAX_BYTES` long, as `StartTable::check` says.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = ByteWriter::default();
        match *self {
            ControlRequest::Connect => bytes.u8(CONNECT),
            ControlRequest::BeginTable { generation, previous, starts } => {
                bytes.u8(BEGIN_TABLE);
                bytes.u32(generation);
                bytes.u32(previous);
                bytes.u16(starts);
            }
            ControlRequest::AddStart { start } => {
                bytes.u8(ADD_START);
                let text = bytes.text(start);
                debug_assert!(text.is_some(), "a checked row is shorter than 64 KiB");
            }
            ControlRequest::KeepStart { number } => {
                bytes.u8(KEEP_START);
                bytes.u16(number);
            }
            ControlRequest::UseTable => bytes.u8(USE_TABLE),
            ControlRequest::Stop => bytes.u8(STOP),
        }
        bytes.into_bytes()
    }

    /// Decodes a request. Returns `None` if the bytes are malformed.
    pub(crate) fn decode(bytes: &'b [u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let request = match reader.u8()? {
            CONNECT => ControlRequest::Connect,
            BEGIN_TABLE => {
                let (generation, previous) = (reader.u32()?, reader.u32()?);
                let starts = u16::try_from(reader.count(STARTS_MAX)?).ok()?;
                ControlRequest::BeginTable { generation, previous, starts }
            }
            ADD_START => ControlRequest::AddStart { start: reader.text()? },
            KEEP_START => ControlRequest::KeepStart { number: reader.u16()? },
            USE_TABLE => ControlRequest::UseTable,
            STOP => ControlRequest::Stop,
            _ => return None,
        };
        reader.end()?;
        Some(request)
    }
}

impl ControlReply {
    pub(crate) fn encode(self) -> [u8; CONTROL_REPLY_BYTES] {
        let (kind, generation) = match self {
            Self::Ready => (READY, 0),
            Self::TableInUse { generation } => (TABLE_IN_USE, generation),
            Self::TableRefused { generation } => (TABLE_REFUSED, generation),
        };
        let [g0, g1, g2, g3] = u32::to_le_bytes(generation);
        [kind, g0, g1, g2, g3]
    }

    /// Decodes a reply. Returns `None` if the bytes are malformed.
    pub(crate) fn decode(bytes: [u8; CONTROL_REPLY_BYTES]) -> Option<Self> {
        let [kind, generation @ ..] = bytes;
        match (kind, u32::from_le_bytes(generation)) {
            (READY, 0) => Some(Self::Ready),
            (TABLE_IN_USE, generation) => Some(Self::TableInUse { generation }),
            (TABLE_REFUSED, generation) => Some(Self::TableRefused { generation }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn control_requests_round_trip(
            row in prop::collection::vec(any::<u8>(), 0..100),
            (generation, previous, number) in any::<(u32, u32, u16)>(),
            starts in 0..=u16::try_from(STARTS_MAX).expect("fits"),
        ) {
            for request in [
                ControlRequest::Connect,
                ControlRequest::BeginTable { generation, previous, starts },
                ControlRequest::AddStart { start: &row },
                ControlRequest::KeepStart { number },
                ControlRequest::UseTable,
                ControlRequest::Stop,
            ] {
                let bytes = request.encode();
                prop_assert_eq!(ControlRequest::decode(&bytes), Some(request));
                prop_assert_eq!(ControlRequest::decode(&bytes[..bytes.len() - 1]), None);
                let longer = [&bytes[..], &[0]].concat();
                prop_assert_eq!(ControlRequest::decode(&longer), None);
            }
        }

        #[test]
        fn decoded_control_replies_encode_to_the_same_bytes(
            kind in 0_u8..5,
            generation in any::<[u8; 4]>(),
        ) {
            let [g0, g1, g2, g3] = generation;
            let bytes = [kind, g0, g1, g2, g3];
            if let Some(reply) = ControlReply::decode(bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }
}
