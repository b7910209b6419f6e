//! The data that a service manager passes to the process that it starts: environment variables, and
//! sockets that are open already (sd_listen_fds(3), sd_notify(3)).
//!
//! It has `unsafe` code because the environment has no lock, and because descriptors come as
//! numbers.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// The number of the first descriptor that is passed (`SD_LISTEN_FDS_START`): those before it are
/// the standard descriptors.
pub const FIRST_DESCRIPTOR: RawFd = 3;

/// Returns the values of variables and removes them from the environment, so that no child process
/// takes them for its own. Call it before the first thread: with other threads, or without `/proc`,
/// the variables stay.
pub fn take_variables<const COUNT: usize>(names: [&str; COUNT]) -> [Option<OsString>; COUNT] {
    let values = names.map(env::var_os);
    let is_any_set = values.iter().any(Option::is_some);
    if is_any_set && has_one_thread() {
        for name in names {
            // SAFETY: this process has one thread, as was checked, and that is here. So nothing
            // reads or changes the environment meanwhile.
            unsafe { env::remove_var(name) };
        }
    }
    values
}

fn has_one_thread() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Returns the descriptors that this process was started with, out of `count` from
/// [`FIRST_DESCRIPTOR`] on, with their numbers. Each is returned once, and from then on closed on
/// execution.
pub fn take_descriptors(count: u16) -> Vec<(RawFd, OwnedFd)> {
    let numbers = (0..RawFd::from(count)).map(|offset| FIRST_DESCRIPTOR + offset);
    numbers.filter_map(|number| Some((number, take_descriptor(number)?))).collect()
}

/// Returns a descriptor if the process was started with it and it was not taken before.
fn take_descriptor(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call takes numbers. One that is no open descriptor is an error.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    // An execution closes descriptors with this flag, and all that Rust opens have it.
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return None;
    }
    // SAFETY: as above; the flag changes nothing until an execution.
    if unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: it is open, and nothing in this process owns it: it was there at the start, as its
    // flags have shown, it is not a standard descriptor, and the flag that was set just now keeps
    // it from being taken twice.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn descriptors_opened_by_this_process_are_not_inherited() {
        let own = File::open("/dev/null").expect("opened");
        let number = own.as_raw_fd();
        assert!(take_descriptor(number).is_none());
        let count = u16::try_from(number + 1).expect("a small number");
        assert!(take_descriptors(count).iter().all(|(taken, _)| *taken != number));
        assert!(own.metadata().is_ok(), "it is open still");
        assert!(take_descriptor(RawFd::MAX).is_none());
    }

    #[test]
    fn a_descriptor_that_outlives_an_execution_is_taken_once() {
        let file = File::open("/dev/null").expect("opened");
        // SAFETY: the call makes a descriptor, which nothing else knows.
        let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, FIRST_DESCRIPTOR) };
        let taken = take_descriptor(number).expect("it is like one of the start");
        assert_eq!(taken.as_raw_fd(), number);
        assert!(take_descriptor(number).is_none());
    }

    /// Tests run on threads of their own.
    #[test]
    fn with_other_threads_variables_are_read_and_kept() {
        let values = take_variables(["PATH", "PINION_TESTS_HAVE_NO_SUCH_VARIABLE"]);
        assert_eq!(values, [env::var_os("PATH"), None]);
        assert!(values[0].is_some());
    }
}
