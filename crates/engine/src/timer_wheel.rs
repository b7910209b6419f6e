//! A hierarchical timer wheel over connection slots (Varghese & Lauck 1987): O(1) to arm and to
//! cancel. Re-arming costs one store as long as the bucket that holds the slot is checked in time,
//! because expiry compares the deadline again: a busy connection moves between deadlines of 30 s
//! and 60 s with every request.
//!
//! It has four levels of 64 buckets; one tick is [`TICK_MS`], so the levels span 1 s, 65 s, 70 min
//! and 74 h. A deadline beyond that waits in the last bucket and is checked again.

use crate::limits::TICK_MS;
use crate::table_capacity::has_places;

const LEVELS: usize = 4;
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = 1 << BUCKET_BITS;
const NONE: u32 = u32::MAX;
const UNLINKED: u16 = u16::MAX;

/// Bytes of one deadline, with its entry among those that have passed.
pub(crate) const NODE_BYTES: usize = size_of::<WheelNode>() + size_of::<u32>();

/// The entry of one slot in the wheel: 32 bytes.
#[derive(Clone)]
struct WheelNode {
    /// The absolute time in milliseconds; 0 means "no deadline".
    deadline_ms: u64,
    /// The time at which its bucket is checked, in milliseconds.
    looked_at_ms: u64,
    next: u32,
    previous: u32,
    /// level × 64 + bucket, or [`UNLINKED`].
    place: u16,
}

/// The deadlines of one worker's connections. Times are milliseconds of a monotonic clock.
pub(crate) struct Wheel {
    nodes: Vec<WheelNode>,
    heads: [[u32; BUCKETS]; LEVELS],
    occupied: [u64; LEVELS],
    /// The last tick that was expired.
    tick: u64,
    /// Slots whose deadline has passed; each once, because it has none while it is here.
    due: Vec<u32>,
}

impl Wheel {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            nodes: Vec::new(),
            heads: [[NONE; BUCKETS]; LEVELS],
            occupied: [0; LEVELS],
            tick: now_ms / TICK_MS,
            due: Vec::new(),
        }
    }

    /// Makes room for the deadlines of so many slots; returns false if there is no memory for them.
    pub(crate) fn make_room(&mut self, slots: usize) -> bool {
        has_places(&mut self.nodes, slots) && has_places(&mut self.due, slots)
    }

    /// Sets the deadline of `slot`. A node that is checked in time stays where it is linked, and
    /// moves on when that bucket expires. [`Self::make_room`] has made room for the slot.
    #[inline]
    pub(crate) fn arm(&mut self, slot: u32, deadline_ms: u64) {
        if slot as usize >= self.nodes.len() {
            let empty = WheelNode {
                deadline_ms: 0,
                looked_at_ms: 0,
                next: NONE,
                previous: NONE,
                place: UNLINKED,
            };
            self.nodes.resize(slot as usize + 1, empty);
        }
        let node = &mut self.nodes[slot as usize];
        let linked_in_time = node.place != UNLINKED && deadline_ms >= node.looked_at_ms;
        node.deadline_ms = deadline_ms;
        if !linked_in_time {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// Removes the deadline of `slot`.
    #[inline]
    pub(crate) fn cancel(&mut self, slot: u32) {
        if (slot as usize) < self.nodes.len() {
            self.unlink(slot);
            self.nodes[slot as usize].deadline_ms = 0;
        }
    }

    /// Returns how many slots have a deadline.
    #[cfg(feature = "sim")]
    pub(crate) fn armed(&self) -> usize {
        self.nodes.iter().filter(|node| node.place != UNLINKED).count()
    }

    /// Removes every deadline that is not after `now_ms`; [`Self::next_due`] returns their slots.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        let target = now_ms / TICK_MS;
        while self.tick < target {
            if self.occupied.iter().all(|&bits| bits == 0) {
                self.tick = target;
                return;
            }
            self.tick += 1;
            self.turn_upper_levels(now_ms);
            self.empty_bucket(0, (self.tick as usize) % BUCKETS, now_ms);
        }
    }

    /// Returns a slot whose deadline has passed.
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        self.due.pop()
    }

    /// Returns the milliseconds from `now_ms` until [`Self::expire`] may have work; `None` if no
    /// deadline is set. The time may be early (a node of an upper level must move down), never late
    /// by more than a tick.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        let mut nearest: Option<u64> = None;
        for level in 0..LEVELS {
            if self.occupied[level] == 0 {
                continue;
            }
            let shift = BUCKET_BITS * level as u32;
            let position = self.tick >> shift;
            // Buckets are checked after the current one; distance 64 means a whole turn.
            let turned =
                self.occupied[level].rotate_right(((position + 1) % BUCKETS as u64) as u32);
            let distance = u64::from(turned.trailing_zeros()) + 1;
            let tick = (position + distance) << shift;
            nearest = Some(nearest.map_or(tick, |n| n.min(tick)));
        }
        nearest.map(|tick| (tick * TICK_MS).saturating_sub(now_ms))
    }

    fn turn_upper_levels(&mut self, now_ms: u64) {
        for level in 1..LEVELS {
            let below = BUCKET_BITS * level as u32;
            if self.tick & ((1 << below) - 1) != 0 {
                break;
            }
            self.empty_bucket(level, ((self.tick >> below) as usize) % BUCKETS, now_ms);
        }
    }

    /// Takes every node out of a bucket: due ones go to `due`, the others are linked again.
    fn empty_bucket(&mut self, level: usize, bucket: usize, now_ms: u64) {
        let mut slot = std::mem::replace(&mut self.heads[level][bucket], NONE);
        self.occupied[level] &= !(1 << bucket);
        while slot != NONE {
            let node = &mut self.nodes[slot as usize];
            let next = node.next;
            node.place = UNLINKED;
            if node.deadline_ms / TICK_MS <= self.tick && node.deadline_ms <= now_ms {
                node.deadline_ms = 0;
                self.due.push(slot);
            } else {
                self.link(slot);
            }
            slot = next;
        }
    }

    fn link(&mut self, slot: u32) {
        // A bucket holds the deadlines within its tick, so it is checked one tick later.
        let wanted = self.nodes[slot as usize].deadline_ms.div_ceil(TICK_MS).max(self.tick + 1);
        let distance = wanted - self.tick;
        let mut level = 0;
        while level + 1 < LEVELS && distance >= 1 << (BUCKET_BITS * (level as u32 + 1)) {
            level += 1;
        }
        let shift = BUCKET_BITS * level as u32;
        let furthest = (self.tick >> shift) + BUCKETS as u64 - 1;
        let position = (wanted >> shift).min(furthest);
        let bucket = (position as usize) % BUCKETS;
        let head = self.heads[level][bucket];
        let node = &mut self.nodes[slot as usize];
        node.looked_at_ms = (position << shift) * TICK_MS;
        node.place = (level * BUCKETS + bucket) as u16;
        node.previous = NONE;
        node.next = head;
        if head != NONE {
            self.nodes[head as usize].previous = slot;
        }
        self.heads[level][bucket] = slot;
        self.occupied[level] |= 1 << bucket;
    }

    fn unlink(&mut self, slot: u32) {
        let node = self.nodes[slot as usize].clone();
        if node.place == UNLINKED {
            return;
        }
        let (level, bucket) = (node.place as usize / BUCKETS, node.place as usize % BUCKETS);
        if node.previous == NONE {
            self.heads[level][bucket] = node.next;
            if node.next == NONE {
                self.occupied[level] &= !(1 << bucket);
            }
        } else {
            self.nodes[node.previous as usize].next = node.next;
        }
        if node.next != NONE {
            self.nodes[node.next as usize].previous = node.previous;
        }
        self.nodes[slot as usize].place = UNLINKED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Arm(u32, u64),
        Cancel(u32),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..40, 0u64..400_000).prop_map(|(slot, after)| Step::Arm(slot, after)),
            (0u32..40, 0u64..300_000_000).prop_map(|(slot, after)| Step::Arm(slot, after)),
            (0u32..40).prop_map(Step::Cancel),
            (0u64..5_000).prop_map(Step::Pass),
            (0u64..200_000).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// Against a sorted map: nothing fires early, nothing fires more than a tick late, and the
        /// wait never sleeps past a deadline by more than a tick.
        #[test]
        fn behaves_like_a_sorted_map(
            start in 0u64..1_000_000,
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let mut now = start;
            let mut wheel = Wheel::new(now);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Arm(slot, after) => {
                        wheel.arm(slot, now + after + 1);
                        model.insert(slot, now + after + 1);
                    }
                    Step::Cancel(slot) => {
                        wheel.cancel(slot);
                        model.remove(&slot);
                    }
                    Step::Pass(ms) => {
                        now += ms;
                        wheel.expire(now);
                        while let Some(slot) = wheel.next_due() {
                            let deadline = model.remove(&slot);
                            prop_assert!(deadline.is_some_and(|d| d <= now), "{slot} fired early");
                        }
                        for (slot, deadline) in &model {
                            prop_assert!(deadline + TICK_MS > now, "{slot} is late");
                        }
                    }
                }
                match (wheel.wait_ms(now), model.values().min()) {
                    (None, first) => prop_assert!(first.is_none()),
                    (Some(wait), Some(first)) => prop_assert!(now + wait <= first + TICK_MS),
                    (Some(_), None) => prop_assert!(false, "a wait without a deadline"),
                }
            }
        }
    }
}
