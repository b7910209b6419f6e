//! The settings of one site: its content, its mounts, its scripts, its log and its access rules.

use super::build::content;
use super::cgi_flags::cgi_mounts;
use super::python_flags::python_mounts;
use super::{
    BuildSettings, LiveFolder, LogFormat, LogTarget, LuaSettings, MountFault, PhpSettings,
    ScriptAccess, SiteAccess, choice, content_flags, live_folders, mount, number, path_or_stdout,
    read, row,
};
use crate::directive_value_parsers::{http_values, mount_values, script_resource_values};
use crate::directives::config_file_tables::Table;
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::served_source::ServedSource;
use crate::server::mounts::{Mount, Mounts};
use pinion_client::address_policy::PrivateAddresses;
use pinion_gateway::limits::UPSTREAM_TIMEOUT_MS;
use pinion_gateway::upstream_group::UpstreamGroup;
use pinion_jobs::confined_folders::FolderAt;
use pinion_site::host_selection::HostPattern;
use std::path::Path;
use std::sync::Arc;

/// The settings of one site.
#[derive(Clone, Debug)]
pub(crate) struct SiteSettings {
    /// The settings as written, to be compared at a reload.
    pub(crate) low: Low,
    /// The hosts that it responds to; empty for every host that no other site names.
    pub(crate) hosts: Vec<HostPattern>,
    /// The settings with which a folder becomes an archive.
    pub(crate) content: BuildSettings,
    /// The way in which the archive is held in memory.
    pub(crate) memory: MemoryMode,
    /// Reload the site when its source changes.
    pub(crate) watch: bool,
    /// The log of its requests and its format, if not that of the server.
    pub(crate) access_log: Option<(LogTarget, LogFormat)>,
    /// The settings with which its scripts are run.
    pub(crate) lua: LuaSettings,
    /// The folders in which scripts have files.
    pub(crate) lua_folders: Vec<FolderAt>,
    /// The access of scripts to things outside of the site.
    pub(crate) script_access: ScriptAccess,
    /// The folders whose files are read for each request.
    pub(crate) live: Vec<LiveFolder>,
    /// The paths that other servers respond to.
    pub(crate) mounts: Arc<Mounts>,
    /// PHP that the server starts for it.
    pub(crate) php: Option<PhpSettings>,
    /// The access rules.
    pub(crate) access: Arc<SiteAccess>,
}

/// `--memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryMode {
    /// A sealed copy in memory.
    Copy,
    /// Mapped, read as needed.
    Map,
    /// Mapped, read before the first request.
    Preload,
}

/// The socket on which PHP of a server that is not started would listen.
const PLANNED_SOCKET: &str = "/run/php-fpm.sock";

impl SiteSettings {
    /// Reads the settings of a site.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        let mut hosts = Vec::new();
        for text in low.values("hosts") {
            hosts.push(read(row("hosts"), text, http_values::host)?);
        }
        let names = hosts.iter().map(HostPattern::to_string).collect();
        let mounts = mounts(low)?;
        let has_fallback_server = mounts.has_root_mount();
        let live = live_folders_of(low)?;
        let live_in_site = live.iter().filter_map(|folder| folder.at.in_site());
        let live_in_site = live_in_site.map(str::to_owned).collect();
        Ok(Self {
            low: low.clone(),
            hosts,
            content: BuildSettings {
                hosts: names,
                has_fallback_server,
                live: live_in_site,
                ..content(low)?
            },
            live,
            memory: match choice(low, "memory")? {
                "copy" => MemoryMode::Copy,
                "preload" => MemoryMode::Preload,
                _ => MemoryMode::Map,
            },
            watch: low.given("watch") || low.given("dev") || reloads_by_environment()?,
            access_log: site_log(low)?,
            lua: LuaSettings::from_low(low)?,
            lua_folders: lua_folders(low)?,
            script_access: ScriptAccess::from_low(low, private_addresses(low))?,
            mounts: Arc::new(mounts),
            php: None,
            access: Arc::new(SiteAccess::from_low(low)?),
        })
    }

    /// Adds the settings for the PHP of the site. `wish` is the setting that asks for PHP, if there
    /// is one.
    ///
    /// # Errors
    /// [`Failure::Usage`]: something has no effect, or is wrong.
    pub(crate) fn with_php(
        mut self,
        source: &ServedSource,
        wish: Option<&str>,
    ) -> Result<Self, Failure> {
        self.refuse_published_applications(source)?;
        self.php = PhpSettings::of(&self.low, source, &self.mounts, wish)?;
        if self.php.is_some() {
            self.content.has_fallback_server = true;
            if self.live.is_empty() {
                // An application writes files anywhere.
                let whole = live_folders(["."].into_iter());
                self.live = whole.map_err(Failure::usage)?;
                self.content.live = vec![String::new()];
            }
        }
        Ok(self)
    }

    /// Refuses Python applications whose source is among the files of the site.
    fn refuse_published_applications(&self, source: &ServedSource) -> Result<(), Failure> {
        let ServedSource::Folder(site) = source else { return Ok(()) };
        let Ok(site) = site.canonicalize() else { return Ok(()) };
        for mount in self.mounts.python() {
            let folder = &mount.settings.folder;
            if folder.canonicalize().is_ok_and(|folder| folder.starts_with(&site)) {
                return Err(Failure::usage(format!(
                    "the Python application {} is in the folder {}, which is served as files, so \
                     its source would be published; name another folder for the files, or none",
                    mount.settings.application,
                    site.display()
                )));
            }
        }
        Ok(())
    }

    /// Adds the mount of PHP.
    ///
    /// # Errors
    /// [`Failure::Usage`]: there is a mount for its path.
    pub(crate) fn mount_php(&mut self, mount: Mount) -> Result<(), Failure> {
        let mounts = self.mounts.all().cloned().chain([mount]);
        let mounts = Mounts::new(mounts.collect());
        self.mounts = Arc::new(mounts.map_err(|path| {
            Failure::usage(format!("PHP: there is a mount for the path {path} already"))
        })?);
        Ok(())
    }

    /// Returns the mounts of the site before the server has started, with that of PHP. `None` if
    /// there is a mistake in the settings for PHP, which is reported elsewhere.
    pub(crate) fn planned_mounts(&self) -> Option<Mounts> {
        let mounts = self.mounts.all().cloned();
        let Some(php) = &self.php else { return Mounts::new(mounts.collect()).ok() };
        let php = php.mount(Path::new(PLANNED_SOCKET)).ok()?;
        Mounts::new(mounts.chain([php]).collect()).ok()
    }

    /// Returns a flag or key about content that was given and has no effect on this source.
    pub(crate) fn useless_content_flag(&self, source: &ServedSource) -> Option<&'static str> {
        let mut flags = content_flags();
        flags.find(|flag| self.low.given(flag) && !source.takes_content_flag(flag))
    }

    /// Watches the site if it is served from a terminal, where people expect to see their changes,
    /// unless `--no-watch` is given.
    pub(crate) fn watched_on(mut self, is_terminal: bool) -> Self {
        self.watch = (self.watch || is_terminal) && !self.low.given("no-watch");
        self
    }

    /// Returns whether both settings load the same content from the same path, for any hosts.
    pub(crate) fn loads_like(&self, other: &Self) -> bool {
        self.low.differences(&other.low).all(|name| name == "hosts") && self.php == other.php
    }
}

/// Reads the log that a site has of its own.
fn site_log(low: &Low) -> Result<Option<(LogTarget, LogFormat)>, Failure> {
    let target = path_or_stdout(low, "site-access-log")?;
    if target.is_none() && low.given("site-log-format") {
        return Err(Failure::usage(
            "log-format: has no effect without access-log, the file to log to",
        ));
    }
    let format = LogFormat::named(choice(low, "site-log-format")?);
    Ok(target.map(|target| (target, format)))
}

/// Returns whether the environment asks for `--watch`, by `RELOAD=true`.
fn reloads_by_environment() -> Result<bool, Failure> {
    let Some(value) = std::env::var_os("RELOAD") else { return Ok(false) };
    match value.to_str() {
        Some("true") => Ok(true),
        Some("false" | "") => Ok(false),
        _ => Err(Failure::usage(format!(
            "RELOAD in the environment is {value:?}; it is `true`, which is as --watch, or `false`"
        ))),
    }
}

fn private_addresses(low: &Low) -> PrivateAddresses {
    if low.given("fetch-private") { PrivateAddresses::Allowed } else { PrivateAddresses::Refused }
}

fn live_folders_of(low: &Low) -> Result<Vec<LiveFolder>, Failure> {
    let texts: Vec<&str> = low
        .values("live")
        .map(|text| text.to_str().ok_or_else(|| Failure::usage("--live: not UTF-8")))
        .collect::<Result<_, _>>()?;
    live_folders(texts.into_iter()).map_err(|error| Failure::usage(format!("--live: {error}")))
}

fn lua_folders(low: &Low) -> Result<Vec<FolderAt>, Failure> {
    let mut folders: Vec<FolderAt> = Vec::new();
    for text in low.values("lua-folder") {
        let folder = read(row("lua-folder"), text, script_resource_values::lua_folder)?;
        if folders.iter().any(|other| other.name == folder.name) {
            let name = folder.name;
            return Err(Failure::usage(format!("--lua-folder: {name:?} is given twice")));
        }
        folders.push(folder);
    }
    Ok(folders)
}

fn mounts(low: &Low) -> Result<Mounts, Failure> {
    let timeout_seconds: Option<u64> = number(low, "proxy-timeout")?;
    let timeout_ms = timeout_seconds.map_or(UPSTREAM_TIMEOUT_MS, |seconds| seconds * 1000);
    let flag = |text| {
        let (path, mut upstream) = read(row("proxy"), text, mount_values::proxy_mount)?;
        upstream.timeout_ms = timeout_ms;
        Ok(Mount::new(path, UpstreamGroup::of_one(upstream)))
    };
    let table = |low| {
        let fault = |fault: MountFault| Failure::usage(format!("[[site.mount]] {fault}"));
        mount(low).map_err(fault)
    };
    let mut mounts = low.values("proxy").map(flag).collect::<Result<Vec<Mount>, Failure>>()?;
    mounts.extend(cgi_mounts(low)?);
    mounts.extend(python_mounts(low)?);
    let pages = |text| {
        let (path, prefix) = read(row("store-pages"), text, mount_values::store_pages)?;
        Ok(Mount::of_store(path, &prefix))
    };
    mounts.extend(low.values("store-pages").map(pages).collect::<Result<Vec<_>, Failure>>()?);
    for section in low.tables(Table::Mount) {
        mounts.push(table(section)?);
    }
    let mounts = Mounts::new(mounts).map_err(|path| {
        let flags = ["cgi", "wsgi", "asgi", "store-pages"];
        let flag = flags.into_iter().find(|flag| low.given(flag)).unwrap_or("proxy");
        Failure::usage(format!("--{flag}: the path {path} is given twice; give another one"))
    })?;
    if mounts.has_root_mount() && low.given("single-page") {
        return Err(Failure::usage(
            "--single-page responds to every path and leaves nothing for the server of the mount \
             /; leave it out, or give the mount another path",
        ));
    }
    Ok(mounts)
}
