//! The system's allocator, which counts the bytes in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static USED_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

/// Returns the bytes that the process has allocated and not freed, including those of Lua.
pub(crate) fn used_bytes() -> usize {
    USED_BYTES.load(Ordering::Relaxed)
}

// SAFETY: every call is passed to the system's allocator unchanged; counting allocates nothing.
// Methods that are not overridden call these two.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the requirements of the trait include all requirements of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            USED_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        }
        block
    }

    // SAFETY: the trait requires that the block came from `alloc` and is not used again.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        USED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) };
    }
}
