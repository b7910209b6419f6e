//! Whether this process may run what it has written itself, as compilers at run time do. systemd's
//! `MemoryDenyWriteExecute`, `PR_SET_MDWE`, SELinux and some containers forbid it.

use std::io;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Asks the kernel by doing it: maps memory, makes it executable, and writable again.
///
/// # Errors
/// The kernel's reason for refusing one of these steps.
pub fn probe() -> io::Result<()> {
    let bytes = rustix::param::page_size();
    let writable = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, to which nothing refers.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, writable, MapFlags::PRIVATE)? };
    let executable = MprotectFlags::READ | MprotectFlags::EXEC;
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the mapping made above, whole; nobody reads, writes or runs it.
    let outcome = unsafe {
        mprotect(mapped, bytes, executable).and_then(|()| mprotect(mapped, bytes, writable))
    };
    // SAFETY: the mapping made above, whole; nothing refers to it.
    unsafe { munmap(mapped, bytes)? };
    Ok(outcome?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_probe_leaves_no_mapping_behind() {
        let mappings =
            || std::fs::read_to_string("/proc/self/maps").expect("the list").lines().count();
        // The answer is the machine's.
        let _first = super::probe();
        let before = mappings();
        for _ in 0..1000 {
            let _again = super::probe();
        }
        // Other tests of this program may map something meanwhile, but not for each of ours.
        assert!(mappings() < before + 500);
    }
}
