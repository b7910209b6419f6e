//! Prefetching: loads memory that will be read soon into the cache of the processor while other
//! work goes on.

#![allow(unsafe_code, reason = "a prefetch is an instruction of the processor")]

/// Size of a cache line in bytes.
const LINE_BYTES: usize = 64;

/// Prefetches a value that is not longer than a cache line.
#[inline]
pub(crate) fn prefetch_one<T>(one: &T) {
    fetch_line(std::ptr::from_ref(one).cast());
}

/// Prefetches the first bytes of a slice, as many as a short record has.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    fetch_line(bytes.as_ptr());
    if bytes.len() > LINE_BYTES / 2 {
        // The slice may begin near the end of a cache line.
        fetch_line(bytes.as_ptr().wrapping_add(bytes.len().min(LINE_BYTES) - 1));
    }
}

/// Prefetches a value that may be longer than a cache line, but not twice as long.
#[inline]
pub(crate) fn prefetch_two<T>(two: &T) {
    let at = std::ptr::from_ref(two).cast::<u8>();
    fetch_line(at);
    fetch_line(at.wrapping_add(size_of::<T>() - 1));
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_line(at: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch changes nothing that the program sees, and cannot fail at any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch_line(_at: *const u8) {}
