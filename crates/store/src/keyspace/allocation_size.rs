//! Computes the memory that the allocator really uses for an allocation.

/// Number of bytes of the header that the allocator of glibc keeps before each allocation.
const HEADER_BYTES: usize = 8;
/// The size of each allocation is a multiple of this number of bytes.
const ALIGNMENT_BYTES: usize = 16;
/// Size of the smallest allocation, in bytes.
const SMALLEST_BYTES: usize = 32;

/// Returns the bytes of memory that an allocation of `bytes` really uses.
pub(crate) fn allocated_bytes(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    (bytes + HEADER_BYTES).next_multiple_of(ALIGNMENT_BYTES).max(SMALLEST_BYTES)
}
