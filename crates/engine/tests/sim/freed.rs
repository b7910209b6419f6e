//! An allocator that overwrites memory when it is freed and keeps it for a while, so that a kernel
//! that still reads what the engine has freed reads something else, and does not crash.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

/// Smaller blocks are nobody's send buffer.
const KEPT_MIN_BYTES: usize = 512;
/// Blocks kept, the oldest goes first.
const KEPT_BLOCKS: usize = 256;
/// What stands in freed memory.
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

// SAFETY: every call goes to the system's allocator; a block is freed later than asked, and once.
unsafe impl GlobalAlloc for Keeping {
    // SAFETY: what the trait asks of callers is all that the system's allocator asks.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: what the trait asks of callers: the block came from `alloc` and is not used again.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut oldest = Some((block as usize, layout));
        if layout.size() >= KEPT_MIN_BYTES {
            // SAFETY: the block is ours now, with as many bytes as its layout says.
            unsafe { std::ptr::write_bytes(block, FREED, layout.size()) };
            if let Ok(mut kept) = self.kept.lock() {
                let next = kept.next;
                kept.next = (next + 1) % KEPT_BLOCKS;
                oldest = std::mem::replace(&mut kept.blocks[next], oldest);
            }
        }
        if let Some((block, layout)) = oldest {
            // SAFETY: it came from `alloc` with this layout and has been taken off the list.
            unsafe { System.dealloc(block as *mut u8, layout) };
        }
    }
}
