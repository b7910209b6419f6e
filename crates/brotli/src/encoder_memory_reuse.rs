//! Memory of the brotli encoder, kept from one content to the next.
//!
//! The encoder makes its hash table anew for every content: 1 to 32 MiB of zeros, which for a page
//! of 2 KiB is most of the work. Here the table of an earlier content is reused without clearing,
//! where that makes no difference: at qualities 5 to 9 it is reached only through counters of how
//! many places of each bucket are in use, and those begin at zero. No other array of the encoder is
//! as long as a table: its arrays per block of a metablock (16 MiB, in blocks of 512 bytes) or per
//! context are shorter by far. A test of the builder compares the bytes with those of an encoder
//! that has fresh memory.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use brotli::enc::{Allocator, BrotliAlloc, SliceWrapper, SliceWrapperMut};

/// The number of places that hash tables have at least (`1 << (14 + 4)`, quality 5).
const TABLE_MIN_PLACES: usize = 1 << 18;
/// Qualities whose tables are reached through counters.
const SHARING_QUALITIES: std::ops::RangeInclusive<u8> = 5..=9;

/// The memory of encoders, one after the other. Clones share it.
#[derive(Clone, Debug)]
pub struct EncoderMemory {
    /// The kept tables, one per length; a quality has two lengths at most.
    tables: Rc<RefCell<Vec<Vec<u32>>>>,
    shares: bool,
}

impl EncoderMemory {
    /// Creates memory for encoders of this quality.
    pub fn new(quality: u8) -> EncoderMemory {
        EncoderMemory { tables: Rc::default(), shares: SHARING_QUALITIES.contains(&quality) }
    }
}

/// An array of the encoder.
pub struct Cells<T>(Vec<T>);

#[cfg(test)]
impl<T: Clone + Default> Cells<T> {
    /// Creates an array of so many places.
    pub(crate) fn of_length(len: usize) -> Cells<T> {
        Cells(vec![T::default(); len])
    }
}

impl<T> Default for Cells<T> {
    fn default() -> Cells<T> {
        Cells(Vec::new())
    }
}

impl<T> SliceWrapper<T> for Cells<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Cells<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Clone + Default + 'static> Allocator<T> for EncoderMemory {
    type AllocatedMemory = Cells<T>;

    fn alloc_cell(&mut self, len: usize) -> Cells<T> {
        let mut cells = Cells::default();
        if self.shares
            && len >= TABLE_MIN_PLACES
            && let Some(table) = as_table(&mut cells)
        {
            let mut tables = self.tables.borrow_mut();
            if let Some(kept) = tables.iter().position(|kept| kept.len() == len) {
                table.0 = tables.swap_remove(kept);
                return cells;
            }
        }
        Cells(vec![T::default(); len])
    }

    fn free_cell(&mut self, mut cells: Cells<T>) {
        if self.shares
            && cells.0.len() >= TABLE_MIN_PLACES
            && let Some(table) = as_table(&mut cells)
        {
            self.tables.borrow_mut().push(std::mem::take(&mut table.0));
        }
    }
}

impl BrotliAlloc for EncoderMemory {}

/// Returns the array, if its type is that of tables.
fn as_table<T: 'static>(cells: &mut Cells<T>) -> Option<&mut Cells<u32>> {
    (cells as &mut dyn Any).downcast_mut()
}
