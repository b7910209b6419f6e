//! The release of memory that a finished piece of work leaves behind.
//!
//! A server that builds a folder at its start runs the compressors once and then never again, yet
//! their heap and the pages of their code would stay resident for its whole life (measured: 2.6 of
//! 7.4 MiB); so would the relocations and tables that only a start reads. After [`release_heap`]
//! and [`release_code`] only the memory that serving uses comes back.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Gives the pages of code and constants that were read from the program's file back to the system.
/// Pages that are needed again are mapped again from the page cache, without reading the disk while
/// the system has memory to spare. The call never fails: pages that cannot be given back stay.
pub fn release_code() {
    // SAFETY: `drop_pages` matches the required signature, does not unwind, and gets no data; the
    // loader's list of objects is valid while it runs.
    unsafe {
        libc::dl_iterate_phdr(Some(drop_pages), ptr::null_mut());
    }
}

/// Gives free heap memory back to the system.
#[cfg(target_env = "gnu")]
pub fn release_heap() {
    // SAFETY: without conditions; a pad of 0 bytes gives all free memory back.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does nothing: other allocators give memory back on their own.
#[cfg(not(target_env = "gnu"))]
pub fn release_heap() {}

/// Drops the resident pages of the segments of one loaded object that cannot be written. The
/// targets of relocations are in writable segments (also the part that is protected later), and
/// stay as they are.
///
/// # Safety
/// `info` points to a description of a loaded object, as `dl_iterate_phdr` gives it.
unsafe extern "C" fn drop_pages(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut c_void,
) -> c_int {
    let page_bytes = rustix::param::page_size();
    // SAFETY: valid by this function's condition.
    let object = unsafe { &*info };
    // SAFETY: the loader's table has that many headers and lives as long as the object.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for header in headers {
        let is_dropped = header.p_type == libc::PT_LOAD
            && header.p_flags & libc::PF_W == 0
            && header.p_filesz > 0;
        if !is_dropped {
            continue;
        }
        let first = (object.dlpi_addr + header.p_vaddr) as usize;
        let start = first / page_bytes * page_bytes;
        let bytes = first - start + header.p_filesz as usize;
        // SAFETY: the pages are a private mapping of a file that nothing has written to (the
        // segment is not writable, and position-independent code has no relocations in such), so
        // the pages that are mapped again are the same.
        unsafe {
            libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED);
        }
    }
    0
}
