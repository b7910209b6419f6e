//! Records of responses that the kernel has not taken in full yet. A line of the access log has the
//! number of bytes that were sent, so it is written when all were, or when the connection has ended
//! before.

use crate::access_log::{LogRecord, Logger};
use pinion_engine::exchange_address::Address;
use std::time::Instant;

/// Bytes in which one worker holds records back: all lists with the room they have to grow, also
/// while one of them moves to a larger place. A record that finds no room, or no memory, is logged
/// at once, as if all its bytes had been sent; the former takes some thousand clients that do not
/// read.
pub(crate) const PENDING_MAX_BYTES: usize = 1 << 20;

/// Bytes of an empty list that are kept for the next connection that needs one.
const KEPT_BYTES: usize = 16 << 10;

/// Lists that are kept while nothing waits: a busy worker needs no new ones in every pass.
const KEPT_LISTS: usize = 1024;

/// Bytes for one connection whether or not something of it waits: its place in the table, which is
/// up to twice as long as needed and, while it moves, there a second time.
pub(crate) const CONNECTION_BYTES: usize = 3 * size_of::<u32>();

/// Room of a list's vectors when they are first needed: one response, and a record of common size.
const FIRST_RESPONSES: usize = 1;
const FIRST_RECORD_BYTES: usize = 256;
/// Room of the list of lists when it is first needed.
const FIRST_LISTS: usize = 16;

/// "No list": nothing of the connection waits.
const NONE: u32 = u32::MAX;

/// The records that one worker holds back.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The index of the list of each connection, by its slot.
    of_slot: Vec<u32>,
    lists: Vec<ResponseList>,
    free: Vec<u32>,
    /// The bytes of all of the above except the table.
    held_bytes: usize,
    /// Of these, the bytes of the free lists.
    kept_bytes: usize,
}

/// The responses of one connection, oldest first.
#[derive(Debug, Default)]
struct ResponseList {
    responses: Vec<PendingResponse>,
    /// Their records, one after the other.
    records: Vec<u8>,
}

/// One response.
#[derive(Clone, Copy, Debug)]
struct PendingResponse {
    /// Its number on the connection.
    exchange: u32,
    began: Instant,
    body_bytes: u64,
    /// Head and content, without the bytes that had been sent when the end was queued.
    bytes: u64,
    record_bytes: usize,
    /// The end of it was dropped, and is not counted.
    is_cut: bool,
}

impl Pending {
    /// Adds a response that stands in the queue with `bytes` bytes, head and content.
    pub(crate) fn add(
        &mut self,
        logger: &mut Logger,
        exchange: Address,
        (began, bytes): (Instant, u64),
        record: &LogRecord<'_>,
    ) {
        let Address { slot, exchange, .. } = exchange;
        let record_bytes = record.encoded_bytes();
        let Some(list) = self.list_with_room(slot, record_bytes) else {
            let duration_micros = micros_since(began);
            return logger.log(&LogRecord { duration_micros, ..record.clone() });
        };
        record.encode(&mut list.records);
        let body_bytes = record.body_bytes;
        list.responses.push(PendingResponse {
            exchange,
            began,
            body_bytes,
            bytes,
            record_bytes,
            is_cut: false,
        });
    }

    /// Records that the last `bytes` of the response of an exchange were dropped.
    pub(crate) fn drop_end(&mut self, exchange: Address, bytes: u64) {
        let Some(index) = self.of_slot.get(exchange.slot as usize) else { return };
        let Some(list) = self.lists.get_mut(*index as usize) else { return };
        let mut responses = list.responses.iter_mut().rev();
        if let Some(response) = responses.find(|response| response.exchange == exchange.exchange) {
            response.bytes = response.bytes.saturating_sub(bytes);
            response.body_bytes = response.body_bytes.saturating_sub(bytes);
            response.is_cut = true;
        }
    }

    /// Writes the records of a connection: all bytes that were queued on it and not dropped, but
    /// the last `unsent_bytes`, have been sent.
    pub(crate) fn finish(&mut self, logger: &mut Logger, slot: u32, unsent_bytes: u64) {
        let Some(place) = self.of_slot.get_mut(slot as usize) else { return };
        let index = std::mem::replace(place, NONE);
        let Some(list) = self.lists.get_mut(index as usize) else { return };
        list.write(logger, unsent_bytes);
        if list.held_bytes() > KEPT_BYTES {
            self.held_bytes -= list.held_bytes();
            *list = ResponseList::default();
        }
        self.kept_bytes += list.held_bytes();
        self.free.push(index);
        if self.free.len() == self.lists.len() && self.lists.len() > KEPT_LISTS {
            *self = Self { of_slot: std::mem::take(&mut self.of_slot), ..Self::default() };
        }
    }

    /// Returns the list of a connection with room for one more response; `None` without memory for
    /// it.
    fn list_with_room(&mut self, slot: u32, record_bytes: usize) -> Option<&mut ResponseList> {
        let index = self.list_of(slot)?;
        let new_bytes = self.lists.get(index)?.new_bytes(record_bytes);
        self.make_room(new_bytes)?;
        let list = self.lists.get_mut(index)?;
        let before_bytes = list.held_bytes();
        let reserved = list.reserve(record_bytes);
        self.held_bytes += list.held_bytes() - before_bytes;
        reserved.then_some(list)
    }

    /// Returns the index of a connection's list, which is made when it has none yet; `None` without
    /// memory for it.
    fn list_of(&mut self, slot: u32) -> Option<usize> {
        let slot = slot as usize;
        if slot >= self.of_slot.len() {
            self.of_slot.try_reserve(slot + 1 - self.of_slot.len()).ok()?;
            self.of_slot.resize(slot + 1, NONE);
        }
        if self.of_slot[slot] == NONE {
            if self.free.is_empty() {
                self.new_list()?;
            }
            let index = self.free.pop()?;
            self.kept_bytes -= self.lists.get(index as usize)?.held_bytes();
            self.of_slot[slot] = index;
        }
        Some(self.of_slot[slot] as usize)
    }

    fn new_list(&mut self) -> Option<()> {
        const LIST_BYTES: usize = size_of::<ResponseList>() + size_of::<u32>();
        let lists = grown(&self.lists, 1, FIRST_LISTS);
        self.make_room(lists * LIST_BYTES)?;
        let before_bytes = self.own_bytes();
        // A list must always find its way back.
        let reserved = grow(&mut self.lists, lists) && grow(&mut self.free, lists);
        self.held_bytes += self.own_bytes() - before_bytes;
        if !reserved {
            return None;
        }
        self.lists.push(ResponseList::default());
        self.free.push((self.lists.len() - 1) as u32);
        Some(())
    }

    /// Makes room; returns `None` when so many bytes more would be too many even if the free lists
    /// had none.
    fn make_room(&mut self, bytes: usize) -> Option<()> {
        if self.held_bytes + bytes > PENDING_MAX_BYTES && bytes > 0 {
            if self.held_bytes - self.kept_bytes + bytes > PENDING_MAX_BYTES {
                return None;
            }
            for index in &self.free {
                *self.lists.get_mut(*index as usize)? = ResponseList::default();
            }
            self.held_bytes -= std::mem::take(&mut self.kept_bytes);
        }
        Some(())
    }

    /// Returns the bytes of the lists without their contents.
    fn own_bytes(&self) -> usize {
        self.lists.capacity() * size_of::<ResponseList>() + self.free.capacity() * size_of::<u32>()
    }
}

impl ResponseList {
    fn write(&mut self, logger: &mut Logger, mut unsent_bytes: u64) {
        let mut records = &mut self.records[..];
        // Unsent bytes are at the end.
        let mut behind_bytes: u64 = self.responses.iter().map(|response| response.bytes).sum();
        for response in self.responses.drain(..) {
            let (record, rest) = records.split_at_mut(response.record_bytes);
            records = rest;
            behind_bytes -= response.bytes;
            let unsent = unsent_bytes.saturating_sub(behind_bytes).min(response.bytes);
            unsent_bytes -= unsent;
            let is_cut = response.is_cut || unsent > 0;
            // The content is at the end of the response, and its beginning may have been sent
            // before the rest was queued.
            let body_bytes = response.body_bytes.saturating_sub(unsent);
            LogRecord::amend(record, body_bytes, micros_since(response.began), is_cut);
            logger.log_encoded(record);
        }
        self.records.clear();
    }

    fn held_bytes(&self) -> usize {
        self.responses.capacity() * size_of::<PendingResponse>() + self.records.capacity()
    }

    /// Returns the bytes to be had for one more response, while those that the list has are still
    /// in use.
    fn new_bytes(&self, record_bytes: usize) -> usize {
        grown(&self.responses, 1, FIRST_RESPONSES) * size_of::<PendingResponse>()
            + grown(&self.records, record_bytes, FIRST_RECORD_BYTES)
    }

    /// Takes them.
    fn reserve(&mut self, record_bytes: usize) -> bool {
        let responses = grown(&self.responses, 1, FIRST_RESPONSES);
        let records = grown(&self.records, record_bytes, FIRST_RECORD_BYTES);
        grow(&mut self.responses, responses) && grow(&mut self.records, records)
    }
}

/// Returns the capacity that a vector gets to take `more` elements; 0 when it has that room.
fn grown<T>(vector: &Vec<T>, more: usize, first: usize) -> usize {
    if vector.capacity() - vector.len() >= more {
        0
    } else {
        (vector.len() + more).max(2 * vector.capacity()).max(first)
    }
}

/// Sets the capacity of a vector, and no more; returns false without memory for it.
fn grow<T>(vector: &mut Vec<T>, capacity: usize) -> bool {
    let more = capacity.saturating_sub(vector.len());
    more == 0 || vector.try_reserve_exact(more).is_ok()
}

fn micros_since(began: Instant) -> u32 {
    began.elapsed().as_micros().try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::{AccessLog, OpenLogs, Text, example};
    use crate::settings::{LogFormat, LogTarget};
    use std::fs;
    use std::sync::Arc;

    /// Returns the bytes that the vectors have, counted from outside.
    fn capacity_bytes(pending: &Pending) -> usize {
        let of = |list: &ResponseList| list.responses.capacity() * 48 + list.records.capacity();
        let lists: usize = pending.lists.iter().map(of).sum();
        lists + pending.lists.capacity() * 48 + pending.free.capacity() * 4
    }

    fn with_log<R>(name: &str, run: impl FnOnce(&mut Logger) -> R) -> R {
        let path = std::env::temp_dir().join(format!("pinion-{name}-{}", std::process::id()));
        let logs = Arc::new(OpenLogs::default());
        let server = logs.open(&LogTarget::File(path.clone()), LogFormat::Combined);
        let log = AccessLog::start(logs, server.ok()).expect("a thread");
        let result = run(&mut log.logger());
        log.finish();
        fs::remove_file(path).expect("removed");
        result
    }

    /// Adds a record of `bytes` bytes; the other texts and the numbers take 104.
    fn add(pending: &mut Pending, logger: &mut Logger, slot: u32, bytes: usize) {
        let path = [b'x'; 2048];
        let target = Text::from(&path[..bytes - 104]);
        let none = Text::from(&b""[..]);
        let record = LogRecord { target, host: none, referer: none, ..example() };
        let record = LogRecord { user_agent: Text::from(&path[..43]), ..record };
        assert_eq!(record.encoded_bytes(), bytes);
        let exchange = Address { worker: 0, slot, generation: 1, exchange: 1 };
        pending.add(logger, exchange, (Instant::now(), 100), &record);
    }

    fn waiting(pending: &Pending) -> usize {
        pending.lists.iter().map(|list| list.responses.len()).sum()
    }

    #[test]
    fn pending_records_stay_below_their_memory_limit() {
        with_log("bound", |logger| {
            let mut pending = Pending::default();
            // Each of many clients that do not read has one response: 304 bytes for its record, 48
            // in addition, and 52 for the list.
            for slot in 0..20_000 {
                add(&mut pending, logger, slot, 304);
                assert_eq!(pending.held_bytes, capacity_bytes(&pending));
                assert!(pending.held_bytes <= PENDING_MAX_BYTES, "{slot}");
            }
            let held = waiting(&pending);
            assert!((2300..2500).contains(&held), "{held}");
            // A client that continues to send requests gets all memory that is left, and no more.
            for slot in 0..20_000 {
                pending.finish(logger, slot, 0);
            }
            assert_eq!((pending.held_bytes, capacity_bytes(&pending)), (0, 0));
            for _ in 0..20_000 {
                add(&mut pending, logger, 7, 304);
                assert!(pending.held_bytes <= PENDING_MAX_BYTES);
            }
            assert_eq!(pending.held_bytes, capacity_bytes(&pending));
            // Its buffer doubles its size, and has room for that once.
            assert!(waiting(&pending) * 304 > PENDING_MAX_BYTES / 4);
            pending.finish(logger, 7, 0);
            assert_eq!(capacity_bytes(&pending), FIRST_LISTS * 52);
        });
    }

    /// The number of sent bytes is the length of the content less the bytes that were left in the
    /// queue, however much of a long response was sent before its end was queued.
    #[test]
    fn content_sent_before_the_end_was_queued_is_counted() {
        const CONTENT: u64 = 200_000;
        const HEAD: u64 = 150;
        let cases = [(0, 0), (100, 0), (HEAD + 80_000, 0), (HEAD + CONTENT - 5, 0)]
            .into_iter()
            .chain([(HEAD + 80_000, 30_000), (0, HEAD + CONTENT), (0, CONTENT), (0, 7)]);
        let path = std::env::temp_dir().join(format!("pinion-content-{}", std::process::id()));
        let logs = Arc::new(OpenLogs::default());
        let server = logs.open(&LogTarget::File(path.clone()), LogFormat::Combined);
        let log = AccessLog::start(logs, server.ok()).expect("a thread");
        let (mut logger, mut pending, mut expected) = (log.logger(), Pending::default(), vec![]);
        for (left, unsent) in cases {
            let exchange = Address { worker: 0, slot: 1, generation: 1, exchange: 1 };
            let record = LogRecord { body_bytes: CONTENT, ..example() };
            let queued = HEAD + CONTENT - left;
            pending.add(&mut logger, exchange, (Instant::now(), queued), &record);
            pending.finish(&mut logger, 1, unsent);
            expected.push(CONTENT.saturating_sub(unsent).to_string());
        }
        drop(logger);
        log.finish();
        let text = fs::read_to_string(&path).expect("the log");
        let bytes =
            |line: &str| line.rsplit('"').nth(4)?.split_whitespace().last().map(String::from);
        let logged: Vec<String> = text.lines().filter_map(bytes).collect();
        assert_eq!(logged, expected, "{text}");
        fs::remove_file(path).expect("removed");
    }

    #[test]
    fn memory_of_free_lists_is_available_to_others() {
        with_log("kept", |logger| {
            let mut pending = Pending::default();
            // 100 clients with 4 KiB each: all of it is kept for them.
            for round in 0..3 {
                for slot in 0..100 {
                    (0..8).for_each(|_| add(&mut pending, logger, slot, 504));
                }
                assert_eq!(waiting(&pending), 800, "round {round}");
                (0..100).for_each(|slot| pending.finish(logger, slot, 0));
                assert!(pending.kept_bytes > 100 * 4096 && waiting(&pending) == 0);
                assert_eq!(pending.held_bytes, capacity_bytes(&pending));
            }
            // One client that needs more than is left gets it.
            (0..500).for_each(|_| add(&mut pending, logger, 500, 1004));
            assert_eq!(waiting(&pending), 500);
            assert_eq!(pending.held_bytes, capacity_bytes(&pending));
            assert!(pending.held_bytes <= PENDING_MAX_BYTES);
        });
    }
}
