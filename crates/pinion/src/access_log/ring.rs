//! A bounded queue of byte messages from one thread to one other, without a lock: the words of the
//! ring are atomics that are only ever stored and loaded, which costs no more than plain memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 1 MiB for each worker: about 6000 requests of common size, which the log thread takes out when
/// half of them stand there.
const RING_WORDS: usize = 1 << 17;

/// Bytes of the ring of one worker.
pub(crate) const RING_BYTES: usize = RING_WORDS * size_of::<u64>();

/// The queue itself. Positions count words from the beginning and never wrap (2^64 words).
#[derive(Debug)]
pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    /// Where the consumer reads next; written by the consumer.
    head: CacheLineCounter,
    /// Where the producer writes next; written by the producer.
    tail: CacheLineCounter,
    /// The number of messages that found no room; it only grows.
    dropped: CacheLineCounter,
}

/// A counter on a cache line of its own, so that the two threads do not fight over one.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheLineCounter(AtomicU64);

/// The end that writes. One for each ring.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Arc<Ring>,
    tail: u64,
    /// The consumer was at least here when we last looked.
    head_seen: u64,
}

/// The end that reads. One for each ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Arc<Ring>,
    head: u64,
}

impl Ring {
    /// Makes an empty ring.
    pub(crate) fn new() -> Self {
        Self::with_words(RING_WORDS)
    }

    fn with_words(words: usize) -> Self {
        assert!(words.is_power_of_two(), "positions become places by a mask");
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: CacheLineCounter::default(),
            tail: CacheLineCounter::default(),
            dropped: CacheLineCounter::default(),
        }
    }

    /// Returns how many messages were ever dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.0.load(Ordering::Relaxed)
    }

    /// Returns whether everything that was pushed has been popped.
    pub(crate) fn is_empty(&self) -> bool {
        self.tail.0.load(Ordering::SeqCst) == self.head.0.load(Ordering::Relaxed)
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        // The mask keeps the low bits alone; they are all that the cast needs to keep.
        &self.words[position as usize & (self.words.len() - 1)]
    }

    fn len_words(&self) -> u64 {
        self.words.len() as u64
    }
}

impl Producer {
    /// Makes the writing end of a ring that has none yet.
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Self { ring, tail: 0, head_seen: 0 }
    }

    /// Appends a message, or drops it and counts when there is no room.
    pub(crate) fn push(&mut self, message: &[u8]) {
        let needed = 1 + message.len().div_ceil(8) as u64;
        let ring = &*self.ring;
        if self.tail - self.head_seen + needed > ring.len_words() {
            // Acquire: the consumer has done with the words before its head.
            self.head_seen = ring.head.0.load(Ordering::Acquire);
            if self.tail - self.head_seen + needed > ring.len_words() {
                let dropped = ring.dropped.0.load(Ordering::Relaxed);
                ring.dropped.0.store(dropped + 1, Ordering::Relaxed);
                return;
            }
        }
        ring.word(self.tail).store(message.len() as u64, Ordering::Relaxed);
        let (words, rest) = message.as_chunks::<8>();
        for (at, word) in (self.tail + 1..).zip(words) {
            ring.word(at).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            ring.word(self.tail + needed - 1).store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
        self.tail += needed;
        // Publishes the words above; SeqCst because the bell relies on it.
        ring.tail.0.store(self.tail, Ordering::SeqCst);
    }

    /// Returns whether the consumer had better hurry. Looks at the consumer's line only when it
    /// matters.
    pub(crate) fn more_than_half_full(&mut self) -> bool {
        let half = self.ring.len_words() / 2;
        if self.tail - self.head_seen > half {
            self.head_seen = self.ring.head.0.load(Ordering::Acquire);
        }
        self.tail - self.head_seen > half
    }
}

impl Consumer {
    /// Makes the reading end of a ring that has none yet.
    pub(crate) fn new(ring: Arc<Ring>) -> Self {
        Self { ring, head: 0 }
    }

    /// Returns the ring it reads from.
    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Puts the oldest message into `message`; false when there is none.
    pub(crate) fn pop(&mut self, message: &mut Vec<u8>) -> bool {
        let ring = &*self.ring;
        // Acquire: everything that the producer stored before its tail is visible.
        if self.head == ring.tail.0.load(Ordering::Acquire) {
            return false;
        }
        let bytes = ring.word(self.head).load(Ordering::Relaxed) as usize;
        let words = bytes.div_ceil(8) as u64;
        message.clear();
        for at in self.head + 1..=self.head + words {
            message.extend_from_slice(&ring.word(at).load(Ordering::Relaxed).to_ne_bytes());
        }
        message.truncate(bytes);
        self.head += 1 + words;
        // Release: the words have been read before the producer may write over them.
        ring.head.0.store(self.head, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn pair(words: usize) -> (Producer, Consumer) {
        let ring = Arc::new(Ring::with_words(words));
        (Producer::new(Arc::clone(&ring)), Consumer::new(ring))
    }

    #[test]
    fn messages_of_every_length_round_trip() {
        let (mut producer, mut consumer) = pair(16);
        let mut popped = Vec::new();
        for length in (0..=64).chain(0..=64) {
            let message: Vec<u8> = (0..length).collect();
            producer.push(&message);
            assert!(consumer.pop(&mut popped));
            assert_eq!(popped, message);
            assert!(!consumer.pop(&mut popped) && consumer.ring().is_empty());
        }
        assert_eq!(consumer.ring().dropped(), 0);
    }

    #[test]
    fn a_message_without_space_is_dropped_and_counted() {
        let (mut producer, mut consumer) = pair(8);
        producer.push(&[1; 24]);
        assert!(!producer.more_than_half_full());
        producer.push(&[2; 17]);
        assert!(producer.more_than_half_full());
        producer.push(&[]);
        producer.push(&[3; 1000]);
        assert_eq!(consumer.ring().dropped(), 2);
        let mut popped = Vec::new();
        assert!(consumer.pop(&mut popped) && popped == [1; 24]);
        assert!(consumer.pop(&mut popped) && popped == [2; 17]);
        assert!(!consumer.pop(&mut popped));
        producer.push(&[4; 5]);
        assert!(consumer.pop(&mut popped) && popped == [4; 5]);
    }

    #[test]
    fn two_threads_agree_on_every_byte() {
        let (mut producer, mut consumer) = pair(64);
        let pushed = thread::spawn(move || {
            for seed in 0..100_000_u32 {
                producer.push(&[seed as u8; 40][..seed as usize % 40]);
            }
            producer
        });
        let (mut popped, mut taken) = (Vec::new(), 0_u64);
        loop {
            let ended = pushed.is_finished();
            while consumer.pop(&mut popped) {
                taken += 1;
                let first = popped.first().copied().unwrap_or_default();
                assert!(popped.len() < 40 && popped.iter().all(|byte| *byte == first));
            }
            if ended {
                break;
            }
        }
        assert!(taken > 0);
        assert_eq!(taken + consumer.ring().dropped(), 100_000);
    }
}
