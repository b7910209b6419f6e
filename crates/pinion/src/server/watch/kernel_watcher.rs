//! The kernel's notices about watched paths, which come from a thread of the library.

use crate::failure::without_number;
use crate::panics;
use notify::{Config, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::io;
use std::mem;
use std::path::Path;
use std::thread;

/// The kernel's notices of changes, which a thread of the library reads.
///
/// The library throws away the failure to start that thread, and panics in every later call, also
/// when it is dropped. Two panics at a time would be the end of the process.
pub(super) struct KernelWatcher(Option<RecommendedWatcher>);

impl KernelWatcher {
    /// Starts the thread, which passes each notice to the handler.
    ///
    /// # Errors
    /// The limit on inotify instances is reached, or the thread cannot be started.
    pub(super) fn start(handler: impl notify::EventHandler) -> notify::Result<Self> {
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = Self(Some(RecommendedWatcher::new(handler, config)?));
        // `configure` is the only call that returns an error instead of panicking when there is no
        // thread.
        if let Some(inner) = &mut watcher.0
            && let Err(error) = inner.configure(Config::default())
        {
            mem::forget(watcher.0.take());
            return Err(error);
        }
        Ok(watcher)
    }

    /// Watches a path.
    ///
    /// # Errors
    /// The path cannot be watched; the reason is one line for people.
    pub(super) fn watch(&mut self, path: &Path, mode: RecursiveMode) -> anyhow::Result<()> {
        self.0.as_mut().map_or(Ok(()), |watcher| watcher.watch(path, mode)).map_err(advice)
    }

    /// Stops watching a path.
    ///
    /// # Errors
    /// The path was not watched, or is gone.
    pub(super) fn unwatch(&mut self, path: &Path) -> notify::Result<()> {
        self.0.as_mut().map_or(Ok(()), |watcher| watcher.unwatch(path))
    }
}

impl Drop for KernelWatcher {
    fn drop(&mut self) {
        let inner = self.0.take();
        if thread::panicking() {
            mem::forget(inner);
        } else {
            panics::survive(|| drop(inner));
        }
    }
}

/// Returns why something cannot be watched, in one line that names it.
fn advice(error: notify::Error) -> anyhow::Error {
    let notify::Error { kind, paths } = error;
    let reason = match kind {
        notify::ErrorKind::MaxFilesWatch => TOO_MANY.to_owned(),
        notify::ErrorKind::Io(cause) if cause.kind() == io::ErrorKind::StorageFull => {
            TOO_MANY.to_owned()
        }
        notify::ErrorKind::Io(cause) => without_number(&cause.to_string()),
        kind => notify::Error::new(kind).to_string(),
    };
    match paths.first() {
        Some(path) => anyhow::anyhow!("{}: {reason}", path.display()),
        None => anyhow::anyhow!("{reason}"),
    }
}

/// The limit of the kernel on watches.
const TOO_MANY: &str = "too many folders; raise the sysctl fs.inotify.max_user_watches";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_errors_are_one_readable_line() {
        let denied = || io::Error::from_raw_os_error(libc::EACCES);
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let watch = |error: notify::Error| error.add_path("site/a".into());
        for (error, expected) in [
            (watch(notify::Error::io(denied())), "site/a: Permission denied"),
            (notify::Error::io(denied()), "Permission denied"),
            (notify::Error::io(full()), TOO_MANY),
            (notify::Error::new(notify::ErrorKind::MaxFilesWatch), TOO_MANY),
            (watch(notify::Error::generic("no reason")), "site/a: no reason"),
        ] {
            assert_eq!(advice(error).to_string(), expected);
        }
    }
}
