//! Waits for changes of what is served and calls back: a folder when anything in it changes, an
//! archive when another file takes its name.
//!
//! The kernel's notices only say that it is time to look. Changes come in bursts (an editor saves
//! by three renames, a deployment copies thousands of files), so a call waits until it has been
//! quiet for a moment. Notices can also be missed: the folder itself is replaced, a link on the way
//! to it is switched, a network disk sends none. Therefore the watched path is looked at every two
//! seconds as well, and watched anew when it leads somewhere else.

use crate::source::Source;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use pinion_engine::stderr;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Quiet for this long means the burst is over.
const QUIET: Duration = Duration::from_millis(150);

/// A burst that never ends is interrupted by a call this often.
const BURST_MAX: Duration = Duration::from_secs(2);

/// How often the path is looked at without any notice.
const LOOK: Duration = Duration::from_secs(2);

/// Starts watching on a thread of its own, for as long as the program runs.
///
/// # Errors
/// The system's limit on watches is reached, or there is no thread.
pub(crate) fn start(
    source: &Source,
    on_change: impl FnMut() + Send + 'static,
) -> anyhow::Result<()> {
    let (notices, inbox) = mpsc::channel();
    let target = Target::new(source);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // An error means that notices were lost: time to look as well.
        if event.is_ok_and(|event| !tells_change(&event)) {
            return;
        }
        // Nobody listens any more when the program ends.
        let _ended = notices.send(());
    })?;
    let mut watch = Watch { seen: target.look(), target, watcher, inbox, armed: None };
    watch.arm()?;
    thread::Builder::new().name("watch".to_owned()).spawn(move || watch.run(on_change))?;
    Ok(())
}

struct Watch {
    target: Target,
    watcher: RecommendedWatcher,
    inbox: Receiver<()>,
    /// What the path led to at the last call.
    seen: Look,
    /// The folder that is watched, by device and inode.
    armed: Option<(u64, u64)>,
}

impl Watch {
    fn run(mut self, mut on_change: impl FnMut()) {
        loop {
            let noticed = match self.inbox.recv_timeout(LOOK) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if noticed {
                self.wait_for_quiet();
            }
            let moved = self.rearm();
            let look = self.target.look();
            let changed = match &self.target {
                Target::Folder(_) => noticed || moved,
                Target::Archive { .. } => look != self.seen,
            };
            // A path that leads nowhere is being replaced; the next look finds what comes.
            if changed && look.is_some() {
                self.seen = look;
                on_change();
            }
        }
    }

    /// Swallows notices until none has come for a moment, or the burst has lasted too long.
    fn wait_for_quiet(&mut self) {
        let began = Instant::now();
        while began.elapsed() < BURST_MAX {
            if self.inbox.recv_timeout(QUIET).is_err() {
                return;
            }
        }
    }

    /// Watches anew when the watched folder is another one than before; true when it is.
    fn rearm(&mut self) -> bool {
        let folder = self.target.folder();
        match folder.metadata().map(|metadata| (metadata.dev(), metadata.ino())) {
            Ok(now) if self.armed != Some(now) => {
                // What is watched may be gone already; that is why we are here.
                let _gone = self.watcher.unwatch(folder);
                if let Err(error) = self.arm() {
                    stderr::line(format_args!(
                        "pinion: cannot watch {}: {error}",
                        self.target.folder().display()
                    ));
                }
                true
            }
            _ => false,
        }
    }

    fn arm(&mut self) -> anyhow::Result<()> {
        let folder = self.target.folder();
        let metadata = folder.metadata()?;
        self.watcher.watch(folder, self.target.mode()).map_err(advice)?;
        self.armed = Some((metadata.dev(), metadata.ino()));
        Ok(())
    }
}

/// What is watched.
enum Target {
    Folder(PathBuf),
    /// The folder that holds the archive is watched: a watch on the file would stay with the old
    /// file when another one takes its name.
    Archive {
        file: PathBuf,
        folder: PathBuf,
    },
}

/// What tells one file from another that took its name: device, inode, length, modification time.
type Look = Option<(u64, u64, u64, i64, i64)>;

impl Target {
    fn new(source: &Source) -> Self {
        match source {
            Source::Folder(path) => Self::Folder(path.clone()),
            Source::Archive(file) => {
                let folder = file.parent().filter(|folder| *folder != Path::new(""));
                let folder = folder.unwrap_or(Path::new(".")).to_owned();
                Self::Archive { file: file.clone(), folder }
            }
        }
    }

    fn folder(&self) -> &Path {
        match self {
            Self::Folder(folder) | Self::Archive { folder, .. } => folder,
        }
    }

    fn mode(&self) -> RecursiveMode {
        match self {
            Self::Folder(_) => RecursiveMode::Recursive,
            Self::Archive { .. } => RecursiveMode::NonRecursive,
        }
    }

    fn look(&self) -> Look {
        let path = match self {
            Self::Folder(folder) => folder,
            Self::Archive { file, .. } => file,
        };
        path.metadata()
            .ok()
            .map(|of: Metadata| (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec()))
    }
}

/// Reading a folder to build it is noticed too, and must not start the next build.
fn tells_change(event: &notify::Event) -> bool {
    let ended_writing = notify::event::AccessKind::Close(notify::event::AccessMode::Write);
    match event.kind {
        EventKind::Access(access) => access == ended_writing,
        _ => true,
    }
}

fn advice(error: notify::Error) -> anyhow::Error {
    let no_watches_left = match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(cause) => cause.kind() == io::ErrorKind::StorageFull,
        _ => false,
    };
    match no_watches_left {
        true => anyhow::anyhow!("too many folders; raise the sysctl fs.inotify.max_user_watches"),
        false => error.into(),
    }
}
