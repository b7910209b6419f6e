//! An arena that stores values under fixed numbers. It grows page by page, and never moves a value.

use crate::keyspace::allocation_size::allocated_bytes;

/// An arena of values of one type, each of which is found by its number. A page has at most
/// `PAGE_SLOTS` values.
#[derive(Debug)]
pub(super) struct PagedArena<T, const PAGE_SLOTS: usize> {
    pages: Vec<ArenaPage<T>>,
    /// Pages that have unused slots.
    open: Vec<u32>,
    /// The bytes of memory that all pages occupy.
    page_bytes: usize,
}

#[derive(Debug)]
struct ArenaPage<T> {
    slots: Vec<ArenaSlot<T>>,
    used: u32,
    /// The first unused slot. Each unused slot has the number of the next one.
    first_unused: u32,
    is_open: bool,
}

#[derive(Clone, Debug)]
enum ArenaSlot<T> {
    Used(T),
    /// An unused slot, with the number of the next unused slot of the page.
    Unused(u32),
}

/// The number that means no slot.
const NONE: u32 = u32::MAX;

impl<T, const PAGE_SLOTS: usize> Default for PagedArena<T, PAGE_SLOTS> {
    fn default() -> Self {
        Self { pages: Vec::new(), open: Vec::new(), page_bytes: 0 }
    }
}

impl<T: Clone, const PAGE_SLOTS: usize> Clone for PagedArena<T, PAGE_SLOTS> {
    fn clone(&self) -> Self {
        let pages: Vec<_> = self.pages.iter().map(ArenaPage::copy).collect();
        // The copied pages have no spare capacity.
        let page_bytes = pages.iter().map(ArenaPage::allocated_bytes).sum();
        Self { pages, open: self.open.clone(), page_bytes }
    }
}

impl<T: Clone> ArenaPage<T> {
    fn copy(&self) -> Self {
        Self { slots: self.slots.clone(), ..*self }
    }
}

impl<T> ArenaPage<T> {
    fn allocated_bytes(&self) -> usize {
        allocated_bytes(self.slots.capacity() * size_of::<ArenaSlot<T>>())
    }
}

impl<T, const PAGE_SLOTS: usize> PagedArena<T, PAGE_SLOTS> {
    /// Returns the bytes of memory that the arena has allocated, without those that its values
    /// point to.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.page_bytes
            + allocated_bytes(self.pages.capacity() * size_of::<ArenaPage<T>>())
            + allocated_bytes(self.open.capacity() * size_of::<u32>())
    }

    /// Adds a value. Returns its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let page_index = match self.open.last() {
            Some(&index) => index,
            None => {
                let slots = Vec::new();
                self.pages.push(ArenaPage { slots, used: 0, first_unused: NONE, is_open: true });
                let index = (self.pages.len() - 1) as u32;
                self.open.push(index);
                index
            }
        };
        let page = &mut self.pages[page_index as usize];
        let slot_index = page.first_unused;
        let slot_index = match page.slots.get_mut(slot_index as usize) {
            Some(slot) => {
                if let ArenaSlot::Unused(next) = *slot {
                    page.first_unused = next;
                }
                *slot = ArenaSlot::Used(value);
                slot_index
            }
            None => {
                self.page_bytes -= page.allocated_bytes();
                page.slots.push(ArenaSlot::Used(value));
                self.page_bytes += page.allocated_bytes();
                (page.slots.len() - 1) as u32
            }
        };
        page.used += 1;
        if page.used as usize == PAGE_SLOTS {
            page.is_open = false;
            self.open.pop();
        }
        page_index * PAGE_SLOTS as u32 + slot_index
    }

    /// Removes the value with a number. A page without values is freed.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let (page_index, slot_index) = Self::location(number);
        let page = self.pages.get_mut(page_index)?;
        let slot = page.slots.get_mut(slot_index).filter(|it| matches!(it, ArenaSlot::Used(_)))?;
        let removed = std::mem::replace(slot, ArenaSlot::Unused(page.first_unused));
        page.first_unused = slot_index as u32;
        page.used -= 1;
        if page.used == 0 {
            self.page_bytes -= page.allocated_bytes();
            page.slots = Vec::new();
            page.first_unused = NONE;
        }
        if !page.is_open {
            page.is_open = true;
            self.open.push(page_index as u32);
        }
        match removed {
            ArenaSlot::Used(value) => Some(value),
            ArenaSlot::Unused(_) => None,
        }
    }

    fn location(number: u32) -> (usize, usize) {
        let number = number as usize;
        (number / PAGE_SLOTS, number % PAGE_SLOTS)
    }

    /// Returns the value with a number.
    ///
    /// # Panics
    /// The number is not in use.
    pub(super) fn get(&self, number: u32) -> &T {
        let (page, slot) = Self::location(number);
        match &self.pages[page].slots[slot] {
            ArenaSlot::Used(value) => value,
            ArenaSlot::Unused(_) => unreachable!("only numbers in use are kept"),
        }
    }

    /// Returns the value with a number for changes.
    ///
    /// # Panics
    /// The number is not in use.
    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        let (page, slot) = Self::location(number);
        match &mut self.pages[page].slots[slot] {
            ArenaSlot::Used(value) => value,
            ArenaSlot::Unused(_) => unreachable!("only numbers in use are kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arena_numbers_are_stable_until_their_values_are_removed(
            steps in prop::collection::vec((any::<bool>(), any::<usize>()), 0..400),
        ) {
            let mut arena = PagedArena::<usize, 8>::default();
            let mut model = HashMap::new();
            for (inserts, choice) in steps {
                if inserts || model.is_empty() {
                    let number = arena.insert(choice);
                    prop_assert_eq!(model.insert(number, choice), None);
                } else {
                    let mut numbers: Vec<u32> = model.keys().copied().collect();
                    numbers.sort_unstable();
                    let number = numbers[choice % numbers.len()];
                    prop_assert_eq!(arena.remove(number), model.remove(&number));
                    prop_assert_eq!(arena.remove(number), None);
                }
                for (&number, value) in &model {
                    prop_assert_eq!(arena.get(number), value);
                }
            }
            let pages = arena.pages.iter();
            prop_assert_eq!(arena.page_bytes, pages.map(ArenaPage::allocated_bytes).sum::<usize>());
            if model.is_empty() {
                prop_assert_eq!(arena.page_bytes, 0);
            }
        }
    }
}
