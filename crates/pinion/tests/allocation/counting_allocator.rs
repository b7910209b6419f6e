//! The system's allocator, counting the calls of threads that are named as workers are, or refusing
//! them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The most bytes of one call that was counted.
static LARGEST: AtomicUsize = AtomicUsize::new(0);
static REFUSES: AtomicBool = AtomicBool::new(false);
/// Calls that are granted before the first is refused.
static GRANTED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls that workers make while `work` runs.
pub(crate) fn counted(work: impl FnOnce()) -> u64 {
    let before = CALLS.load(Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
    work();
    COUNTS.store(false, Ordering::SeqCst);
    CALLS.load(Ordering::SeqCst) - before
}

/// Returns the bytes of the largest call that workers make while `work` runs.
pub(crate) fn largest_bytes(work: impl FnOnce()) -> usize {
    LARGEST.store(0, Ordering::SeqCst);
    counted(work);
    LARGEST.load(Ordering::SeqCst)
}

/// Returns the number of calls of workers that are refused while `work` runs: all but the first
/// `granted`.
pub(crate) fn refused(granted: u64, work: impl FnOnce()) -> u64 {
    let before = REFUSED.load(Ordering::SeqCst);
    GRANTED.store(granted, Ordering::SeqCst);
    REFUSES.store(true, Ordering::SeqCst);
    work();
    REFUSES.store(false, Ordering::SeqCst);
    REFUSED.load(Ordering::SeqCst) - before
}

/// The allocator: it counts calls of workers, or refuses them.
pub(crate) struct Counting;

/// Counts a call for this number of bytes; returns false if it is to be refused.
fn grant(bytes: usize) -> bool {
    let (counts, refuses) = (COUNTS.load(Ordering::Relaxed), REFUSES.load(Ordering::Relaxed));
    if !(counts || refuses) || !is_worker() {
        return true;
    }
    CALLS.fetch_add(u64::from(counts), Ordering::SeqCst);
    if counts {
        LARGEST.fetch_max(bytes, Ordering::SeqCst);
    }
    let one_less = |left: u64| left.checked_sub(1);
    let granted =
        !refuses || GRANTED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
    REFUSED.fetch_add(u64::from(!granted), Ordering::SeqCst);
    granted
}

/// Asks the kernel: the standard library would allocate to return the name of a thread.
fn is_worker() -> bool {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, the end of the string among them.
    let outcome = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    outcome == 0 && name.starts_with(b"worker-")
}

// SAFETY: every call is refused, which any may be, or passed on to the system's allocator
// unchanged; counting takes no memory.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: requires of its caller the same as the trait; so do the three functions below.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grant(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promise about `layout` is the one that the system's allocator
        // requires.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grant(layout.size()) {
            return null_mut();
        }
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, and thus from the system's allocator, with
        // this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: as `alloc`.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !grant(bytes) {
            return null_mut();
        }
        // SAFETY: as for `dealloc`, and the caller promises that `bytes` fits the layout.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
