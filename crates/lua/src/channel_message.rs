//! Messages between workers.

use pinion_jobs::byte_quota::ByteReservation;

use crate::copied_value::CopiedValue;

/// A value that is sent to the listeners of a channel. It is counted until the last listener of the
/// last worker has begun with it.
#[derive(Debug)]
pub(crate) struct ChannelMessage {
    pub(crate) channel: Box<str>,
    pub(crate) value: CopiedValue,
    pub(crate) _reservation: ByteReservation,
}
