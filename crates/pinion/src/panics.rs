//! Panics of a server: one line each, which never blocks on its reader, and threads that outlive
//! them.

use pinion_engine::stderr;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::thread;

/// Sets a hook that writes a panic as one line to standard error, and no reader of it can hold the
/// thread up, as the standard library's own report would. `RUST_BACKTRACE=1` adds where it came
/// from.
pub(crate) fn log_as_lines() {
    panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        let shown = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        stderr::line(format_args!("pinion: {}{shown}", format_panic(panic)));
    }));
}

fn format_panic(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("no message");
    format!("thread {name} panicked{place}: {message}")
}

/// Runs one step of a thread that survives panics: a panic in the step is logged by the hook, and
/// the next step follows.
pub(crate) fn survive(step: impl FnOnce()) {
    // Half-done work of the step is its own; the hook has logged the panic.
    let _logged = catch_unwind(AssertUnwindSafe(step));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_continues_after_a_panic() {
        let mut steps = 0;
        for step in 0..3 {
            survive(|| {
                steps += 1;
                assert_ne!(step, 1, "the second one");
            });
        }
        assert_eq!(steps, 3);
    }
}
