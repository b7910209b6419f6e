//! Records of answers that the kernel has not taken in full yet. A line of the access log says what
//! has left, so it is written when everything has, or when the connection has ended before.

use crate::access_log::{Logger, Record};
use std::time::Instant;

/// Bytes of records that one worker holds back. What finds no room, or no memory, is logged at
/// once, as if it had left in full; the one takes some thousand clients that do not read.
pub(crate) const PENDING_MAX_BYTES: usize = 1 << 20;

/// Bytes of an empty list that are kept for the next connection that needs one.
const KEPT_BYTES: usize = 16 << 10;

/// Bytes for one connection whether or not something of it waits: its place in the table and in
/// the list of free ones.
pub(crate) const CONNECTION_BYTES: usize = 2 * size_of::<u32>();

/// "No list": nothing of the connection waits.
const NONE: u32 = u32::MAX;

/// What one worker holds back.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// By slot of the connection: the index of its list.
    of_slot: Vec<u32>,
    lists: Vec<List>,
    free: Vec<u32>,
    held_bytes: usize,
}

/// The answers of one connection, oldest first.
#[derive(Debug, Default)]
struct List {
    answers: Vec<Answer>,
    /// Their records, one behind the other.
    records: Vec<u8>,
}

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    began: Instant,
    body_bytes: u64,
    /// Head and content.
    bytes: u64,
    record_bytes: usize,
}

impl Pending {
    /// Takes up an answer that stands in the queue with `bytes` bytes, head and content.
    pub(crate) fn add(
        &mut self,
        logger: &mut Logger,
        slot: u32,
        (began, bytes): (Instant, u64),
        record: &Record<'_>,
    ) {
        let record_bytes = record.encoded_bytes();
        let has_room = self.held_bytes < PENDING_MAX_BYTES;
        let list = if has_room { self.list_with_room(slot, record_bytes) } else { None };
        let Some(list) = list else {
            let duration_micros = micros_since(began);
            return logger.log(&Record { duration_micros, ..record.clone() });
        };
        record.encode(&mut list.records);
        list.answers.push(Answer { began, body_bytes: record.body_bytes, bytes, record_bytes });
        self.held_bytes += record_bytes;
    }

    /// Of what was queued on a connection, all but the last `unsent_bytes` have left: its records
    /// are written.
    pub(crate) fn finish(&mut self, logger: &mut Logger, slot: u32, unsent_bytes: u64) {
        let Some(place) = self.of_slot.get_mut(slot as usize) else { return };
        let index = std::mem::replace(place, NONE);
        let Some(list) = self.lists.get_mut(index as usize) else { return };
        self.held_bytes -= list.records.len();
        list.write(logger, unsent_bytes);
        self.free.push(index);
    }

    /// The list of a connection with room for one more answer; `None` without memory for it.
    fn list_with_room(&mut self, slot: u32, record_bytes: usize) -> Option<&mut List> {
        let list = self.list_of(slot)?;
        list.records.try_reserve(record_bytes).ok()?;
        list.answers.try_reserve(1).ok()?;
        Some(list)
    }

    /// The list of a connection, taken up when it has none yet; `None` without memory for it.
    fn list_of(&mut self, slot: u32) -> Option<&mut List> {
        let slot = slot as usize;
        if slot >= self.of_slot.len() {
            self.of_slot.try_reserve(slot + 1 - self.of_slot.len()).ok()?;
            self.of_slot.resize(slot + 1, NONE);
        }
        if self.of_slot[slot] == NONE {
            if self.free.is_empty() {
                self.lists.try_reserve(1).ok()?;
                // A list must always find its way back.
                self.free.try_reserve(self.lists.len() + 1).ok()?;
                self.lists.push(List::default());
                self.free.push((self.lists.len() - 1) as u32);
            }
            self.of_slot[slot] = self.free.pop()?;
        }
        self.lists.get_mut(self.of_slot[slot] as usize)
    }
}

impl List {
    fn write(&mut self, logger: &mut Logger, mut unsent_bytes: u64) {
        let mut records = &mut self.records[..];
        // What has not left is at the end.
        let mut behind_bytes: u64 = self.answers.iter().map(|answer| answer.bytes).sum();
        for answer in self.answers.drain(..) {
            let (record, rest) = records.split_at_mut(answer.record_bytes);
            records = rest;
            behind_bytes -= answer.bytes;
            let unsent = unsent_bytes.saturating_sub(behind_bytes).min(answer.bytes);
            unsent_bytes -= unsent;
            let head_bytes = answer.bytes.saturating_sub(answer.body_bytes);
            let body_bytes = (answer.bytes - unsent).saturating_sub(head_bytes);
            Record::amend(record, body_bytes, micros_since(answer.began), unsent > 0);
            logger.log_encoded(record);
        }
        self.records.clear();
        if self.records.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }
}

fn micros_since(began: Instant) -> u32 {
    began.elapsed().as_micros().try_into().unwrap_or(u32::MAX)
}
