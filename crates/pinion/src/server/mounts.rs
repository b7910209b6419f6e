//! The parts of a site to which other servers, programs or the store respond, by their paths.

use super::sendfile_folders::SentFolders;
use super::store::StoreMount;
use crate::control::status::{self, UpstreamState};
use crate::settings::{CgiMount, PythonMount};
use pinion_gateway::fastcgi_scgi_variables::ProgramTarget;
use pinion_gateway::path_prefix::{PathPrefix, PathSuffix};
use pinion_gateway::script_location::{LocatedScript, ScriptFolder, ScriptLocation};
use pinion_gateway::upstream_group::UpstreamGroup;
use pinion_http::request_target::decode_path;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A part of a site, and who responds to requests for it.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    path: MountPath,
    /// The path as it is shown.
    name: Arc<str>,
    pub(crate) target: MountTarget,
    /// The folders of the files that its responses may name for this server to send; `None` if
    /// responses name no files.
    pub(crate) sent_folders: Option<Arc<SentFolders>>,
}

/// The target that responds to requests of a mount.
#[derive(Clone, Debug)]
pub(crate) enum MountTarget {
    /// Other servers.
    Servers(Arc<UpstreamGroup>),
    /// CGI scripts.
    Scripts(Arc<CgiMount>),
    /// A Python application.
    Python(Arc<PythonMount>),
    /// The values of keys of the store.
    Store(Arc<StoreMount>),
}

/// Which requests a mount is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MountPath {
    /// The requests for a path and all below it.
    Prefix(PathPrefix),
    /// The requests for names with an extension to which no file responds, or for scripts with this
    /// extension.
    Suffix(PathSuffix),
}

impl MountPath {
    /// Returns the path of a whole site: `/`.
    pub(crate) fn root() -> Self {
        Self::Prefix(PathPrefix::new("/"))
    }

    /// Parses `/api` or `*.php`.
    ///
    /// # Errors
    /// A phrase that names the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let is_path_byte =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'*');
        let is_extension = |text: &str| {
            let name = text.strip_prefix('.').unwrap_or_default();
            !name.is_empty()
                && name.bytes().all(|byte| is_path_byte(byte) && !matches!(byte, b'/' | b'%'))
        };
        match text.strip_prefix('*') {
            Some(extension) if is_extension(extension) => {
                Ok(Self::Suffix(PathSuffix::new(extension)))
            }
            None if has_dot_segment(text) => {
                Err(format!("{text:?} has a segment . or .., which clients take out: leave it out"))
            }
            None if text.starts_with('/') && text.bytes().all(is_path_byte) => {
                Ok(Self::Prefix(PathPrefix::new(text)))
            }
            _ => Err(format!("{text:?} is no path of a mount: write /api or *.php")),
        }
    }
}

/// `/api` or `*.php`.
impl fmt::Display for MountPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Suffix(suffix) => write!(f, "*{}", suffix.as_str()),
        }
    }
}

/// The mounts of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    /// The mounts below the root, the longest path first.
    below_root: Vec<MountBelowRoot>,
    /// Whether the key of one of them in archives differs from its path. A client may send the key
    /// as path, too.
    has_keys_unlike_paths: bool,
    /// The mounts for extensions, the longest one first.
    extensions: Vec<(PathSuffix, Mount)>,
    /// Whether one of these, or the one of the root, runs scripts of a folder.
    has_scripts: bool,
    /// The mount of the root. It responds if no file and no other mount does, or if it runs the
    /// script of the path.
    root: Option<Mount>,
}

/// A mount of a path below the root.
#[derive(Clone, Debug)]
struct MountBelowRoot {
    prefix: PathPrefix,
    /// The path as archives have it; `None` if it can be in no archive.
    key: Option<Box<[u8]>>,
    mount: Mount,
}

impl MountBelowRoot {
    fn new(prefix: PathPrefix, mount: Mount) -> Self {
        let mut decoded = Vec::new();
        let key = decode_path(prefix.as_str().as_bytes(), &mut decoded).ok().map(Box::from);
        Self { prefix, key, mount }
    }

    /// Returns whether the key of a path in an archive is that of the mount, or below it.
    fn has_key(&self, key: &[u8]) -> bool {
        let rest = self.key.as_ref().and_then(|own| key.strip_prefix(&**own));
        matches!(rest, Some([] | [b'/', ..]))
    }
}

impl Mount {
    pub(crate) fn new(path: MountPath, upstreams: UpstreamGroup) -> Self {
        Self::with_target(path, MountTarget::Servers(Arc::new(upstreams)))
    }

    pub(crate) fn of_scripts(path: MountPath, scripts: CgiMount) -> Self {
        Self::with_target(path, MountTarget::Scripts(Arc::new(scripts)))
    }

    pub(crate) fn of_application(path: MountPath, application: PythonMount) -> Self {
        Self::with_target(path, MountTarget::Python(Arc::new(application)))
    }

    /// Returns a mount whose pages are values of the store. Their keys begin with `prefix`.
    pub(crate) fn of_store(path: PathPrefix, prefix: &str) -> Self {
        let mut decoded = Vec::new();
        let decoded = decode_path(path.as_str().as_bytes(), &mut decoded).unwrap_or_default();
        let keys = StoreMount::new(decoded, prefix.as_bytes());
        Self::with_target(MountPath::Prefix(path), MountTarget::Store(Arc::new(keys)))
    }

    fn with_target(path: MountPath, target: MountTarget) -> Self {
        let name = path.to_string().into();
        Self { path, name, target, sent_folders: None }
    }

    /// Returns a mount whose responses may name files of these folders.
    pub(crate) fn with_sent_folders(self, folders: Option<SentFolders>) -> Self {
        Self { sent_folders: folders.map(Arc::new), ..self }
    }

    /// Returns which requests it is for.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &MountPath {
        &self.path
    }
}

impl Mount {
    /// Returns its path for messages: `/api` or `*.php`.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the servers, if it is a group of servers that respond.
    pub(crate) fn upstreams(&self) -> Option<&Arc<UpstreamGroup>> {
        match &self.target {
            MountTarget::Servers(upstreams) => Some(upstreams),
            MountTarget::Scripts(_) | MountTarget::Python(_) | MountTarget::Store(_) => None,
        }
    }

    /// Returns the CGI scripts, if some respond.
    pub(crate) fn cgi(&self) -> Option<&Arc<CgiMount>> {
        match &self.target {
            MountTarget::Scripts(scripts) => Some(scripts),
            _ => None,
        }
    }

    /// Returns the Python application, if one responds.
    pub(crate) fn python(&self) -> Option<&Arc<PythonMount>> {
        match &self.target {
            MountTarget::Python(application) => Some(application),
            _ => None,
        }
    }

    /// Returns whether its pages are values of the store.
    pub(crate) fn is_of_store(&self) -> bool {
        matches!(self.target, MountTarget::Store(_))
    }

    /// Returns whether it is for the whole site, or for an extension: rules and files of the site
    /// come before it.
    fn is_of_whole_site(&self) -> bool {
        match &self.path {
            MountPath::Prefix(prefix) => prefix.is_root(),
            MountPath::Suffix(_) => true,
        }
    }

    /// Returns whether programs respond: CGI scripts, Python applications, or applications that
    /// speak FastCGI or SCGI.
    pub(crate) fn is_of_programs(&self) -> bool {
        let is_of_programs = |upstreams: &Arc<UpstreamGroup>| upstreams.options().program.is_some();
        !self.is_of_store() && self.upstreams().is_none_or(is_of_programs)
    }

    /// Returns whether PHP responds that the server starts itself: only its socket is waited for.
    pub(crate) fn is_own_php(&self) -> bool {
        let mut servers = self.upstreams().into_iter().flat_map(|upstreams| upstreams.servers());
        servers.any(|server| server.upstream.waits_for_socket)
    }

    /// Returns the scripts that it runs, if it runs those of a folder.
    pub(crate) fn scripts(&self) -> Option<&ScriptFolder> {
        match &self.upstreams()?.options().program.as_ref()?.target {
            ProgramTarget::Scripts(scripts) => Some(scripts),
            ProgramTarget::Application(_) => None,
        }
    }

    /// Returns the paths that the script which responds to a path, as the client has sent it, could
    /// read in place of the path: its own, and with `PATH_INFO` that one, also below its folder. A
    /// framework that has `/index.php` as front controller takes `/index.php/admin` for `/admin`.
    pub(crate) fn script_readings(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let located = self.scripts().map(|scripts| scripts.locate(path));
        let Some(Ok(ScriptLocation::Script(LocatedScript { name, path_info }))) = located else {
            return Vec::new();
        };
        if path_info.is_empty() {
            return vec![name];
        }
        let folder = name.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let below = [name.get(..folder).unwrap_or_default(), &*path_info].concat();
        vec![name, path_info, below]
    }

    /// Returns the status of its servers.
    pub(crate) fn status(&self) -> impl Iterator<Item = status::Upstream> {
        let servers = self.upstreams().into_iter().flat_map(|upstreams| upstreams.servers());
        servers.map(|server| status::Upstream {
            mount: self.path.to_string(),
            url: server.upstream.to_string(),
            state: match server.health {
                health if health.is_down() => UpstreamState::Down,
                health if health.is_out() => UpstreamState::LeftOut,
                _ => UpstreamState::Up,
            },
            requests: server.requests as u64,
        })
    }
}

/// Describes the forwarded paths and their target, in words.
impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upstreams = match &self.target {
            MountTarget::Servers(upstreams) => upstreams,
            MountTarget::Scripts(scripts) => {
                let folder = scripts.scripts.folder.display();
                return write!(f, "{} runs the CGI scripts of {folder}", self.path);
            }
            MountTarget::Python(python) => {
                let application = &python.settings.application;
                return write!(f, "{} is the Python application {application}", self.path);
            }
            MountTarget::Store(keys) => return write!(f, "{} has pages of {keys}", self.path),
        };
        match &self.path {
            MountPath::Prefix(prefix) if prefix.is_root() => f.write_str("forwarded to ")?,
            path => write!(f, "{path} is forwarded to ")?,
        }
        if upstreams.servers().count() > 1 {
            f.write_str("one of ")?;
        }
        upstreams.fmt(f)?;
        match &upstreams.options().path {
            Some(path) => write!(f, ", with {path} in the place of that path"),
            None => Ok(()),
        }
    }
}

impl Mounts {
    /// Sorts mounts into the order in which they are tried.
    ///
    /// # Errors
    /// A path that is given twice.
    pub(crate) fn new(mounts: Vec<Mount>) -> Result<Self, MountPath> {
        let mut sorted = Self::default();
        for mount in mounts {
            if sorted.all().any(|other| other.path == mount.path) {
                return Err(mount.path);
            }
            match mount.path.clone() {
                MountPath::Prefix(prefix) if prefix.is_root() => sorted.root = Some(mount),
                MountPath::Prefix(prefix) => {
                    sorted.below_root.push(MountBelowRoot::new(prefix, mount));
                }
                MountPath::Suffix(suffix) => sorted.extensions.push((suffix, mount)),
            }
        }
        let of_root = sorted.extensions.iter().map(|(_, mount)| mount).chain(&sorted.root);
        sorted.has_scripts = { of_root }.any(|mount| mount.scripts().is_some());
        sorted.below_root.sort_by_key(|one| std::cmp::Reverse(one.prefix.as_str().len()));
        sorted.has_keys_unlike_paths = { sorted.below_root.iter() }
            .any(|one| one.key.as_deref().is_some_and(|key| key != one.prefix.as_str().as_bytes()));
        sorted.extensions.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.as_str().len()));
        Ok(sorted)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Returns all of them, in the order in which they are tried.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Mount> {
        let below_root = self.below_root.iter().map(|one| &one.mount);
        let extensions = self.extensions.iter().map(|(_, mount)| mount);
        below_root.chain(extensions).chain(&self.root)
    }

    /// Returns the mount that responds to a path, as the client has sent it, before all files: one
    /// below the root that covers it, or one that runs scripts, if the path has the name of a
    /// script in it. A script is never sent as a file.
    #[inline]
    pub(crate) fn mount_before_files(&self, path: &[u8]) -> Option<&Mount> {
        self.mount_below_root(path)
            .or_else(|| self.script_mount(path))
            .or_else(|| self.mount_of_decoded_path(path))
    }

    /// Returns the mount of [`Self::mount_before_files`], unless it runs scripts of the whole site
    /// and `has_rule` says that a rule comes before any file of the path.
    #[inline]
    pub(crate) fn mount_before_files_and_rules(
        &self,
        path: &[u8],
        has_rule: impl FnOnce() -> bool,
    ) -> Option<&Mount> {
        self.mount_before_files(path).filter(|mount| !(mount.is_of_whole_site() && has_rule()))
    }

    #[inline]
    fn mount_below_root(&self, path: &[u8]) -> Option<&Mount> {
        let mut mounts = self.below_root.iter();
        mounts.find(|one| one.prefix.rest(path).is_some()).map(|one| &one.mount)
    }

    /// Returns the mount of a path in another spelling, such as one with dot segments or escapes,
    /// under which files of the site would be found. The mount refuses it, or finds nothing.
    #[inline]
    fn mount_of_decoded_path(&self, path: &[u8]) -> Option<&Mount> {
        let is_canonical =
            || !path.contains(&b'%') && !path.windows(2).any(segment_begins_with_dot);
        if self.below_root.is_empty() || !self.has_keys_unlike_paths && is_canonical() {
            return None;
        }
        let mut decoded = Vec::new();
        let key = decode_path(path, &mut decoded).ok()?;
        self.below_root.iter().find(|one| one.has_key(key)).map(|one| &one.mount)
    }

    /// Returns the mount that runs the script of a path.
    #[inline]
    fn script_mount(&self, path: &[u8]) -> Option<&Mount> {
        if !self.has_scripts {
            return None;
        }
        let mounts = self.extensions.iter().map(|(_, mount)| mount).chain(&self.root);
        let covers = |mount: &&Mount| mount.scripts().is_some_and(|scripts| scripts.covers(path));
        { mounts }.find(covers)
    }

    /// Returns the mount that responds to a path, as the client has sent it, if no file does: the
    /// mount of its extension, or that of the root.
    #[inline]
    pub(crate) fn fallback_for(&self, path: &[u8]) -> Option<&Mount> {
        let mut extensions = self.extensions.iter();
        let of_extension = extensions.find(|(suffix, _)| suffix.covers(path));
        of_extension.map(|(_, mount)| mount).or(self.root.as_ref())
    }

    /// Returns the extensions of mounts such as `*.php`, and of the scripts of other mounts, with
    /// their dots.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &str> {
        let extensions = self.extensions.iter().map(|(suffix, _)| suffix.as_str());
        extensions.chain(self.all().filter_map(|mount| Some(&*mount.scripts()?.extension)))
    }

    /// Returns whether scripts of the whole site are run.
    pub(crate) fn runs_scripts(&self) -> bool {
        self.has_scripts
    }

    /// Returns whether a mount responds to a path, as a client sends it, that is not that of a
    /// file.
    pub(crate) fn any_responds_to(&self, path: &[u8]) -> bool {
        self.mount_before_files(path).or_else(|| self.fallback_for(path)).is_some()
    }

    /// Returns whether content of requests is stored before a server is asked, or an application,
    /// which has to know its length.
    pub(crate) fn store_uploads(&self) -> bool {
        let stores_uploads = |mount: &Mount| {
            let options = mount.upstreams().map(|upstreams| upstreams.options());
            options.is_some_and(|options| options.stored_upload_max_bytes.is_some())
        };
        self.all().any(|mount| mount.is_of_programs() || stores_uploads(mount))
    }

    /// Returns the Python applications of all of them.
    pub(crate) fn python(&self) -> impl Iterator<Item = &Arc<PythonMount>> {
        self.all().filter_map(Mount::python)
    }

    /// Returns whether pages of one of them are values of the store.
    pub(crate) fn need_store(&self) -> bool {
        self.all().any(Mount::is_of_store)
    }

    /// Returns whether one of them is the Python application with this name.
    pub(crate) fn has_python(&self, name: &Path) -> bool {
        self.python().any(|mount| Path::new(&mount.settings.application) == name)
    }

    /// Returns the CGI scripts of all of them.
    pub(crate) fn cgi(&self) -> impl Iterator<Item = &Arc<CgiMount>> {
        self.all().filter_map(Mount::cgi)
    }

    /// Returns whether there is a mount of the root, which responds to paths that the site does not
    /// have.
    pub(crate) fn has_root_mount(&self) -> bool {
        self.root.is_some()
    }
}

/// Returns whether a path has a segment `.` or `..`, also in escapes.
fn has_dot_segment(path: &str) -> bool {
    let is_dots =
        |segment: &str| matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | "..");
    path.split('/').any(is_dots)
}

/// Returns whether a segment begins with a dot.
fn segment_begins_with_dot(pair: &[u8]) -> bool {
    pair == b"/."
}

#[cfg(test)]
mod tests;
