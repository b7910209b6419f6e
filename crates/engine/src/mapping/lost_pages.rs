//! Pages that a mapped file has lost: it was truncated, or its disk failed. The kernel raises
//! SIGBUS at the first touch of one; the handler puts a zero page there and marks the range.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Ranges in one block of the table. A server has one for each archive that is mapped; older ones
/// live until their last answer has left, so a second block is rare.
const BLOCK_RANGES: usize = 64;

/// A mapped range that the handler may mend.
pub(super) struct GuardedRange {
    claimed: AtomicBool,
    /// Address of the first byte; 0 while the range is nobody's.
    start: AtomicUsize,
    bytes: AtomicUsize,
    damaged: AtomicBool,
}

/// The table of ranges: a list of blocks that grows and never shrinks, so that the handler can walk
/// it without a lock.
struct Block {
    ranges: [GuardedRange; BLOCK_RANGES],
    next: AtomicPtr<Block>,
}

static FIRST: Block = Block::new();

/// What SIGBUS did before us (the address of its handler).
static PREVIOUS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Bytes of a page; asked for at start, because a handler should not ask.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Installs the SIGBUS handler for the whole process. Call it before the first archive is read.
///
/// # Errors
/// What `sigaction` reports.
pub fn guard_lost_pages() -> io::Result<()> {
    PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
    // SAFETY: a zeroed sigaction is a valid value; the handler is async-signal-safe (see there).
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut previous: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_lost_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigemptyset(&raw mut action.sa_mask);
        let outcome = libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous);
        if previous.sa_sigaction != action.sa_sigaction {
            PREVIOUS.store(previous.sa_sigaction as *mut c_void, Ordering::Release);
        }
        outcome
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl GuardedRange {
    const fn free() -> Self {
        Self {
            claimed: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            damaged: AtomicBool::new(false),
        }
    }

    /// Watches over a range of a mapping until [`Self::release`].
    pub(super) fn claim(start: usize, bytes: usize) -> &'static Self {
        let mut block = &FIRST;
        loop {
            let free = block.ranges.iter().find(|range| {
                !range.claimed.load(Ordering::Relaxed)
                    && !range.claimed.swap(true, Ordering::Acquire)
            });
            if let Some(range) = free {
                range.damaged.store(false, Ordering::Relaxed);
                range.bytes.store(bytes, Ordering::Relaxed);
                // The last: from now on the handler believes the two above.
                range.start.store(start, Ordering::Release);
                return range;
            }
            block = block.next_or_new();
        }
    }

    /// The range is about to be unmapped.
    pub(super) fn release(&self) {
        self.start.store(0, Ordering::Release);
        self.claimed.store(false, Ordering::Release);
    }

    /// Whether a page of it was lost.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Marks it, for whoever finds the loss in another way.
    pub(super) fn mark_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        // The range may have gone to somebody else between the two loads.
        start != 0
            && self.start.load(Ordering::Acquire) == start
            && (start..start.saturating_add(bytes)).contains(&address)
    }
}

impl Block {
    const fn new() -> Self {
        Self {
            ranges: [const { GuardedRange::free() }; BLOCK_RANGES],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or a block that was leaked below and so lives for ever.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn next_or_new(&self) -> &'static Self {
        if let Some(next) = self.next() {
            return next;
        }
        let new = Box::into_raw(Box::new(Self::new()));
        let (null, order) = (ptr::null_mut(), Ordering::AcqRel);
        match self.next.compare_exchange(null, new, order, Ordering::Acquire) {
            // SAFETY: a live block that nothing frees any more.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: ours alone, another thread was faster; theirs was leaked like ours.
                unsafe {
                    drop(Box::from_raw(new));
                    &*other
                }
            }
        }
    }
}

fn guard_of(address: usize) -> Option<&'static GuardedRange> {
    std::iter::successors(Some(&FIRST), |block| block.next())
        .find_map(|block| block.ranges.iter().find(|range| range.holds(address)))
}

/// Puts a zero page over a lost page of a guarded mapping; any other SIGBUS takes its default way.
/// Only atomics and `mmap`, `sigaction`, all safe in a signal handler.
extern "C" fn on_lost_page(signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(range) = guard_of(address) {
        let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
        let page = address & !(page_bytes - 1);
        // SAFETY: replaces one page inside a range that we mapped read-only and still hold; what
        // was there cannot be read any more.
        let mended = unsafe {
            libc::mmap(
                page as *mut c_void,
                page_bytes,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mended != libc::MAP_FAILED {
            range.mark_damaged();
            return;
        }
    }
    // Not ours: put the former action back; the fault repeats and takes that way.
    // SAFETY: as in `guard_lost_pages`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = PREVIOUS.load(Ordering::Acquire) as usize;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_is_guarded_however_many_there_are() {
        // Addresses of the highest half, where no other test has a mapping.
        let address = |number: usize| (1 << 63) + number * 8192;
        let ranges: Vec<_> = (0..5 * BLOCK_RANGES)
            .map(|number| GuardedRange::claim(address(number), 4096))
            .collect();
        for (number, range) in ranges.iter().enumerate() {
            for inside in [address(number), address(number) + 4095] {
                assert!(guard_of(inside).is_some_and(|found| ptr::eq(found, *range)), "{number}");
            }
            assert!(guard_of(address(number) + 4096).is_none(), "{number}");
        }
        for range in &ranges {
            range.release();
        }
        assert!((0..ranges.len()).all(|number| guard_of(address(number)).is_none()));
        // What was given back is used again.
        let again = GuardedRange::claim(address(0), 4096);
        assert!(guard_of(address(0)).is_some_and(|found| ptr::eq(found, again)));
        assert!(!again.is_damaged());
        again.release();
    }
}
