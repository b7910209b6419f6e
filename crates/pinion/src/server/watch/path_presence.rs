//! Tracks whether a watched path exists, and logs when it does not.

use crate::warnings_and_notes;
use std::path::{Path, PathBuf};

/// The role of a watched path for a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchedKind {
    /// It is served.
    Site,
    /// It has the passwords of users, and is never served.
    PasswordFile,
}

/// A watched path, and whether it has led nowhere for longer than a replacement of its target
/// takes.
pub(super) struct Presence {
    kind: WatchedKind,
    path: PathBuf,
    is_gone: bool,
}

/// A change of the presence of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PresenceChange {
    Gone,
    Back,
}

impl Presence {
    /// Makes that of a path that leads somewhere.
    pub(super) fn new(kind: WatchedKind, path: &Path) -> Self {
        Self { kind, path: path.to_owned(), is_gone: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Logs once that the path leads nowhere, and once that it leads somewhere again. Returns
    /// whether it is back. `noticed` says that something has just changed.
    pub(super) fn report(&mut self, is_there: bool, noticed: bool) -> bool {
        let change = self.update(is_there, noticed);
        match change {
            Some(PresenceChange::Gone) => warnings_and_notes::warning(self.gone_line()),
            Some(PresenceChange::Back) => {
                warnings_and_notes::note(format_args!("{} is back", self.path.display()));
            }
            None => {}
        }
        change == Some(PresenceChange::Back)
    }

    fn update(&mut self, is_there: bool, noticed: bool) -> Option<PresenceChange> {
        let was_gone = self.is_gone;
        // A file that is missing right after a notice is most likely being replaced.
        self.is_gone = !is_there && (was_gone || !noticed);
        match (was_gone, self.is_gone) {
            (false, true) => Some(PresenceChange::Gone),
            (true, false) => Some(PresenceChange::Back),
            _ => None,
        }
    }

    fn gone_line(&self) -> String {
        let path = self.path.display();
        let gone = "is gone (deleted, renamed or unmounted)";
        match self.kind {
            WatchedKind::Site => format!(
                "{path} {gone}, keeping the previous version; it is served again when it is back"
            ),
            WatchedKind::PasswordFile => format!(
                "password file {path} {gone}, keeping its previous users; it is read again when \
                 it is back"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_and_return_are_reported_once() {
        let mut file = Presence::new(WatchedKind::PasswordFile, Path::new("users"));
        assert_eq!(file.update(true, false), None);
        assert_eq!(file.update(false, true), None, "it is being replaced");
        assert_eq!(file.update(false, false), Some(PresenceChange::Gone));
        assert_eq!(file.update(false, true), None);
        assert_eq!(file.update(true, true), Some(PresenceChange::Back));
        assert_eq!(file.update(true, false), None);
    }

    #[test]
    fn only_the_message_about_a_site_mentions_serving() {
        let line = |kind| Presence::new(kind, Path::new("a")).gone_line();
        assert!(line(WatchedKind::Site).contains("it is served again"));
        let file = line(WatchedKind::PasswordFile);
        assert!(file.starts_with("password file a is gone"), "{file}");
        assert!(!file.contains("served"), "{file}");
    }
}
