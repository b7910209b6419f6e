//! What answers are cut from: a file or a sealed memfd, mapped read-only, and the generations of it
//! that a worker serves.
//!
//! A mapped file can be truncated by somebody else. The kernel then raises SIGBUS at the first
//! touch of a lost page; [`guard_lost_pages`] installs a handler that puts a zero page there and
//! marks the mapping as damaged, so the server lives on and answers 500 for that generation. A
//! `send` from such a page gives EFAULT instead, which ends that one answer.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::limits::GENERATIONS_MAX;

/// An archive as answers are cut from it: its own bytes, and the files too large to be copied in.
pub struct Mapping {
    archive: Region,
    /// In the order of the archive's external table.
    externals: Vec<Region>,
}

impl Mapping {
    /// Maps the archive in `file` and the external files it names.
    ///
    /// # Errors
    /// What `fstat` and `mmap` report; an empty file is `InvalidData`.
    pub fn new(file: File, externals: Vec<File>) -> io::Result<Self> {
        let archive = Region::new(file)?;
        let externals = externals.into_iter().map(Region::new).collect::<io::Result<_>>()?;
        Ok(Self { archive, externals })
    }

    /// The archive's bytes; see [`Region::bytes`].
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.archive.bytes()
    }

    /// The archive's file, for `sendfile`.
    #[inline]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.archive.file()
    }

    /// Reads every page of the archive once, so that no worker meets a page fault later.
    pub fn preload(&self) {
        let mut sum = 0u8;
        for page in self.bytes().chunks(4096) {
            sum = sum.wrapping_add(page[0]);
        }
        std::hint::black_box(sum);
    }

    /// An external file of the archive, if there is one with that index.
    #[inline]
    pub fn external(&self, index: u32) -> Option<&Region> {
        self.externals.get(index as usize)
    }

    /// True once a page of the archive was lost: it was truncated, or its disk failed.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.archive.guard.is_some_and(|guard| guard.damaged.load(Ordering::Relaxed))
    }
}

/// A whole file, mapped read-only.
pub struct Region {
    file: File,
    start: NonNull<u8>,
    bytes: usize,
    guard: Option<&'static GuardedRange>,
}

// SAFETY: the mapping is read-only, lives until drop, and its pointer is never handed out for
// writing.
unsafe impl Send for Region {}
// SAFETY: as above; shared reads of read-only memory need no synchronisation.
unsafe impl Sync for Region {}

impl Region {
    fn new(file: File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "file too large to map"))?;
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "file is empty"));
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let guard = GuardedRange::claim(start.as_ptr() as usize, bytes);
        Ok(Self { file, start, bytes, guard })
    }

    /// The mapped bytes.
    ///
    /// Whoever can write the file can change them at any time; readers copy what they check before
    /// they trust it. `--memory copy` holds the archive in a sealed memfd, where nobody can.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `bytes` bytes until drop. A page lost by truncation is
        // replaced by a zero page in the SIGBUS handler. Concurrent writers are outside of what
        // the language can express; the archive's readers copy, then check, then use.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The file itself.
    #[inline]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether the file still has this size and this time of modification.
    pub(crate) fn is_unchanged(&self, size: u64, modified_ns: i64) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| {
            let modified = stat.st_mtime.saturating_mul(1_000_000_000);
            stat.st_size as u64 == size
                && modified.saturating_add(stat.st_mtime_nsec as i64) == modified_ns
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(guard) = self.guard {
            guard.release();
        }
        // SAFETY: exactly the range that `new` mapped; no borrow of it can outlive `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own range cannot fail");
    }
}

/// A range the SIGBUS handler may mend. Fixed in number, because a signal handler may not allocate.
struct GuardedRange {
    start: AtomicUsize,
    bytes: AtomicUsize,
    damaged: AtomicBool,
}

static GUARDED: [GuardedRange; GENERATIONS_MAX] = [const {
    GuardedRange {
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        damaged: AtomicBool::new(false),
    }
}; GENERATIONS_MAX];

/// What SIGBUS did before us (the address of its handler).
static PREVIOUS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

impl GuardedRange {
    fn claim(start: usize, bytes: usize) -> Option<&'static Self> {
        GUARDED.iter().find_map(|range| {
            range.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).ok()?;
            range.damaged.store(false, Ordering::Relaxed);
            range.bytes.store(bytes, Ordering::Release);
            Some(range)
        })
    }

    fn release(&self) {
        self.bytes.store(0, Ordering::Release);
        self.start.store(0, Ordering::Release);
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        start != 0 && address >= start && address - start < bytes
    }
}

/// Installs the SIGBUS handler for the whole process. Call once, before the first archive is read.
///
/// # Errors
/// What `sigaction` reports.
pub fn guard_lost_pages() -> io::Result<()> {
    // SAFETY: a zeroed sigaction is a valid value; the handler is async-signal-safe (see there).
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut previous: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_lost_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigemptyset(&raw mut action.sa_mask);
        let outcome = libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous);
        PREVIOUS.store(previous.sa_sigaction as *mut c_void, Ordering::Release);
        outcome
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts a zero page over a lost page of a guarded mapping; any other SIGBUS takes its default way.
/// Only atomics and `mmap`, `sigaction`, all safe in a signal handler.
extern "C" fn on_lost_page(signal: i32, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(range) = GUARDED.iter().find(|range| range.holds(address)) {
        let page = address & !4095;
        // SAFETY: replaces one page inside a range that we mapped read-only and still hold; what
        // was there cannot be read any more.
        let mended = unsafe {
            libc::mmap(
                page as *mut c_void,
                4096,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mended != libc::MAP_FAILED {
            range.damaged.store(true, Ordering::Relaxed);
            return;
        }
    }
    // Not ours: put the former action back; the fault repeats and takes that way.
    // SAFETY: as in `guard_lost_pages`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = PREVIOUS.load(Ordering::Acquire) as usize;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// Names a mapping within one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingId(u32);

struct Held {
    mapping: Arc<Mapping>,
    /// Slices of it that wait in output queues.
    slices: usize,
    /// The application still cuts answers from it.
    current: bool,
}

/// The mappings one worker serves from: one `Arc` each and a plain count, so that no request
/// touches a shared counter (design §3).
#[derive(Default)]
pub struct Mappings {
    held: Vec<Option<Held>>,
}

impl Mappings {
    /// Takes a mapping up; answers may name it until [`Self::retire`].
    pub fn add(&mut self, mapping: Arc<Mapping>) -> MappingId {
        let held = Some(Held { mapping, slices: 0, current: true });
        let free = self.held.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.held[index] = held;
        MappingId(index as u32)
    }

    /// No new answer will name it; it goes when its last slice has left.
    pub fn retire(&mut self, id: MappingId) {
        let place = &mut self.held[id.0 as usize];
        if let Some(held) = place {
            held.current = false;
            if held.slices == 0 {
                *place = None;
            }
        }
    }

    /// The mapping, while it is current or has slices in flight.
    #[inline]
    pub fn get(&self, id: MappingId) -> Option<&Mapping> {
        self.held.get(id.0 as usize)?.as_ref().map(|held| &*held.mapping)
    }

    #[inline]
    pub(crate) fn slice_taken(&mut self, id: MappingId) {
        if let Some(held) = &mut self.held[id.0 as usize] {
            held.slices += 1;
        }
    }

    #[inline]
    pub(crate) fn slice_returned(&mut self, id: MappingId) {
        let place = &mut self.held[id.0 as usize];
        if let Some(held) = place {
            held.slices -= 1;
            if held.slices == 0 && !held.current {
                *place = None;
            }
        }
    }

    /// How many mappings are held, for tests and status.
    pub fn len(&self) -> usize {
        self.held.iter().flatten().count()
    }

    /// True when none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> File {
        let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        let mut file = File::from(fd);
        file.write_all(bytes).expect("write");
        file
    }

    #[test]
    fn a_retired_mapping_goes_with_its_last_slice() {
        let mapping = Arc::new(Mapping::new(file_of(b"hello"), Vec::new()).expect("map"));
        let mut mappings = Mappings::default();
        let id = mappings.add(mapping.clone());
        mappings.slice_taken(id);
        mappings.retire(id);
        assert_eq!(mappings.get(id).map(Mapping::bytes), Some(&b"hello"[..]));
        mappings.slice_returned(id);
        assert!(mappings.get(id).is_none());
        assert_eq!(Arc::strong_count(&mapping), 1);
    }

    #[test]
    fn a_page_lost_by_truncation_reads_as_zero_and_marks_the_damage() {
        guard_lost_pages().expect("handler");
        let file = file_of(&[7; 3 * 4096]);
        let mapping = Mapping::new(file.try_clone().expect("clone"), Vec::new()).expect("map");
        assert_eq!(mapping.bytes()[2 * 4096], 7);
        file.set_len(4096).expect("truncate");
        assert_eq!(std::hint::black_box(mapping.bytes())[2 * 4096 + 5], 0);
        assert!(mapping.is_damaged());
        assert_eq!(mapping.bytes()[0], 7, "pages that are left still read");
    }
}
