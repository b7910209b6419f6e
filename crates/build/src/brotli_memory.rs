//! Memory of the brotli encoder, kept from one small content to the next.
//!
//! The encoder makes its hash table anew for every content: 1 to 32 MiB of zeros, which for a page
//! of 2 KiB is a third of all work. Here the table of the last content is handed out again as it
//! is, wherever that makes no difference: qualities 5 to 9 reach it only through counters of how
//! many places of each bucket are in use, and these begin at zero. That holds for content too short
//! to wrap a counter; no other array of the encoder is as large as a table for such content.
//! A test compares the bytes with those of an encoder that has fresh memory.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

use brotli::enc::{Allocator, BrotliAlloc, SliceWrapper, SliceWrapperMut};

/// Hash tables have at least this many places (`1 << (14 + 4)`, quality 5).
const TABLE_MIN_PLACES: usize = 1 << 18;
/// Content up to this size shares a table: counters have 16 bits.
const SHARING_MAX_BYTES: usize = 1 << 15;
/// Qualities whose tables are reached through counters.
const SHARING_QUALITIES: std::ops::RangeInclusive<i32> = 5..=9;

/// The allocator of one worker's brotli encoder. Clones share their memory.
#[derive(Clone, Default)]
pub(crate) struct BrotliMemory {
    table: Rc<RefCell<Vec<u32>>>,
    shares: bool,
}

impl BrotliMemory {
    /// The allocator for one content.
    pub(crate) fn for_content(&self, quality: i32, bytes: usize) -> BrotliMemory {
        let shares = bytes <= SHARING_MAX_BYTES && SHARING_QUALITIES.contains(&quality);
        BrotliMemory { table: Rc::clone(&self.table), shares }
    }
}

/// An array of the encoder.
pub(crate) struct Cells<T>(Vec<T>);

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

impl<T: Clone + Default + 'static> Allocator<T> for BrotliMemory {
    type AllocatedMemory = Cells<T>;

    fn alloc_cell(&mut self, len: usize) -> Cells<T> {
        let mut cells = Cells::default();
        if self.shares
            && len >= TABLE_MIN_PLACES
            && let Some(table) = as_table(&mut cells)
        {
            std::mem::swap(&mut table.0, &mut self.table.borrow_mut());
            if table.0.len() == len {
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
            *self.table.borrow_mut() = std::mem::take(&mut table.0);
        }
    }
}

impl BrotliAlloc for BrotliMemory {}

/// The array, if it is of the type that tables have.
fn as_table<T: 'static>(cells: &mut Cells<T>) -> Option<&mut Cells<u32>> {
    (cells as &mut dyn Any).downcast_mut()
}
