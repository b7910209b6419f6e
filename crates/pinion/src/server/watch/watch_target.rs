//! The target of a watch: a served folder, or an archive and the password files of its site.

use super::watched_tree::{Scope, Watches};
use crate::build_options;
use crate::failure::Failure;
use crate::served_source::ServedSource;
use crate::server::path_state::{Look, look};
use crate::settings::BuildSettings;
use notify::RecursiveMode;
use pinion_builder::{NameFilter, WalkedSite};
use std::path::{Path, PathBuf};

/// The target of a watch.
pub(super) enum WatchTarget {
    Folder(Box<Scope>),
    /// The folder that holds the archive is watched: a watch on the file would stay with the old
    /// file when another one takes its name.
    Archive {
        file: PathBuf,
        folder: PathBuf,
        /// The password files of the site.
        password_files: Vec<WatchedPasswordFile>,
    },
}

/// A password file of a site, outside of its archive.
pub(super) struct WatchedPasswordFile {
    path: PathBuf,
    /// Its state before the last load.
    seen: Look,
}

impl WatchedPasswordFile {
    fn new(path: PathBuf) -> Self {
        Self { seen: look(&path), path }
    }

    /// Returns whether it is another one than before. One that is gone is being replaced.
    pub(super) fn has_changed(&self) -> bool {
        let now = look(&self.path);
        now.is_some() && now != self.seen
    }
}

impl WatchTarget {
    /// Makes the target of a source that is built in this way, with the password files of its
    /// site.
    ///
    /// # Errors
    /// An exclusion pattern is not valid.
    pub(super) fn new(
        source: &ServedSource,
        content: &BuildSettings,
        password_files: &[&Path],
    ) -> Result<Self, Failure> {
        let mut watched =
            password_files.iter().map(|path| WatchedPasswordFile::new(path.to_path_buf()));
        // Of a site without files the password files are all that can change.
        let file = match source {
            ServedSource::Upstream(_) => watched.next().map(|file| file.path),
            _ => source.file(),
        };
        Ok(match file {
            None => {
                let names = NameFilter::new(&content.exclude, &content.include);
                let names = names.map_err(build_options::failure)?.without_live(&content.live);
                let named = content.rules.iter().chain(&content.fields).map(PathBuf::as_path);
                let rules = named.chain(password_files.iter().copied());
                let rules: Result<_, _> = rules.map(std::path::absolute).collect();
                let rules = rules.map_err(|error| Failure::Failed(error.into()))?;
                Self::Folder(Scope::new(source.path(), names, rules).into())
            }
            Some(file) => {
                Self::Archive { folder: folder_of(&file), file, password_files: watched.collect() }
            }
        })
    }

    /// Returns the path of the served source.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Folder(scope) => scope.source(),
            Self::Archive { file, .. } => file,
        }
    }

    /// Returns the paths to watch now.
    pub(super) fn watches(&self) -> Watches {
        match self {
            Self::Folder(scope) => scope.watches(),
            Self::Archive { folder, password_files, .. } => {
                let password_files = password_files.iter().map(|file| folder_of(&file.path));
                let folders = password_files.chain([folder.clone()]);
                folders.map(|folder| (folder, RecursiveMode::NonRecursive)).collect()
            }
        }
    }

    /// Returns whether a path concerns the target. Of the folder of an archive everything does: a
    /// look at the archive decides.
    pub(super) fn concerns(&self, path: &Path) -> bool {
        match self {
            Self::Folder(scope) => scope.concerns(path),
            Self::Archive { .. } => true,
        }
    }

    /// Stores the paths that the walk of a build has met; returns whether something matters now
    /// that did not before.
    pub(super) fn take_walked(&mut self, walked: WalkedSite) -> bool {
        match self {
            Self::Folder(scope) => scope.take_walked(walked),
            Self::Archive { .. } => false,
        }
    }

    /// Resolves the real paths of all parts anew.
    pub(super) fn resolve(&mut self) {
        match self {
            Self::Folder(scope) => scope.resolve(),
            Self::Archive { .. } => {}
        }
    }

    /// Returns whether the source or a link leads somewhere else than before the last build.
    pub(super) fn has_moved(&mut self) -> bool {
        match self {
            Self::Folder(scope) => scope.has_moved(),
            Self::Archive { .. } => false,
        }
    }

    /// Records the state at the beginning of a build.
    pub(super) fn record_state(&mut self) {
        match self {
            Self::Folder(scope) => scope.record_state(),
            Self::Archive { password_files, .. } => {
                password_files.iter_mut().for_each(|file| file.seen = look(&file.path));
            }
        }
    }
}

/// Returns the folder that holds a file.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new(".")).to_owned()
}
