//! Requests of the server on the control connection as bytes, and the answers to them.
//!
//! A table is sent in several records: its generation and the number of its rows, then each row,
//! then the request to use it. Until then the spawner keeps the previous table.

use crate::byte_codec::{ByteReader, ByteWriter};
use crate::limits::STARTS_MAX;

/// A request of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlRequest<'b> {
    /// A worker has this connection; its socket comes with the record.
    Connect,
    /// A new table begins.
    BeginTable { generation: u32, starts: u16 },
    /// The next row of the new table (`table_codec`).
    AddStart { start: &'b [u8] },
    /// The new table is complete and is to be used.
    UseTable,
    /// All programs are to be stopped, and the spawner ends.
    Stop,
}

/// A message of the spawner to the server, one byte: at its start, and after
/// [`ControlRequest::UseTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ControlAnswer {
    Ready = 1,
    TableInUse = 2,
    TableRefused = 3,
}

const CONNECT: u8 = 1;
const BEGIN_TABLE: u8 = 2;
const ADD_START: u8 = 3;
const USE_TABLE: u8 = 4;
const STOP: u8 = 5;

impl<'b> ControlRequest<'b> {
    /// Encodes the request. A row is at most `START_MAX_BYTES` long, as `StartTable::check` says.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = ByteWriter::default();
        match *self {
            ControlRequest::Connect => bytes.u8(CONNECT),
            ControlRequest::BeginTable { generation, starts } => {
                bytes.u8(BEGIN_TABLE);
                bytes.u32(generation);
                bytes.u16(starts);
            }
            ControlRequest::AddStart { start } => {
                bytes.u8(ADD_START);
                let text = bytes.text(start);
                debug_assert!(text.is_some(), "a checked row is shorter than 64 KiB");
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
                let generation = reader.u32()?;
                let starts = u16::try_from(reader.count(STARTS_MAX)?).ok()?;
                ControlRequest::BeginTable { generation, starts }
            }
            ADD_START => ControlRequest::AddStart { start: reader.text()? },
            USE_TABLE => ControlRequest::UseTable,
            STOP => ControlRequest::Stop,
            _ => return None,
        };
        reader.end()?;
        Some(request)
    }
}

impl ControlAnswer {
    pub(crate) fn decode(byte: u8) -> Option<Self> {
        let all = [Self::Ready, Self::TableInUse, Self::TableRefused];
        all.into_iter().find(|answer| *answer as u8 == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_are_decoded_as_they_were_encoded(
            row in prop::collection::vec(any::<u8>(), 0..100),
            generation in any::<u32>(),
            starts in 0..=u16::try_from(STARTS_MAX).expect("fits"),
        ) {
            for request in [
                ControlRequest::Connect,
                ControlRequest::BeginTable { generation, starts },
                ControlRequest::AddStart { start: &row },
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
    }
}
