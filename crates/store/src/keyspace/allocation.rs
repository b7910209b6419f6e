//! What an allocation really takes from the allocator.

/// Bytes that the allocator of glibc keeps before each allocation.
const HEADER_BYTES: usize = 8;
/// Its allocations are multiples of this.
const ALIGNMENT_BYTES: usize = 16;
/// Its smallest allocation.
const SMALLEST_BYTES: usize = 32;

/// Returns how many bytes of memory an allocation of `bytes` takes.
pub(crate) fn allocated_bytes(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    (bytes + HEADER_BYTES).next_multiple_of(ALIGNMENT_BYTES).max(SMALLEST_BYTES)
}
