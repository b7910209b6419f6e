//! Live files: those of folders that are read for each request, because applications write them
//! while the site is served (docs/live-folders.md).
//!
//! A folder is opened when its site is loaded, one below the folder of the site by way of that
//! folder. The kernel looks each path up below the opened folder (`openat2`, Linux 5.6), with the
//! rules of `pinion_jobs::confined_folders`: nothing leads out, and no link is followed, even if
//! other processes rename files meanwhile. The look-up happens on the worker, which waits for the
//! disk if the kernel has not cached the folders of the path; so does the sending of content that
//! is not cached.
//!
//! | Module | Decides |
//! |---|---|
//! | `withheld_names` | which names are never served |
//! | `open_file_limit` | how many files may be open at once |
//! | `file_content` | which part of a file is in memory while it is sent |
//! | `limits` | every limit with its reason |

mod file_content;
pub(crate) mod limits;
mod open_file_limit;
mod withheld_names;

use crate::settings::{LiveFolder, LiveFolderLocation};
use limits::{LIVE_COMPRESS_MAX_BYTES, LIVE_PATH_MAX_BYTES, SETTLED_AFTER_SECONDS};
use pinion_builder::{NameFilter, file_type};
use pinion_engine::limits::ENCODE_MIN_BYTES;
use pinion_http::date::UnixSeconds;
use pinion_http::media_type::is_compressible;
use pinion_http::request_target::{decode_path, escape, is_path_byte};
use pinion_site::live_file::LiveFile;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use withheld_names::{NameVerdict, WithheldNames};

pub(crate) use file_content::{FileContent, range_boundary};
pub(crate) use open_file_limit::{OpenLiveFiles, live_files_max};

/// The name of the file that responds for a folder.
pub(crate) const INDEX: &[u8] = b"index.html";

/// The type of a file whose extension is not known. Its content is not looked at: a browser must
/// not run an upload of a visitor as another type.
pub(crate) const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The live files of one generation of a site.
pub(crate) struct LiveFiles {
    /// The one with the longest path in URLs first.
    folders: Vec<OpenFolder>,
    names: WithheldNames,
    settings: LiveFileSettings,
    pub(crate) open: OpenLiveFiles,
}

/// The settings for the responses of live files.
#[derive(Clone, Debug)]
pub(crate) struct LiveFileSettings {
    /// The value of `Cache-Control`, if there is one before rules.
    pub(crate) cache_control: Option<String>,
    /// An index file responds for its folder.
    pub(crate) serves_index: bool,
    /// A folder with an index file leads to its path with a slash.
    pub(crate) redirects_slashes: bool,
}

struct OpenFolder {
    /// The path, as in [`LiveFolder::url_path`].
    url_path: Box<[u8]>,
    root: OwnedFd,
    /// The folder, below `root`; empty for `root` itself.
    below_root: Box<[u8]>,
    /// The path of the folder for messages.
    path: PathBuf,
}

/// The result of a look-up of a path among the live files.
#[derive(Debug)]
pub(crate) enum LiveOutcome {
    /// No file: the other parts of the site respond.
    Nothing,
    /// A file.
    File(OpenLiveFile),
    /// A folder with an index file, named without its slash.
    SlashRedirect,
    /// The name is never served: status 404.
    Withheld,
    /// The file is there and cannot be read.
    Failed(LiveFailure),
}

/// The reason why a live file cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LiveFailure {
    pub(crate) status: u16,
    path: PathBuf,
    error: Errno,
}

/// A regular file that is open.
#[derive(Debug)]
pub(crate) struct OpenLiveFile {
    pub(crate) file: Arc<File>,
    /// Its decoded path in URLs.
    pub(crate) path: Vec<u8>,
    /// The escaped path, if it was found as the index of its folder.
    pub(crate) location: Option<Vec<u8>>,
    pub(crate) media_type: String,
    pub(crate) stamp: FileStamp,
}

/// The identity and state of a file when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) bytes: u64,
    pub(crate) modified: UnixSeconds,
    /// Nanoseconds of the second.
    modified_ns: u64,
}

impl LiveFiles {
    /// Opens the folders of a site, whose own folder is at `site`, if it has one. `names` are the
    /// rules of its builds about names, `extensions` the extensions of its mounts.
    ///
    /// # Errors
    /// The folder that cannot be opened, and why.
    pub(crate) fn open<'e>(
        named: &[LiveFolder],
        site: Option<&Path>,
        names: NameFilter,
        extensions: impl Iterator<Item = &'e str>,
        settings: LiveFileSettings,
    ) -> Result<Self, String> {
        let mut folders = Vec::new();
        for folder in named {
            folders.push(OpenFolder::open(folder, site)?);
        }
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.url_path.len()));
        let names = WithheldNames::new(names, extensions);
        Ok(Self { folders, names, settings, open: OpenLiveFiles::default() })
    }

    /// Checks that a folder can be opened.
    ///
    /// # Errors
    /// The reason why it cannot be served.
    pub(crate) fn check(folder: &LiveFolder, site: Option<&Path>) -> Result<(), String> {
        OpenFolder::open(folder, site).map(drop)
    }

    /// Returns where the file with a decoded path in URLs is on the disk.
    pub(crate) fn disk_path(&self, path: &[u8]) -> Option<PathBuf> {
        let mut folders = self.folders.iter();
        let (folder, rest) = folders.find_map(|folder| Some((folder, folder.rest(path)?)))?;
        let below = rest.strip_prefix(b"/").unwrap_or(rest);
        Some(folder.path.join(String::from_utf8_lossy(below).as_ref()))
    }

    /// Returns whether a decoded path is in one of the folders.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        self.folders.iter().any(|folder| folder.rest(path).is_some())
    }

    /// Returns whether there is a file for a decoded path.
    pub(crate) fn has_file(&self, path: &[u8]) -> bool {
        matches!(self.find(path), LiveOutcome::File(_))
    }

    /// Returns whether nothing else responds to the path of a request, as the client has sent it.
    pub(crate) fn responses(&self, path: &[u8]) -> bool {
        let mut decoded = Vec::new();
        let path = decode_path(path, &mut decoded);
        path.is_ok_and(|path| !matches!(self.find(path), LiveOutcome::Nothing))
    }

    /// Returns the result for the decoded path of a request.
    pub(crate) fn find(&self, path: &[u8]) -> LiveOutcome {
        let found = self.folders.iter().find_map(|folder| Some((folder, folder.rest(path)?)));
        let Some((folder, rest)) = found else { return LiveOutcome::Nothing };
        if !is_clean(rest) {
            return LiveOutcome::Nothing;
        }
        match self.names.verdict(path) {
            NameVerdict::Serve => {}
            NameVerdict::PassOn => return LiveOutcome::Nothing,
            NameVerdict::Withhold => return LiveOutcome::Withheld,
        }
        let is_folder = rest.is_empty() && folder.url_path.is_empty() || rest.ends_with(b"/");
        let index = || if is_folder { path.to_vec() } else { [path, b"/"].concat() };
        let index = || [&index(), INDEX].concat();
        if is_folder {
            return if self.settings.serves_index {
                folder.file(index(), true)
            } else {
                LiveOutcome::Nothing
            };
        }
        match folder.look_up(rest) {
            Ok((_, stat)) if is_directory(&stat) => {}
            Ok(opened) => return folder.opened(opened, path.to_vec(), false),
            Err(error) => return folder.failed(error, rest),
        }
        let leads_to_index = self.settings.serves_index && self.settings.redirects_slashes;
        match leads_to_index.then(|| folder.file(index(), true)) {
            Some(LiveOutcome::File(_)) => LiveOutcome::SlashRedirect,
            _ => LiveOutcome::Nothing,
        }
    }
}

/// Returns whether a path below a folder, with the slash in front, can be that of a file: it has no
/// empty and no dot segments, no backslash and no control characters.
fn is_clean(rest: &[u8]) -> bool {
    let below = rest.strip_prefix(b"/").unwrap_or(rest);
    let below = below.strip_suffix(b"/").unwrap_or(below);
    let is_segment = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
    rest.len() <= LIVE_PATH_MAX_BYTES
        && !rest.starts_with(b"//")
        && (below.is_empty() || below.split(|&byte| byte == b'/').all(is_segment))
        && rest.iter().all(|byte| *byte != b'\\' && !byte.is_ascii_control())
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

impl OpenFolder {
    fn open(folder: &LiveFolder, site: Option<&Path>) -> Result<Self, String> {
        let url_path = folder.url_path.as_bytes().into();
        let (root, below_root, path) = match (&folder.at, site) {
            (LiveFolderLocation::Elsewhere(path), _) => (path.clone(), "", path.clone()),
            (LiveFolderLocation::InSite(below), Some(site)) => {
                (site.to_owned(), below.as_str(), folder.at.path(site))
            }
            (LiveFolderLocation::InSite(_), None) => {
                return Err(format!(
                    "the live folder {folder} has no site folder that it could lie in; name the \
                     path in URLs and the folder, as in /media=/srv/app/media"
                ));
            }
        };
        let shown = path.display().to_string();
        let why = |error: Errno| match error {
            Errno::NOENT => "does not exist; create it, or remove it from live".to_owned(),
            Errno::NOTDIR => "is not a folder".to_owned(),
            Errno::LOOP => "is a symbolic link, or lies below one; name the folder that it leads \
                            to, as in /media=/srv/app/media"
                .to_owned(),
            Errno::XDEV => "lies outside of the folder of the site".to_owned(),
            Errno::NOSYS => {
                "cannot be opened safely: the kernel is older than Linux 5.6".to_owned()
            }
            error => format!("cannot be opened: {}", in_words(error)),
        };
        let failed = |error| format!("the live folder {shown} {}", why(error));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&root, flags, Mode::empty()).map_err(failed)?;
        let this = Self { url_path, root, below_root: below_root.as_bytes().into(), path };
        let below = if below_root.is_empty() { b"." } else { below_root.as_bytes() };
        this.open_at(below, flags).map_err(failed)?;
        Ok(this)
    }

    /// Returns the part of a decoded path after that of the folder, with the slash in front; `None`
    /// if it is no path in it.
    fn rest<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(&*self.url_path)?;
        matches!(rest, [] | [b'/', ..]).then_some(rest)
    }

    /// Opens the file at a path below the path of the folder.
    fn look_up(&self, rest: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
        let below = [&*self.below_root, rest].concat();
        let below = below.strip_prefix(b"/").unwrap_or(&below);
        let below = if below.is_empty() { b"." } else { below };
        let opened = self.open_at(below, OFlags::RDONLY)?;
        let stat = rustix::fs::fstat(&opened)?;
        Ok((opened, stat))
    }

    fn open_at(&self, below: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Opening never waits for another process.
        let flags = if flags.contains(OFlags::PATH) {
            flags
        } else {
            flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
        };
        rustix::fs::openat2(&self.root, below, flags, Mode::empty(), resolve)
    }

    /// Returns the file at a decoded path in URLs.
    fn file(&self, path: Vec<u8>, is_index: bool) -> LiveOutcome {
        let rest = path.get(self.url_path.len()..).unwrap_or_default();
        match self.look_up(rest) {
            Ok(opened) => self.opened(opened, path, is_index),
            Err(error) => self.failed(error, rest),
        }
    }

    fn opened(
        &self,
        (opened, stat): (OwnedFd, Stat),
        path: Vec<u8>,
        is_index: bool,
    ) -> LiveOutcome {
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return LiveOutcome::Nothing;
        }
        let location = is_index.then(|| {
            let mut escaped = Vec::new();
            escape(&mut escaped, path.iter().copied(), is_path_byte);
            escaped
        });
        LiveOutcome::File(OpenLiveFile {
            location,
            ..OpenLiveFile::new(opened.into(), &stat, path)
        })
    }

    fn failed(&self, error: Errno, rest: &[u8]) -> LiveOutcome {
        let status = match status_of(error) {
            404 => return LiveOutcome::Nothing,
            status => status,
        };
        let below = rest.strip_prefix(b"/").unwrap_or(rest);
        let path = self.path.join(String::from_utf8_lossy(below).as_ref());
        LiveOutcome::Failed(LiveFailure { status, path, error })
    }
}

/// Returns the status of a response whose file cannot be opened: 404 if there is no such file.
pub(crate) fn status_of(error: Errno) -> u16 {
    match error {
        // No such file, a link, a socket, a device without a driver, or too long a name.
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::LOOP
        | Errno::XDEV
        | Errno::NXIO
        | Errno::NODEV
        | Errno::NAMETOOLONG
        | Errno::INVAL => 404,
        Errno::ACCESS | Errno::PERM => 403,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => 503,
        _ => 500,
    }
}

impl LiveOutcome {
    /// Returns the decoded path of the file that a request for `path` is about.
    pub(crate) fn key(&self, path: &[u8]) -> Vec<u8> {
        match self {
            Self::File(file) => file.path.clone(),
            Self::SlashRedirect => [path, b"/", INDEX].concat(),
            Self::Nothing | Self::Withheld | Self::Failed(_) => path.to_vec(),
        }
    }
}

impl OpenLiveFile {
    /// Makes one of a regular file that was just opened. Its type comes from the extension of the
    /// path.
    fn new(file: File, stat: &Stat, path: Vec<u8>) -> Self {
        let media_type = file_type(&String::from_utf8_lossy(&path));
        Self {
            file: Arc::new(file),
            path,
            location: None,
            media_type: media_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned()),
            stamp: FileStamp::of(stat),
        }
    }

    /// Makes one of a file that was just opened; `None` if it is no regular one.
    ///
    /// # Errors
    /// That of fstat(2).
    pub(crate) fn of_regular(file: File, path: Vec<u8>) -> Result<Option<Self>, Errno> {
        let stat = rustix::fs::fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        Ok(is_file.then(|| Self::new(file, &stat, path)))
    }

    /// Returns the parts of its response. `etag` is that of its stamp, `boundary` separates several
    /// ranges. A file that has just changed is sent without validators.
    pub(crate) fn described<'f>(
        &'f self,
        live: &'f LiveFiles,
        etag: &'f str,
        boundary: &'f str,
        now: UnixSeconds,
    ) -> LiveFile<'f> {
        let FileStamp { bytes, modified, .. } = self.stamp;
        let is_settled = self.stamp.is_settled(now);
        let is_coded_size = (ENCODE_MIN_BYTES..=LIVE_COMPRESS_MAX_BYTES).contains(&bytes);
        LiveFile {
            media_type: &self.media_type,
            cache_control: live.settings.cache_control.as_deref(),
            varies: is_coded_size && is_compressible(self.media_type.as_bytes()),
            bytes,
            modified: is_settled.then_some(modified),
            etag: is_settled.then_some(etag.as_bytes()),
            location: self.location.as_deref(),
            boundary: boundary.as_bytes(),
        }
    }

    /// Returns its entity tag, without quotes, and the time of its last change. One that has just
    /// changed has none.
    pub(crate) fn validators(&self, now: UnixSeconds) -> Option<(String, UnixSeconds)> {
        self.stamp.is_settled(now).then(|| (self.stamp.etag(), self.stamp.modified))
    }

    /// Returns whether it has not changed since it was opened.
    pub(crate) fn is_unchanged(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| FileStamp::of(&stat) == self.stamp)
    }
}

impl FileStamp {
    fn of(stat: &Stat) -> Self {
        Self {
            bytes: stat.st_size as u64,
            modified: stat.st_mtime,
            modified_ns: stat.st_mtime_nsec,
        }
    }

    /// Returns whether no later change can look the same: a file that has just changed has no
    /// validators.
    fn is_settled(&self, now: UnixSeconds) -> bool {
        now.saturating_sub(self.modified) >= SETTLED_AFTER_SECONDS
    }

    /// Returns a strong entity tag, without quotes: the time of the last change in nanoseconds, and
    /// the length.
    pub(crate) fn etag(&self) -> String {
        format!("{:x}.{:x}-{:x}", self.modified, self.modified_ns, self.bytes)
    }
}

/// `cannot read PATH: permission denied`.
impl fmt::Display for LiveFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        write!(f, "cannot read {}: {}", path.escape_debug(), in_words(self.error))
    }
}

/// Returns an error of the system without its number.
pub(crate) fn in_words(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    text.split(" (os error").next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
