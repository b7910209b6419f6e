//! Input: one receive for each connection, into buffers of the lent ring. The first receive of a
//! connection brings one buffer, so that a connection with a single request has nothing to cancel
//! at its end; those that follow are multishot.

use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use rustix::io::Errno;

use super::super::{Completion, Lent, Slot, turn_bytes};
use super::buffer_ring::BUFFER_BYTES;
use super::operation::{Op, slot_of, user_data};
use super::{Completed, GROUP, Socket, Uring};
use crate::limits::CONTENT_TURN_BYTES;

fn is_receive(result: &Completed) -> bool {
    Op::of(result.0) == Some(Op::Receive)
}

const _: () = assert!(CONTENT_TURN_BYTES + BUFFER_BYTES <= u16::MAX as usize, "they are counted");

impl Uring {
    /// Begins a pass. Deferred receives come before new ones. All other results come first then:
    /// they may give memory back, and a receive needs some.
    pub(super) fn begin_pass(&mut self) {
        self.pass = self.pass.wrapping_add(1);
        let Self { ready, later, .. } = self;
        if later.is_empty() {
            return;
        }
        ready.retain(|result| {
            let is_receive = is_receive(result);
            if is_receive {
                later.push(*result);
            }
            !is_receive
        });
        ready.append(later);
    }

    /// Returns whether a connection has had its turn in this pass: a client that sends without end
    /// must not block the clients after it. The kernel may have filled 32 buffers for it. Counts
    /// the bytes if the turn is not over.
    #[inline]
    pub(super) fn is_turn_over(&mut self, data: u64, result: i32) -> bool {
        let Some(entry) = self.entries.get_mut(slot_of(data).0 as usize) else { return false };
        // The end, or an error, comes after the bytes before it.
        let bytes = u16::try_from(result).unwrap_or(0);
        if entry.brought.0 != self.pass {
            entry.brought = (self.pass, 0);
        }
        // Input of a closed connection is dropped, and takes no turn.
        let is_over = !entry.closing && usize::from(entry.brought.1) >= turn_bytes(entry.content);
        entry.brought.1 = entry.brought.1.saturating_add(if is_over { 0 } else { bytes });
        is_over
    }

    /// Defers a receive to a later pass. Until then no more is received for its connection, or it
    /// could take all the buffers. The end of the receive comes after its deferred results.
    pub(super) fn put_off(&mut self, receive: Completed) {
        self.later.push(receive);
        let Some(slot) = self.tenant(receive.0) else { return };
        self.cancel_receive(slot);
    }

    /// Turns receiving on or off.
    pub(super) fn steer_receive(&mut self, slot: Slot, on: bool) {
        let entry = &mut self.entries[slot as usize];
        entry.wanted = on;
        if on && !entry.receiving {
            self.arm_receive(slot);
        } else if !on {
            self.cancel_receive(slot);
        }
    }

    fn cancel_receive(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        if entry.receiving && !entry.cancelling {
            entry.cancelling = true;
            let target = user_data(Op::Receive, entry.generation, slot);
            self.cancel(target);
        }
    }

    pub(super) fn arm_receive(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        let Some(fd) = &entry.fd else { return };
        entry.receiving = true;
        let data = user_data(Op::Receive, entry.generation, slot);
        let fd = Fd(fd.as_raw_fd());
        let receive = if std::mem::take(&mut entry.fresh) {
            opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(fd, GROUP).build()
        };
        self.push(&receive.user_data(data));
    }

    /// Continues to receive where a receive has ended and the engine wants more. More buffers are
    /// lent if a receive found none.
    pub(super) fn arm_ended(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        for slot in ended.drain(..) {
            let entry = &mut self.entries[slot as usize];
            entry.listed = false;
            let starved = std::mem::take(&mut entry.starved);
            if entry.wanted && !entry.receiving && !entry.closing {
                if starved {
                    self.lent.grow();
                }
                self.arm_receive(slot);
            }
        }
        self.ended = ended;
    }

    /// Notes that a receive has ended.
    fn list_ended(&mut self, slot: Slot) {
        if !std::mem::replace(&mut self.entries[slot as usize].listed, true) {
            self.ended.push(slot);
        }
    }

    pub(super) fn received(
        &mut self,
        data: u64,
        result: i32,
        flags: u32,
    ) -> Option<Completion<Socket>> {
        let lent =
            cqueue::buffer_select(flags).map(|buffer| Lent { buffer, bytes: result.max(0) as u32 });
        let Some(slot) = self.tenant(data) else {
            self.lent.give_back_if(lent);
            return None;
        };
        let entry = &mut self.entries[slot as usize];
        if !cqueue::more(flags) {
            entry.receiving = false;
            entry.cancelling = false;
        }
        if entry.closing {
            self.lent.give_back_if(lent);
            return self.release_if_quiet(slot);
        }
        let rearm = entry.wanted && !entry.receiving;
        match (result, lent) {
            (1.., Some(lent)) => {
                if rearm {
                    self.list_ended(slot);
                }
                Some(Completion::Received { slot, lent })
            }
            (0, lent) => {
                self.lent.give_back_if(lent);
                self.entries[slot as usize].wanted = false;
                Some(Completion::Ended { slot })
            }
            (_, lent) => {
                self.lent.give_back_if(lent);
                match Errno::from_raw_os_error(-result) {
                    Errno::CANCELED | Errno::INTR | Errno::AGAIN => {
                        if rearm {
                            self.arm_receive(slot);
                        }
                        None
                    }
                    Errno::NOBUFS => {
                        self.entries[slot as usize].starved = true;
                        self.list_ended(slot);
                        None
                    }
                    error => Some(Completion::Failed { slot, error }),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection_entry::UringEntry;
    use super::*;
    use proptest::prelude::*;

    const SLOTS: u32 = 4;

    proptest! {
        /// Results come before a pass and in the middle of one.
        #[test]
        fn receives_keep_their_order_and_share_of_a_pass(
            passes in prop::collection::vec(
                [0, 1].map(|_| {
                    let bytes = -1..=BUFFER_BYTES as i32;
                    prop::collection::vec((0..SLOTS, bytes, any::<bool>()), 0..60)
                }), 1..12,
            ),
            contents in any::<[bool; SLOTS as usize]>(),
        ) {
            let mut uring = Uring::new(Vec::new(), usize::MAX).expect("io_uring");
            uring.entries.resize_with(SLOTS as usize, UringEntry::empty);
            for (entry, content) in uring.entries.iter_mut().zip(contents) {
                entry.content = content;
            }
            let mut came = vec![Vec::new(); SLOTS as usize];
            let mut used = came.clone();
            let mut number = 0;
            let mut arrive = |uring: &mut Uring, results: &[(u32, i32, bool)]| {
                for &(slot, bytes, is_receive) in results {
                    number += 1;
                    let op = if is_receive { Op::Receive } else { Op::Send };
                    if is_receive {
                        came[slot as usize].push(number);
                    }
                    let result = (user_data(op, 0, slot), bytes, number);
                    uring.ready.push(result);
                }
            };
            let empty = [Vec::new(), Vec::new()];
            // After the last pass there is time for all waiting results.
            for [before, within] in passes.iter().chain(std::iter::repeat_n(&empty, 1500)) {
                arrive(&mut uring, before);
                uring.begin_pass();
                let mut within = Some(within);
                let mut brought = [0; SLOTS as usize];
                let mut at = 0;
                while let Some(&result) = uring.ready.get(at) {
                    at += 1;
                    let slot = slot_of(result.0).0 as usize;
                    if is_receive(&result) && uring.is_turn_over(result.0, result.1) {
                        uring.put_off(result);
                    } else if is_receive(&result) {
                        used[slot].push(result.2);
                        brought[slot] += result.1.max(0) as usize;
                    }
                    if let Some(within) = within.take_if(|_| at > 10) {
                        arrive(&mut uring, within);
                    }
                }
                arrive(&mut uring, within.unwrap_or(&empty[0]));
                uring.ready.drain(..at);
                for (bytes, content) in brought.into_iter().zip(contents) {
                    prop_assert!(bytes < turn_bytes(content) + BUFFER_BYTES, "{} bytes", bytes);
                }
            }
            prop_assert_eq!(came, used);
            prop_assert!(uring.later.is_empty());
        }
    }
}
