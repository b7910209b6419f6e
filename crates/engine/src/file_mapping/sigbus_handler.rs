//! Lost pages of a mapped file: it was truncated, or its disk failed. The kernel raises SIGBUS at
//! the first access to such a page; the handler maps a zero page there and marks the range.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Ranges in one block of the table. A server has one for each mapped archive; older ones live
/// until their last response has left, so a second block is rare.
const BLOCK_RANGES: usize = 64;

/// A mapped range that the handler may repair.
pub(super) struct GuardedRange {
    claimed: AtomicBool,
    /// The address of the first byte; 0 while the range is unused.
    start: AtomicUsize,
    bytes: AtomicUsize,
    damaged: AtomicBool,
}

/// The table of ranges: a list of blocks that grows and never shrinks, so that the handler can walk
/// it without a lock.
struct RangeBlock {
    ranges: [GuardedRange; BLOCK_RANGES],
    next: AtomicPtr<RangeBlock>,
}

static FIRST: RangeBlock = RangeBlock::new();

/// The action of SIGBUS before ours: its handler, with the flags and the mask that this one
/// expects.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Bytes of a page; read at start, because a handler should not read it.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Installs the SIGBUS handler for the whole process. Call it before the first archive is read.
///
/// # Errors
/// Returns the error of `sigaction`.
pub fn guard_lost_pages() -> io::Result<()> {
    PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
    // SAFETY: a zeroed sigaction is a valid value; the handler is async-signal-safe (see there).
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut previous: libc::sigaction = std::mem::zeroed();
        // The previous action must be known before ours can run.
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut previous) != 0 {
            return Err(io::Error::last_os_error());
        }
        if previous.sa_sigaction != on_lost_page as *const () as usize {
            let _known_from_the_first_call = PREVIOUS.set(previous);
        }
        action.sa_sigaction = on_lost_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut())
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

    /// Guards a range of a mapping until [`Self::release`].
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
                // This store is the last: from now on the handler uses the two above.
                range.start.store(start, Ordering::Release);
                return range;
            }
            block = block.next_or_new();
        }
    }

    /// Releases the range, which is about to be unmapped.
    pub(super) fn release(&self) {
        self.start.store(0, Ordering::Release);
        self.claimed.store(false, Ordering::Release);
    }

    /// Returns whether a page of it was lost.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Marks it, for a loss that is found in another way.
    pub(super) fn mark_damaged(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        // The entry may have been reused for another range between the two loads.
        start != 0
            && self.start.load(Ordering::Acquire) == start
            && (start..start.saturating_add(bytes)).contains(&address)
    }
}

impl RangeBlock {
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

/// Maps a zero page over a lost page of a guarded mapping. Any other fault gets the previous
/// action; the sender of this signal wants the process to end. The handler uses only atomics and
/// `mmap`, `sigaction`, `raise`, which are all safe in a signal handler.
extern "C" fn on_lost_page(signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler; only a fault has an
    // address, and only the kernel's codes are above 0 (sigaction(2)).
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Failed memory that no access has hit is reported, and does not repeat.
    let is_fault = code > 0 && code != libc::BUS_MCEERR_AO;
    if is_fault && mend(address) {
        return;
    }
    // SAFETY: a former action as the kernel returned it, or the default one, which is all zeros.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        if is_fault {
            // The former action is restored; the fault repeats and gets that action.
            let former = PREVIOUS.get().unwrap_or(&default);
            libc::sigaction(signal, former, ptr::null_mut());
        } else {
            // The former action must not be used here: the handler of Rust's standard library
            // restores the default action and returns, because it expects a fault that repeats. A
            // sent signal does not, and the process would live on without a guard.
            libc::sigaction(signal, &raw const default, ptr::null_mut());
            // Not blocked here (SA_NODEFER): the process ends now.
            libc::raise(signal);
        }
    }
}

/// Maps a zero page over the lost page at `address`, if it is one of ours.
fn mend(address: usize) -> bool {
    let Some(range) = guard_of(address) else { return false };
    let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
    let page = address & !(page_bytes - 1);
    // SAFETY: replaces one page inside a range that we mapped read-only and still hold; its former
    // content cannot be read any more.
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
    if mended == libc::MAP_FAILED {
        return false;
    }
    range.mark_damaged();
    true
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// The variable that is set in a child process, with its task.
    const DEED: &str = "PINION_TEST_SIGBUS";
    /// The exit status of the child if the former handler was called as it must be.
    const FORMER: i32 = 42;
    /// The exit status of the child if no signal has ended it.
    const SURVIVED: i32 = 43;

    extern "C" fn former(signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
        // SAFETY: installed with SA_SIGINFO; `_exit` is safe in a handler.
        unsafe { libc::_exit(if (*info).si_signo == signal { FORMER } else { 1 }) }
    }

    /// Performs the task of a child process, and never returns.
    fn commit(deed: &str) -> ! {
        // SAFETY: a handler that only exits, a mapping of our own, and a read that must fault.
        unsafe {
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            // Otherwise the handler is that of the standard library, which each Rust program
            // installs at its start.
            if deed.ends_with("with a handler") {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = former as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
            }
            guard_lost_pages().expect("the handler");
            guard_lost_pages().expect("the handler, again");
            if deed.starts_with("fault") {
                let memfd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC);
                let memfd = memfd.expect("a memfd");
                let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
                let page = libc::mmap(ptr::null_mut(), 4096, read, shared, memfd.as_raw_fd(), 0);
                ptr::read_volatile(page.cast::<u8>());
            } else if deed.starts_with("raise") {
                libc::raise(libc::SIGBUS);
            } else {
                // Any thread may get the signal, and another thread needs a moment.
                libc::kill(libc::getpid(), libc::SIGBUS);
                std::thread::sleep(std::time::Duration::from_secs(5));
            }
            libc::_exit(SURVIVED)
        }
    }

    #[test]
    fn other_faults_use_the_former_handler_and_sent_signals_kill() {
        if let Ok(deed) = std::env::var(DEED) {
            commit(&deed);
        }
        let (_, module) = module_path!().split_once("::").expect("a crate");
        let name = "other_faults_use_the_former_handler_and_sent_signals_kill";
        let this = format!("{module}::{name}");
        let killed = (None, Some(libc::SIGBUS));
        for (deed, end) in [
            ("fault", killed),
            ("fault with a handler", (Some(FORMER), None)),
            ("raise", killed),
            ("raise with a handler", killed),
            ("kill", killed),
            ("kill with a handler", killed),
        ] {
            let program = std::env::current_exe().expect("this program");
            let mut child = Command::new(program);
            let status = child.args(["--exact", &this]).env(DEED, deed).status().expect("a child");
            assert_eq!((status.code(), status.signal()), end, "{deed}: {status}");
        }
    }

    #[test]
    fn any_number_of_ranges_is_guarded() {
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
        // An entry that was given back is used again.
        let again = GuardedRange::claim(address(0), 4096);
        assert!(guard_of(address(0)).is_some_and(|found| ptr::eq(found, again)));
        assert!(!again.is_damaged());
        again.release();
    }
}
