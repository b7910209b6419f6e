//! The operation of a submission, identified by the number that its completion brings back.

use super::super::Slot;

/// The operation of an entry, in the top byte of its user data.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Accept = 1,
    Receive = 2,
    Send = 3,
    Wake = 4,
    Cancel = 5,
    Poll = 6,
    Close = 7,
    Datagrams = 8,
    Connect = 9,
}

impl Op {
    #[inline]
    pub(super) fn of(user_data: u64) -> Option<Self> {
        const ALL: [Op; 9] = [
            Op::Accept,
            Op::Receive,
            Op::Send,
            Op::Wake,
            Op::Cancel,
            Op::Poll,
            Op::Close,
            Op::Datagrams,
            Op::Connect,
        ];
        ALL.into_iter().find(|op| *op as u64 == user_data >> 56)
    }
}

/// The bits of a generation: those between the operation and the slot.
pub(super) const GENERATION_MASK: u32 = (1 << 24) - 1;

/// Returns operation, generation (or number) and slot (or listener) as one number.
#[inline]
pub(super) fn user_data(op: Op, generation: u32, index: u32) -> u64 {
    (op as u64) << 56 | u64::from(generation & GENERATION_MASK) << 32 | u64::from(index)
}

/// Returns the slot and the generation of a number.
#[inline]
pub(super) fn slot_of(user_data: u64) -> (Slot, u32) {
    (user_data as u32, (user_data >> 32) as u32 & GENERATION_MASK)
}
