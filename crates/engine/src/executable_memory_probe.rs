//! A check whether this process may execute code that it has written itself, as compilers at run
//! time do. systemd's `MemoryDenyWriteExecute`, `PR_SET_MDWE`, SELinux and some containers forbid
//! it.

use std::io;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Checks it by trying: maps memory, makes it executable, and writable again.
///
/// # Errors
/// Returns the kernel's error for one of these steps.
pub fn probe() -> io::Result<()> {
    let bytes = rustix::param::page_size();
    let writable = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, to which nothing refers.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, writable, MapFlags::PRIVATE)? };
    let executable = MprotectFlags::READ | MprotectFlags::EXEC;
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the mapping made above, whole; it is neither read, written nor executed.
    let outcome = unsafe {
        mprotect(mapped, bytes, executable).and_then(|()| mprotect(mapped, bytes, writable))
    };
    // SAFETY: the mapping made above, whole; nothing refers to it.
    unsafe { munmap(mapped, bytes)? };
    Ok(outcome?)
}

#[cfg(test)]
mod tests {
    /// Returns the number of pages of this process' address space (proc(5), statm).
    fn mapped_pages() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
        statm.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number")
    }

    #[test]
    fn the_probe_leaves_no_mapping_behind() {
        const PROBES: u64 = 1000;
        // The result depends on the machine.
        let _first = super::probe();
        let before = mapped_pages();
        for _ in 0..PROBES {
            let _again = super::probe();
        }
        assert!(mapped_pages() < before + PROBES / 2);
    }
}
