//! The names in a release folder, and the check of which folders are one or may become one.

use super::id::Id;
use crate::failure::Failure;
use anyhow::{Context as _, anyhow};
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Component, Path, PathBuf};

/// The link to the release that is served.
pub(crate) const CURRENT: &str = "current.pinion";
/// Where the releases lie.
const RELEASES: &str = "releases";
/// One line for each switch.
const LOG: &str = "log";
/// Locked while a switch is made.
const LOCK: &str = ".lock";

/// A release folder, or a folder that is to become one.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseFolder(PathBuf);

impl ReleaseFolder {
    /// Opens the folder at a path that is a release folder already.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if is_release_folder(path) {
            return Ok(Self(path.to_owned()));
        }
        let why = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                "is not a release folder; `pinion publish` creates one".to_owned()
            }
            Ok(_) => "is not a folder; `pinion publish` creates a release folder".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "does not exist; `pinion publish` creates it".to_owned()
            }
            Err(error) => format!("cannot be read: {error}"),
        };
        Err(anyhow!("{} {why}", path.display()).into())
    }

    /// Opens the folder at a path, which is made if it is new, and synced as far as it was made
    /// here.
    ///
    /// # Errors
    /// It is a folder with something else in it, or cannot be made.
    pub(crate) fn open_or_make(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let folder = Self(path.to_owned());
        match fs::create_dir(path) {
            Ok(()) => sync_folder_of(path).with_context(|| format!("cannot sync {shown}"))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
                folder.refuse_other_use()?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(
                    anyhow!("cannot make {shown}: the folder above it does not exist").into()
                );
            }
            Err(error) => {
                return Err(anyhow!(error).context(format!("cannot make {shown}")).into());
            }
        }
        let releases = folder.releases();
        match fs::create_dir(&releases) {
            Ok(()) => sync(path).with_context(|| format!("cannot sync {shown}"))?,
            Err(_) if releases.is_dir() => {}
            Err(error) => {
                let shown = releases.display();
                return Err(anyhow!(error).context(format!("cannot make {shown}")).into());
            }
        }
        Ok(folder)
    }

    /// Refuses a folder that is in other use. A site that is served as a folder must not turn into
    /// a release folder by mistake: only a folder that is empty, or has been a release folder, is
    /// accepted. Hidden files and the files that a file system keeps at its root do not count.
    fn refuse_other_use(&self) -> Result<(), Failure> {
        let shown = self.0.display();
        if is_release_folder(&self.0) {
            return Ok(());
        }
        let entries = fs::read_dir(&self.0).with_context(|| format!("cannot read {shown}"))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {shown}"))?;
            let name = entry.file_name();
            let is_ours = match name.to_str() {
                Some(RELEASES) => holds_releases_alone(&entry.path()),
                Some(LOG | "lost+found") => true,
                Some(name) => name.starts_with('.'),
                None => false,
            };
            if !is_ours {
                let name = name.to_string_lossy().into_owned();
                return Err(anyhow!(
                    "{shown} holds something else already ({name}); give a new or empty folder"
                )
                .into());
            }
        }
        Ok(())
    }

    /// Returns its path, as written.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the link.
    pub(crate) fn current_link(&self) -> PathBuf {
        self.0.join(CURRENT)
    }

    /// Returns the release that the link names; `None` before the first release.
    pub(crate) fn current(&self) -> Option<Id> {
        current_of(&self.0)
    }

    /// Returns the folder of the releases.
    pub(crate) fn releases(&self) -> PathBuf {
        self.0.join(RELEASES)
    }

    /// Returns the path of a release's file.
    pub(crate) fn file(&self, id: &Id) -> PathBuf {
        self.releases().join(id.file_name())
    }

    /// Returns the target of the link for a release: relative, so that the folder can be moved.
    pub(crate) fn target(id: &Id) -> PathBuf {
        Path::new(RELEASES).join(id.file_name())
    }

    /// Returns the path of the log.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    /// Returns the path of the file that is locked.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }
}

/// Returns whether a path is a release folder: beside a folder `releases` there is a link
/// `current.pinion` that leads to a release in it by the very words that a switch writes. A site
/// that happens to have files of these names is none.
pub(crate) fn is_release_folder(path: &Path) -> bool {
    current_of(path).is_some() && path.join(RELEASES).is_dir()
}

/// Returns whether a folder that is served as it is becomes a release folder: the first release is
/// there, and the link not yet.
pub(crate) fn becomes_release_folder(path: &Path) -> bool {
    let releases = path.join(RELEASES);
    let is_release = |entry: io::Result<DirEntry>| {
        entry.is_ok_and(|entry| Id::of_file(&entry.file_name()).is_some())
    };
    let has_one = || fs::read_dir(&releases).is_ok_and(|mut entries| entries.any(is_release));
    has_one() && holds_releases_alone(&releases)
}

fn current_of(path: &Path) -> Option<Id> {
    let target = fs::read_link(path.join(CURRENT)).ok()?;
    let mut components = target.components();
    let (first, second) = (components.next()?, components.next()?);
    let (Component::Normal(folder), Component::Normal(file)) = (first, second) else {
        return None;
    };
    (folder == RELEASES && components.next().is_none()).then(|| Id::of_file(file))?
}

/// Returns whether all files of a folder are releases, or on their way to become one.
fn holds_releases_alone(path: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(path) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name();
            Id::of_file(&name).is_some() || name.as_encoded_bytes().starts_with(b".")
        })
    })
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| *above != Path::new(""));
    sync(above.unwrap_or(Path::new(".")))
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder that is gone when its test is over.
    pub(in super::super) struct Scratch(pub(in super::super) PathBuf);

    impl Scratch {
        pub(in super::super) fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("pinion-releases-{process}-{number}"));
            fs::create_dir_all(&path).expect("a temporary folder");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _left_for_the_system = fs::remove_dir_all(&self.0);
        }
    }

    pub(in super::super) fn id(digit: char) -> Id {
        Id::parse(&digit.to_string().repeat(64)).expect("a digest")
    }

    #[test]
    fn only_a_link_written_by_a_switch_makes_a_release_folder() {
        let own = format!("releases/{}", id('a').file_name());
        let elsewhere = format!("/tmp/releases/{}", id('a').file_name());
        let deeper = format!("releases/x/{}", id('a').file_name());
        for (target, is_one) in [
            (own.as_str(), true),
            (&elsewhere, false),
            (&deeper, false),
            ("releases/site.pinion", false),
            ("../releases", false),
        ] {
            let scratch = Scratch::new();
            symlink(target, scratch.0.join(CURRENT)).expect("a link");
            assert!(!is_release_folder(&scratch.0), "without a folder: {target}");
            fs::create_dir(scratch.0.join(RELEASES)).expect("made");
            assert_eq!(is_release_folder(&scratch.0), is_one, "{target}");
        }
        // Files of these names are content of a site.
        let scratch = Scratch::new();
        fs::create_dir(scratch.0.join(RELEASES)).expect("made");
        fs::write(scratch.0.join(CURRENT), "x").expect("written");
        assert!(!is_release_folder(&scratch.0));
    }

    #[test]
    fn a_folder_with_other_content_does_not_become_a_release_folder() {
        let scratch = Scratch::new();
        for name in [".hidden", LOG, "lost+found"] {
            fs::write(scratch.0.join(name), "").expect("written");
        }
        assert!(ReleaseFolder::open_or_make(&scratch.0).is_ok());
        fs::write(scratch.0.join("releases/.x.1-0.tmp"), "").expect("written");
        assert!(ReleaseFolder::open_or_make(&scratch.0).is_ok());
        fs::write(scratch.0.join("releases/index.html"), "").expect("written");
        let failure = ReleaseFolder::open_or_make(&scratch.0).expect_err("refused");
        assert!(failure.reason().expect("a reason").contains("(releases)"));
        let below = scratch.0.join("none/below");
        let failure = ReleaseFolder::open_or_make(&below).expect_err("refused");
        assert!(failure.reason().expect("a reason").contains("above it does not exist"));
    }
}
