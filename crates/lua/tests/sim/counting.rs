//! The system's allocator, counting the bytes that are in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

/// Bytes that the process has taken and not given back, those of Lua among them.
pub(crate) fn used_bytes() -> usize {
    USED_BYTES.load(Ordering::Relaxed)
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting takes no memory.
// What is not overridden goes through these two.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: what the trait asks of callers is all that the system's allocator asks.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            USED_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        }
        block
    }

    // SAFETY: what the trait asks of callers: the block came from `alloc` and is not used again.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        USED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) };
    }
}
