//! The sources of responses: a file or a sealed memfd, mapped read-only, the files too large to be
//! part of it, and the generations of both that a worker serves.
//!
//! Another process can truncate a mapped file: [`guard_lost_pages`] keeps the server alive then and
//! marks the mapping, so that responses from that generation are 500. A `send` from a lost page
//! fails with EFAULT instead, which ends that one response. docs/reliability.md has the details.

mod external_file;
mod sigbus_handler;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub use external_file::ExternalFile;
use sigbus_handler::GuardedRange;
pub use sigbus_handler::guard_lost_pages;

/// An archive as the source of responses: its own bytes, and the files too large to be copied in.
pub struct Mapping {
    archive: Region,
    /// The external files in the order of the archive's external table.
    externals: Vec<ExternalFile>,
}

impl Mapping {
    /// Maps the archive in `file`; `externals` are the files it names.
    ///
    /// # Errors
    /// Returns the errors of `fstat` and `mmap`; an empty file is `InvalidData`.
    pub fn new(file: File, externals: Vec<File>) -> io::Result<Self> {
        let archive = Region::new(file)?;
        let externals = externals.into_iter().map(ExternalFile::new).collect();
        Ok(Self { archive, externals })
    }

    /// Returns the archive's bytes.
    ///
    /// A process that can write the file can change them at any time; readers copy the bytes that
    /// they check before they trust them. `--memory copy` holds the archive in a sealed memfd,
    /// which cannot be changed.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.archive.bytes()
    }

    /// Returns a range of the archive; `None` if the archive ends before that.
    #[inline]
    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Option<&[u8]> {
        let end = usize::try_from(offset.checked_add(bytes)?).ok()?;
        self.bytes().get(usize::try_from(offset).ok()?..end)
    }

    /// Returns the archive's file, for `sendfile`.
    #[inline]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.archive.file.as_fd()
    }

    /// Reads every page of the archive once, so that no worker meets a page fault later.
    pub fn preload(&self) {
        let mut sum = 0u8;
        for page in self.bytes().chunks(4096) {
            sum = sum.wrapping_add(page[0]);
        }
        std::hint::black_box(sum);
    }

    /// Returns an external file of the archive, if there is one with that index.
    #[inline]
    pub fn external(&self, index: u32) -> Option<&ExternalFile> {
        self.externals.get(index as usize)
    }

    /// Returns the number of external files; each is an open descriptor.
    pub fn external_count(&self) -> usize {
        self.externals.len()
    }

    /// Returns true once a part of the archive was lost: it was truncated, or its disk failed.
    /// External files do not count: each is checked when it is sent, and a loss affects its own
    /// responses alone.
    #[inline]
    pub fn is_damaged(&self) -> bool {
        self.archive.guard.is_damaged()
    }

    /// Checks whether the file has become shorter. The rest of its last page reads as zeros and
    /// raises no signal, so this must be called from time to time; a second is often enough.
    pub fn look_for_truncation(&self) {
        let whole = self.archive.bytes as u64;
        if rustix::fs::fstat(self.file()).is_ok_and(|stat| (stat.st_size as u64) < whole) {
            self.archive.guard.mark_damaged();
        }
    }
}

/// A whole file, mapped read-only.
struct Region {
    file: File,
    start: NonNull<u8>,
    bytes: usize,
    guard: &'static GuardedRange,
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

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `bytes` bytes until drop. A page lost by truncation is
        // replaced by a zero page in the SIGBUS handler. Concurrent writers are outside the
        // guarantees of the language; the archive's readers copy, then check, then use.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.guard.release();
        // SAFETY: exactly the range that `new` mapped; no borrow of it can outlive `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own range cannot fail");
    }
}

/// The ID of a mapping within one worker, which is not reused for another mapping in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingId {
    index: u32,
    generation: u32,
}

struct Held {
    mapping: Arc<Mapping>,
    /// The number of its slices that wait in output queues.
    slices: usize,
    /// Whether the application still makes responses from it.
    current: bool,
}

/// The entry of a present or former mapping.
#[derive(Default)]
struct MappingSlot {
    /// The number of mappings that were held here before.
    generation: u32,
    held: Option<Held>,
}

impl MappingSlot {
    /// Drops the mapping once it is not needed any more.
    fn tidy(&mut self) {
        if self.held.as_ref().is_some_and(|held| held.slices == 0 && !held.current) {
            self.held = None;
            self.generation = self.generation.wrapping_add(1);
        }
    }
}

/// The mappings that one worker serves from. Each has one `Arc` and a plain count of its slices in
/// flight, so that no request touches a shared counter.
#[derive(Default)]
pub struct Mappings {
    places: Vec<MappingSlot>,
}

impl Mappings {
    /// Adds a mapping; responses may use it until [`Self::retire`].
    pub fn add(&mut self, mapping: Arc<Mapping>) -> MappingId {
        let free = self.places.iter().position(|place| place.held.is_none());
        let index = free.unwrap_or_else(|| {
            self.places.push(MappingSlot::default());
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        place.held = Some(Held { mapping, slices: 0, current: true });
        MappingId { index: index as u32, generation: place.generation }
    }

    /// Retires a mapping: no new response uses it, and it is dropped when its last slice has left.
    pub fn retire(&mut self, id: MappingId) {
        self.change(id, |held| held.current = false);
    }

    /// Returns the mapping, while it is current or has slices in flight.
    #[inline]
    pub fn get(&self, id: MappingId) -> Option<&Mapping> {
        let place = self.places.get(id.index as usize)?;
        let held = place.held.as_ref()?;
        (place.generation == id.generation).then_some(&*held.mapping)
    }

    #[inline]
    pub(crate) fn slice_taken(&mut self, id: MappingId) {
        self.change(id, |held| held.slices += 1);
    }

    #[inline]
    pub(crate) fn slice_returned(&mut self, id: MappingId) {
        self.change(id, |held| held.slices -= 1);
    }

    /// Changes the entry of a mapping, unless the mapping has gone.
    #[inline]
    fn change(&mut self, id: MappingId, change: impl FnOnce(&mut Held)) {
        if let Some(place) = self.places.get_mut(id.index as usize)
            && place.generation == id.generation
            && let Some(held) = &mut place.held
        {
            change(held);
            place.tidy();
        }
    }

    fn held(&self) -> impl Iterator<Item = &Held> {
        self.places.iter().filter_map(|place| place.held.as_ref())
    }

    /// Returns the number of slices that wait in output queues.
    #[cfg(feature = "sim")]
    pub(crate) fn slices(&self) -> usize {
        self.held().map(|held| held.slices).sum()
    }

    /// Returns how many mappings are held, for tests and status.
    pub fn len(&self) -> usize {
        self.held().count()
    }

    /// Returns true if no mapping is held.
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
    fn a_retired_mapping_is_freed_with_its_last_slice() {
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
    fn the_id_of_a_freed_mapping_is_not_reused() {
        let map = |bytes| Arc::new(Mapping::new(file_of(bytes), Vec::new()).expect("map"));
        let mut mappings = Mappings::default();
        let old = mappings.add(map(b"old"));
        mappings.retire(old);
        let new = mappings.add(map(b"new"));
        assert!(mappings.get(old).is_none());
        mappings.slice_taken(old);
        mappings.retire(old);
        mappings.slice_returned(old);
        assert_eq!(mappings.get(new).map(Mapping::bytes), Some(&b"new"[..]));
        mappings.retire(new);
        assert!(mappings.is_empty(), "nothing holds it any more");
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

    #[test]
    fn more_mappings_than_the_first_block_guards_survive_a_truncation() {
        guard_lost_pages().expect("handler");
        let files: Vec<File> = (0..150).map(|_| file_of(&[7; 2 * 4096])).collect();
        let map = |file: &File| Mapping::new(file.try_clone().expect("clone"), Vec::new());
        let mappings: Vec<Mapping> = files.iter().map(|file| map(file).expect("map")).collect();
        files[149].set_len(4096).expect("truncate");
        assert_eq!(std::hint::black_box(mappings[149].bytes())[4096], 0);
        let damaged = |mapping: &&Mapping| mapping.is_damaged();
        assert_eq!(mappings.iter().filter(damaged).count(), 1);
        assert!(mappings[149].is_damaged());
    }

    #[test]
    fn a_truncation_within_a_page_is_found_by_a_size_check() {
        let file = file_of(&[7; 4096]);
        let mapping = Mapping::new(file.try_clone().expect("clone"), Vec::new()).expect("map");
        mapping.look_for_truncation();
        assert!(!mapping.is_damaged());
        file.set_len(100).expect("truncate");
        assert_eq!(mapping.bytes()[200], 0, "there is no signal for it");
        mapping.look_for_truncation();
        assert!(mapping.is_damaged());
    }
}
