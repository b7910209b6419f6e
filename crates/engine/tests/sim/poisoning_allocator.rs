//! An allocator that overwrites memory when it is freed and keeps it for a while, so that a kernel
//! that still reads freed memory of the engine reads other bytes, and does not crash.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

/// Smaller blocks are never send buffers.
const KEPT_MIN_BYTES: usize = 512;
/// The number of kept blocks, of which the oldest is freed first.
const KEPT_BLOCKS: usize = 256;
/// The byte in freed memory.
const FREED: u8 = 0xdd;

struct Keeping {
    kept: Mutex<Kept>,
}

struct Kept {
    blocks: [Option<(usize, Layout)>; KEPT_BLOCKS],
    next: usize,
}

#[global_allocator]
static KEEPING: Keeping =
    Keeping { kept: Mutex::new(Kept { blocks: [None; KEPT_BLOCKS], next: 0 }) };

// SAFETY: every call is passed to the system's allocator; a block is freed later than requested,
// and once.
unsafe impl GlobalAlloc for Keeping {
    // SAFETY: the requirements of the trait include all requirements of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the trait requires that the block came from `alloc` and is not used again.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut oldest = Some((block as usize, layout));
        if layout.size() >= KEPT_MIN_BYTES {
            // SAFETY: the block belongs to this allocator now, and has as many bytes as in its
            // layout.
            unsafe { std::ptr::write_bytes(block, FREED, layout.size()) };
            if let Ok(mut kept) = self.kept.lock() {
                let next = kept.next;
                kept.next = (next + 1) % KEPT_BLOCKS;
                oldest = std::mem::replace(&mut kept.blocks[next], oldest);
            }
        }
        if let Some((block, layout)) = oldest {
            // SAFETY: it came from `alloc` with this layout and has been removed from the list.
            unsafe { System.dealloc(block as *mut u8, layout) };
        }
    }
}
