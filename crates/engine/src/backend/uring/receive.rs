//! Input: one receive for each connection, into buffers of the lent ring. The first of a connection
//! brings one buffer, so that one with a single request has nothing to cancel at its end; those
//! that follow are multishot.

use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use rustix::io::Errno;

use super::super::{Completion, Lent, Slot};
use super::lent::BUFFER_BYTES;
use super::operation::{Op, slot_of, user_data};
use super::{Completed, GROUP, Socket, Uring};
use crate::limits::CHUNK_BYTES;

/// Results of a receive that are used in one pass, while others wait for their turn: as many bytes
/// as epoll brings of a connection. The kernel may have filled 32 buffers for it.
const SHARE: u8 = (CHUNK_BYTES / BUFFER_BYTES) as u8;
/// As long as there are no more results than this, nobody waits long.
const FEW: usize = 16;

fn is_receive(result: &Completed) -> bool {
    Op::of(result.0) == Some(Op::Receive)
}

/// Puts a result where its turn is: a receive behind those that wait, also in the middle of a pass,
/// since bytes of one connection must not overtake each other.
pub(super) fn file(ready: &mut Vec<Completed>, later: &mut Vec<Completed>, result: Completed) {
    if is_receive(&result) && !later.is_empty() {
        later.push(result);
    } else {
        ready.push(result);
    }
}

impl Uring {
    /// Sets apart what connections bring beyond their share, for the next pass: who sends without
    /// end must not keep those waiting who come behind. The order within a connection stays. What
    /// is no receive comes first: it may give memory back, and a receive needs some.
    pub(super) fn share_out(&mut self) {
        let Self { ready, later, entries, .. } = self;
        if later.is_empty() && ready.len() <= FEW {
            return;
        }
        ready.retain(|result| {
            let is_receive = is_receive(result);
            if is_receive {
                later.push(*result);
            }
            !is_receive
        });
        let mut brought = |data: u64, count: fn(u8) -> u8| {
            let entry = entries.get_mut(slot_of(data).0 as usize);
            entry.map_or(0, |entry| {
                entry.brought = count(entry.brought);
                entry.brought
            })
        };
        let others = ready.len();
        later.retain(|result| {
            let waits = brought(result.0, |count| count.saturating_add(1)) > SHARE;
            if !waits {
                ready.push(*result);
            }
            waits
        });
        for result in &ready[others..] {
            brought(result.0, |_| 0);
        }
    }

    /// Turns receiving on or off.
    pub(super) fn steer_receive(&mut self, slot: Slot, on: bool) {
        let entry = &mut self.entries[slot as usize];
        entry.wanted = on;
        if on && !entry.receiving {
            self.arm_receive(slot);
        } else if !on && entry.receiving && !entry.cancelling {
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
        let receive = match std::mem::take(&mut entry.fresh) {
            true => opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .buf_group(GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
            false => opcode::RecvMulti::new(fd, GROUP).build(),
        };
        self.push(&receive.user_data(data));
    }

    /// Goes on receiving where a receive has ended and the engine wants more. More buffers are lent
    /// for those that found none.
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

    /// Remembers that a receive has ended.
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
    use super::super::entry::Entry;
    use super::*;
    use proptest::prelude::*;

    const SLOTS: u32 = 4;

    proptest! {
        /// Results come before a pass and in the middle of one.
        #[test]
        fn receives_of_a_connection_keep_their_order_and_their_share(
            passes in prop::collection::vec(
                [0, 1].map(|_| prop::collection::vec((0..SLOTS, any::<bool>()), 0..60)), 1..12,
            ),
        ) {
            let mut uring = Uring::new(Vec::new()).expect("io_uring");
            uring.entries.resize_with(SLOTS as usize, Entry::empty);
            let mut came = vec![Vec::new(); SLOTS as usize];
            let mut used = came.clone();
            let mut number = 0;
            let mut arrive = |uring: &mut Uring, results: &[(u32, bool)]| {
                for &(slot, is_receive) in results {
                    number += 1;
                    let op = if is_receive { Op::Receive } else { Op::Send };
                    if is_receive {
                        came[slot as usize].push(number);
                    }
                    let result = (user_data(op, 0, slot), number, 0);
                    file(&mut uring.ready, &mut uring.later, result);
                }
            };
            let empty = [Vec::new(), Vec::new()];
            // Behind the last there is time for all that waits.
            for [before, within] in passes.iter().chain(std::iter::repeat_n(&empty, 400)) {
                arrive(&mut uring, before);
                let is_shared = !uring.later.is_empty() || uring.ready.len() > FEW;
                uring.share_out();
                for slot in 0..SLOTS {
                    let its = uring.ready.iter().filter(|it| slot_of(it.0).0 == slot);
                    let share = its.filter(|it| is_receive(it)).count();
                    prop_assert!(!is_shared || share <= usize::from(SHARE));
                }
                arrive(&mut uring, within);
                for (data, number, _) in uring.ready.drain(..).filter(is_receive) {
                    used[slot_of(data).0 as usize].push(number);
                }
            }
            prop_assert_eq!(came, used);
            prop_assert!(uring.entries.iter().all(|entry| entry.brought == 0));
        }
    }
}
