//! The integer form of a set: sorted integers in one allocation, each in as many bytes as the
//! largest one needs.

use crate::keyspace::allocation_size::allocated_bytes;
use crate::prefetch::prefetch;

/// The encoded set: the number of bytes of each integer (1 byte), and the integers in ascending
/// order. Without integers the encoding is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct IntegerSet {
    bytes: Vec<u8>,
}

/// Returns the number of bytes that an integer needs.
fn width_of(number: i64) -> usize {
    if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

impl IntegerSet {
    /// Prefetches the bytes of the set into the cache of the processor.
    pub(super) fn prefetch(&self) {
        prefetch(&self.bytes);
    }

    fn width(&self) -> usize {
        self.bytes.first().copied().unwrap_or(2).into()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.width()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(self.bytes.capacity())
    }

    /// Returns the number at an index.
    pub(super) fn get(&self, index: usize) -> Option<i64> {
        let width = self.width();
        let bytes = self.bytes.get(1 + index * width..)?.get(..width)?;
        let mut number = [0; 8];
        number[..width].copy_from_slice(bytes);
        let unused_bits = 64 - 8 * width as u32;
        Some(i64::from_le_bytes(number) << unused_bits >> unused_bits)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Returns the index of a number, or as an error the index where it would be inserted.
    fn search(&self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&Some(number)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub(super) fn contains(&self, number: i64) -> bool {
        self.search(number).is_ok()
    }

    /// Adds a number. Returns whether it is new.
    pub(super) fn insert(&mut self, number: i64) -> bool {
        let Err(index) = self.search(number) else { return false };
        let width = width_of(number);
        if self.bytes.is_empty() || width > self.width() {
            self.widen(width);
        }
        let width = self.width();
        if self.bytes.capacity() - self.bytes.len() < width {
            // The new capacity has some spare bytes, so that not every addition of many moves all
            // numbers.
            let spare_bytes = self.bytes.len() / 8;
            self.bytes.reserve_exact(width + spare_bytes);
        }
        let at = 1 + index * width;
        let number = number.to_le_bytes();
        self.bytes.splice(at..at, number[..width].iter().copied());
        true
    }

    /// Rewrites all numbers with more bytes each.
    fn widen(&mut self, width: usize) {
        let mut bytes = Vec::with_capacity(1 + (self.len() + 1) * width);
        bytes.push(width as u8);
        for number in self.iter() {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        self.bytes = bytes;
    }

    /// Removes a number. Returns whether it existed.
    pub(super) fn remove(&mut self, number: i64) -> bool {
        let Ok(index) = self.search(number) else { return false };
        let width = self.width();
        let at = 1 + index * width;
        self.bytes.drain(at..at + width);
        if self.bytes.len() == 1 {
            self.bytes = Vec::new();
        } else if self.bytes.len() * 2 < self.bytes.capacity() {
            self.bytes.shrink_to_fit();
        }
        true
    }
}
