//! The settings of `pinion serve`: a server, and one site of it.

use super::build::content;
use super::cgi_flags::cgi_mounts;
use super::python_flags::python_mounts;
use super::python_project::with_found_project;
use super::store::StoreSettings;
use super::{
    BuildSettings, CONTENT_FLAGS, Listen, ListenKind, LiveFolder, LuaSettings, MountFault,
    PhpSettings, ScriptAccess, SiteAccess, TlsSettings, choice, field_value, listeners_and_tls,
    live_folders, mount, networks, number, optional, path, path_or_stdout, read, row, single,
};
use crate::directive_value_parsers;
use crate::directives::config_file_tables::Table;
use crate::directives::verbs::Verb;
use crate::directives::{self, Directive, DirectiveLevel};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::served_source::ServedSource;
use crate::server::mounts::{Mount, Mounts};
use crate::server::trusted_proxies::TrustedProxies;
use pinion_client::address_policy::PrivateAddresses;
use pinion_gateway::limits::UPSTREAM_TIMEOUT_MS;
use pinion_gateway::upstream_group::UpstreamGroup;
use pinion_http::forwarded_client::ClientField;
use pinion_jobs::confined_folders::FolderAt;
use pinion_site::host_selection::HostPattern;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The path that responds to health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthCheck {
    /// The path, on every host.
    pub(crate) path: String,
    /// Whether the access log has lines about them.
    pub(crate) is_logged: bool,
}

/// The settings of a server. Its sites are found by [`crate::plan`].
#[derive(Debug)]
pub(crate) struct Serve {
    /// The settings as written: a reload compares them, and a configuration file is read below the
    /// flags.
    pub(crate) low: Low,
    /// The path to serve, as written.
    pub(crate) path: Option<PathBuf>,
    /// Never empty.
    pub(crate) listen: Vec<Listen>,
    /// The TLS settings, where TLS was asked for.
    pub(crate) tls: TlsSettings,
    /// None: one for each core.
    pub(crate) workers: Option<usize>,
    /// The interface to the kernel.
    pub(crate) io: Io,
    /// The file or stream of the access log.
    pub(crate) access_log: Option<LogTarget>,
    /// The format of a line.
    pub(crate) log_format: LogFormat,
    /// Answer every request with the same bytes.
    pub(crate) dummy: Option<Dummy>,
    /// The interval of the lines with figures.
    pub(crate) stats: Option<Duration>,
    /// The path at which load balancers ask whether the server is well.
    pub(crate) health: Option<HealthCheck>,
    /// The proxies that name their clients.
    pub(crate) trusted_proxies: TrustedProxies,
    /// The time that running requests may take after SIGTERM.
    pub(crate) grace: Duration,
    /// None: from the limit on open files.
    pub(crate) max_connections: Option<u64>,
    /// None: as many as there are.
    pub(crate) max_connections_per_client: Option<u32>,
    /// Connections to other servers that may be open at once; as many as fit when not given.
    pub(crate) max_outgoing: Option<u64>,
    /// Most WebSockets and other tunnels of one client.
    pub(crate) max_tunnels_per_client: Option<u32>,
    /// The time that a connection may be idle between two requests.
    pub(crate) keep_alive_timeout: Duration,
    /// The time that the header section of a request may take.
    pub(crate) header_timeout: Duration,
    /// The time that a client may pause while it sends the body of a request.
    pub(crate) body_timeout: Duration,
    /// None: as many as the client likes.
    pub(crate) max_requests_per_connection: Option<u32>,
    /// None: from the number of connections.
    pub(crate) memory_budget_bytes: Option<u64>,
    /// Bytes that uploads may take in temporary files.
    pub(crate) upload_space_bytes: u64,
    /// Keys and values for clients of Redis.
    pub(crate) store: StoreSettings,
    /// Value of the `Server` field.
    pub(crate) server_name: Option<String>,
    /// The control socket.
    pub(crate) control: ControlSetting,
}

/// `--control`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlSetting {
    /// The folder that the service manager or the session has, if there is one.
    Found,
    /// Nowhere.
    Off,
    /// This path.
    At(PathBuf),
}

/// The kinds of content of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedContent {
    /// Sites, or the dummy; perhaps the store, too.
    Sites,
    /// The store and nothing else: no listener speaks HTTP.
    StoreOnly,
}

/// The socket on which PHP of a server that is not started would listen.
const PLANNED_SOCKET: &str = "/run/php-fpm.sock";

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

/// `--io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// io_uring where it works, else epoll.
    Auto,
    /// epoll.
    Epoll,
    /// io_uring or fail.
    Uring,
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

/// `--access-log`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogTarget {
    /// Appended to, reopened on SIGHUP.
    File(PathBuf),
    /// `-`
    Stdout,
}

/// `--dummy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dummy {
    /// The length of each response's content.
    pub(crate) bytes: usize,
    /// The time that each response takes.
    pub(crate) delay: Option<Duration>,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// The combined format of the common web servers.
    Combined,
    /// The combined format after the host that the request is for.
    VhostCombined,
    /// One JSON object in each line.
    Json,
}

impl Serve {
    /// Reads the settings of a server with sites.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        Self::with_listeners(low, &[low], ServedContent::Sites)
    }

    /// Reads the settings of a server, and its listeners out of tables of their own.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn with_listeners(
        low: &Low,
        listeners: &[&Low],
        content: ServedContent,
    ) -> Result<Self, Failure> {
        let mut listen = Vec::new();
        for low in listeners {
            listen.extend(listeners_and_tls::listeners(low)?);
        }
        let is_unwritten = listen.iter().all(|listen| listen.kind.is_store());
        if is_unwritten && content == ServedContent::Sites {
            listen.push(listeners_and_tls::unwritten_listener(low)?);
        }
        Ok(Self {
            store: StoreSettings::from_low(low, &listen)?,
            low: low.clone(),
            path: optional(low, "PATH")?,
            listen,
            tls: TlsSettings::from_low(low)?,
            workers: number(low, "workers")?,
            io: match choice(low, "io")? {
                "epoll" => Io::Epoll,
                "uring" => Io::Uring,
                _ => Io::Auto,
            },
            access_log: path_or_stdout(low, "access-log")?,
            log_format: LogFormat::named(choice(low, "log-format")?),
            dummy: dummy(low)?,
            stats: number(low, "stats")?.map(Duration::from_secs),
            health: health_check(low)?,
            trusted_proxies: TrustedProxies {
                networks: networks(low, "trusted-proxy")?,
                client_field: client_field(low)?,
                gives_host: low.given("trust-forwarded-host"),
            },
            grace: seconds(low, "grace")?,
            max_connections: number(low, "max-connections")?,
            max_connections_per_client: number(low, "max-connections-per-client")?,
            max_outgoing: number(low, "max-outgoing")?,
            max_tunnels_per_client: number(low, "max-tunnels-per-client")?,
            keep_alive_timeout: seconds(low, "keep-alive-timeout")?,
            header_timeout: seconds(low, "header-timeout")?,
            body_timeout: seconds(low, "body-timeout")?,
            max_requests_per_connection: number(low, "max-requests-per-connection")?,
            memory_budget_bytes: number::<u64>(low, "memory-budget")?
                .map(|mebibytes| mebibytes << 20),
            upload_space_bytes: number::<u64>(low, "upload-space")?.unwrap_or_default() << 20,
            server_name: field_value(low, "server-name")?,
            control: match path(low, "control")? {
                None => ControlSetting::Found,
                Some(path) if path == Path::new("off") => ControlSetting::Off,
                Some(path) => ControlSetting::At(path),
            },
        })
    }

    /// Returns whether some listener is encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        self.listen.iter().any(|listen| listen.kind.is_secured())
    }

    /// Returns whether clients find the store at every address, and no sites.
    pub(crate) fn is_store_only(&self) -> bool {
        self.listen.iter().all(|listen| listen.kind.is_store())
    }

    /// Returns whether clients find this at some address.
    pub(crate) fn has(&self, kind: ListenKind) -> bool {
        self.listen.iter().any(|listen| listen.kind == kind)
    }
}

impl LogFormat {
    /// Every format, by its name.
    pub(crate) const NAMES: &[&str] = &["combined", "vhost-combined", "json"];

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::VhostCombined => "vhost-combined",
            Self::Json => "json",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "json" => Self::Json,
            "vhost-combined" => Self::VhostCombined,
            _ => Self::Combined,
        }
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Stdout => f.write_str("stdout"),
        }
    }
}

fn health_check(low: &Low) -> Result<Option<HealthCheck>, Failure> {
    let path = single(low, "health", directive_value_parsers::url_path)?;
    Ok(path.map(|path| HealthCheck { path, is_logged: !low.given("no-health-log") }))
}

fn client_field(low: &Low) -> Result<ClientField, Failure> {
    let name =
        single(low, "client-ip-header", directive_value_parsers::field_name)?.unwrap_or_default();
    Ok(ClientField::named(name.as_bytes()))
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

/// Reads a number of seconds that has a default.
fn seconds(low: &Low, name: &'static str) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(number(low, name)?.unwrap_or_default()))
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

impl SiteSettings {
    /// Reads the settings of a site.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        let mut hosts = Vec::new();
        for text in low.values("hosts") {
            hosts.push(read(row("hosts"), text, directive_value_parsers::host)?);
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
        let mut flags = CONTENT_FLAGS.iter().copied();
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
        let folder = read(row("lua-folder"), text, directive_value_parsers::lua_folder)?;
        if folders.iter().any(|other| other.name == folder.name) {
            let name = folder.name;
            return Err(Failure::usage(format!("--lua-folder: {name:?} is given twice")));
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// Reads a command line.
pub(super) fn serve(low: &Low) -> Result<Serve, Failure> {
    refuse_beside_dummy(low)?;
    let found = with_found_project(low)?;
    let low = found.as_ref().unwrap_or(low);
    // A fault in the settings of the site shows now, and not when the site is found.
    SiteSettings::from_low(low)?;
    Serve::from_low(low)
}

fn mounts(low: &Low) -> Result<Mounts, Failure> {
    let timeout_seconds: Option<u64> = number(low, "proxy-timeout")?;
    let timeout_ms = timeout_seconds.map_or(UPSTREAM_TIMEOUT_MS, |seconds| seconds * 1000);
    let flag = |text| {
        let (path, mut upstream) = read(row("proxy"), text, directive_value_parsers::proxy_mount)?;
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
        let (path, prefix) = read(row("store-pages"), text, directive_value_parsers::store_pages)?;
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

/// Returns the flag that asks for the dummy.
fn dummy_flag(low: &Low) -> Option<&'static str> {
    ["dummy", "dummy-empty"].into_iter().find(|flag| low.given(flag))
}

fn dummy(low: &Low) -> Result<Option<Dummy>, Failure> {
    let bytes = number(low, "dummy-bytes")?.filter(|_| !low.given("dummy-empty"));
    let kind = &row("dummy-delay").kind;
    let delay = single(low, "dummy-delay", |text| directive_value_parsers::duration(kind, text))?;
    let dummy = Dummy { bytes: bytes.unwrap_or_default(), delay };
    Ok(dummy_flag(low).map(|_| dummy))
}

/// Flags of the whole server that have no effect without a site.
const SERVER_FLAGS_OF_SITES: [&str; 2] = ["health", "redirect-http"];

/// Returns the flags that have no effect without a site.
fn flags_of_sites() -> impl Iterator<Item = &'static str> {
    let is_of_site = |row: &&Directive| {
        matches!(row.level, DirectiveLevel::Site | DirectiveLevel::Build)
            || SERVER_FLAGS_OF_SITES.contains(&row.name)
    };
    directives::of(Verb::Serve).filter(is_of_site).map(|row| row.name)
}

/// Refuses flags that would be accepted silently and have no effect.
fn refuse_beside_dummy(low: &Low) -> Result<(), Failure> {
    let Some(dummy) = dummy_flag(low) else {
        let mut about_it = ["dummy-bytes", "dummy-delay"].iter();
        return match about_it.find(|flag| low.given(flag)) {
            Some(flag) => Err(Failure::usage(format!("--{flag} goes with --dummy; add it"))),
            None => Ok(()),
        };
    };
    for (flag, other) in [("access-log", "dummy-delay"), ("dummy-bytes", "dummy-empty")] {
        if low.given(flag) && low.given(other) {
            return Err(Failure::usage(format!(
                "--{flag} has no effect with --{other}; leave out one of them"
            )));
        }
    }
    if low.given("PATH") {
        return Err(Failure::usage(format!(
            "--{dummy} serves no site; leave out PATH or --{dummy}"
        )));
    }
    match flags_of_sites().find(|flag| low.given(flag)) {
        Some(flag) => Err(Failure::usage(format!(
            "--{flag} has no effect with --{dummy}, which serves no site; leave out one of them"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};
    use crate::settings::{
        AltSvc, CanonicalHost, CertificateFiles, Certificates, SelfSignedKey, Settings,
    };
    use pinion_builder::{CodingLevel, Method};
    use pinion_engine::limits::{BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS};
    use pinion_engine::quic::congestion::CongestionControl;
    use pinion_jobs::limits::UPLOADS_MAX_BYTES;
    use std::ffi::OsString;
    use std::num::NonZeroUsize;

    fn settings(line: &str) -> Result<Settings, Failure> {
        match command_line::parse(line.split(' ').map(OsString::from))? {
            ParsedCommand::Run(low) => Settings::from_low(&low),
            ParsedCommand::Help(page) => panic!("{page}"),
        }
    }

    fn served(line: &str) -> Serve {
        match settings(line) {
            Ok(Settings::Serve(serve)) => *serve,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn defaults_of_serve() {
        let serve = served("pinion serve");
        assert_eq!(serve.listen, [Listen::UNCONFIGURED]);
        assert_eq!(serve.io, Io::Auto);
        assert_eq!(serve.log_format, LogFormat::Combined);
        assert_eq!(serve.grace, Duration::from_secs(30));
        assert_eq!(serve.keep_alive_timeout, Duration::from_millis(IDLE_TIMEOUT_MS));
        assert_eq!(serve.header_timeout, Duration::from_millis(HEAD_TIMEOUT_MS));
        assert_eq!(serve.body_timeout, Duration::from_millis(BODY_TIMEOUT_MS));
        assert_eq!(serve.upload_space_bytes, UPLOADS_MAX_BYTES);
        assert_eq!((serve.workers, serve.max_connections), (None, None));
        assert_eq!((serve.access_log, serve.server_name), (None, None));
        let site = SiteSettings::from_low(&serve.low).expect("a site");
        assert_eq!((site.memory, site.watch, site.hosts.len()), (MemoryMode::Map, false, 0));
        for (line, is_terminal, is_watched) in [
            ("pinion serve", false, false),
            ("pinion serve", true, true),
            ("pinion serve --no-watch", true, false),
            ("pinion serve --watch", false, true),
        ] {
            let site = SiteSettings::from_low(&served(line).low).expect("a site");
            assert_eq!(site.watched_on(is_terminal).watch, is_watched, "{line} {is_terminal}");
        }
        assert!(!site.content.no_security_fields);
        assert_eq!(site.useless_content_flag(&ServedSource::Archive("a".into())), None);
    }

    /// This also holds if no address is configured.
    #[test]
    fn what_is_said_of_listeners_holds_for_the_one_that_is_not_written() {
        let serve = served("pinion serve --proxy-protocol 10.0.0.0/8");
        assert_eq!(serve.listen.len(), 1);
        assert_eq!(serve.listen[0].proxy_protocol.len(), 1);
        let serve = served("pinion serve --protocols h1");
        assert!(serve.listen.iter().all(|listen| !listen.protocols.tcp.http2), "{serve:?}");
        let refused = settings("pinion serve --protocols h3").err();
        let reason = refused.and_then(|failure| failure.reason()).expect("a usage error");
        assert!(reason.contains("nothing to speak at listen"), "{reason}");
    }

    #[test]
    fn the_dummy_has_what_content_and_time_it_is_given() {
        let of = |flags: &str| served(&format!("pinion serve {flags}")).dummy;
        let dummy =
            |bytes, ms: Option<u64>| Some(Dummy { bytes, delay: ms.map(Duration::from_millis) });
        assert_eq!(of("--workers 1"), None);
        assert_eq!(of("--dummy"), dummy(13, None));
        assert_eq!(of("--dummy --dummy-bytes 7 --dummy-delay 60ms"), dummy(7, Some(60)));
        assert_eq!(of("--dummy-empty --dummy-delay 2s"), dummy(0, Some(2000)));
        assert_eq!(of("--dummy --dummy-empty"), dummy(0, None));
    }

    #[test]
    fn every_flag_of_serve_is_taken() {
        let serve = served(
            "pinion serve site -l 80 --tls [::1]:443 --quic [::1]:443 --redirect-http 81 \
             --quic-congestion bbr --canonical-host a.org \
             --cert a --key ak --cert b --key bk --client-ca ca --protocols h1,h3 \
             --hsts 1d --alt-svc off \
             --proxy-protocol unix --proxy-protocol 192.0.2.0/24 \
             --trusted-proxy unix --trusted-proxy 10.0.0.0/8 \
             --listen unix:/a --workers 3 --io epoll --memory copy \
             --access-log - --log-format json --watch --lua-folder a=/b=c:ro --grace 5 \
             --secret a=/b --fetch-private --fetch-network 10.0.0.0/8 --fetch-socket /a \
             --fetch-pin sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= \
             --max-connections 9 --max-connections-per-client 8 --max-tunnels-per-client 6 \
             --keep-alive-timeout 600 --header-timeout 20 --body-timeout 40 --upload-space 2 \
             --max-requests-per-connection 7 --memory-budget 64 \
             --server-name pinion \
             --codings br --level fast --codings-for *.svg=br:9 --exclude a --exclude b \
             --include .a --immutable c --compat 80s \
             --rules r --rules s --fields f --lax-rules \
             --cache-control no-cache --no-security-headers --no-index --listing \
             --no-clean-urls --no-slash-redirects --no-etag \
             --single-page index.html --keep-going --jobs 2 \
             --php-fpm a --php-user b --php-processes 3 --php-upload-limit 5M \
             --php-pass-authorization --php-send-files / --no-exec c",
        );
        assert_eq!(serve.path, Some("site".into()));
        let listen = serve.listen.iter().map(|listen| (listen.kind, listen.address.to_string()));
        let expected = [
            (ListenKind::Http, ":80"),
            (ListenKind::Http, "unix:/a"),
            (ListenKind::Tls, "[::1]:443"),
            (ListenKind::Quic, "[::1]:443"),
            (ListenKind::Redirect, ":81"),
        ];
        assert!(listen.eq(expected.map(|(kind, text)| (kind, text.to_owned()))), "{serve:?}");
        assert!(serve.listen.iter().all(|listen| listen.congestion == CongestionControl::Bbr));
        assert_eq!(serve.listen[0].client_ca, None);
        assert_eq!(serve.listen[2].client_ca.as_deref(), Some("ca".as_ref()));
        assert!(serve.listen.iter().all(|listen| !listen.protocols.tcp.http2));
        let proxies = serve.listen.iter().map(|listen| listen.proxy_protocol.len());
        assert!(proxies.eq([2, 2, 2, 0, 2]), "not over QUIC: {serve:?}");
        let pair = |cert: &str, key: &str| CertificateFiles { cert: cert.into(), key: key.into() };
        let certificates = Certificates::Files(vec![pair("a", "ak"), pair("b", "bk")]);
        assert_eq!(serve.tls.certificates, certificates);
        assert_eq!(serve.tls.alt_svc, AltSvc::Off);
        assert_eq!(serve.tls.hsts.as_deref(), Some("max-age=86400"));
        let canonical = CanonicalHost { host: "a.org".to_owned(), port: None };
        assert_eq!(serve.tls.canonical, Some(canonical));
        // These flags cannot be used with --cert.
        let own = served("pinion serve site --tls 443 --tls-self rsa2048 --state s");
        assert_eq!(own.tls.state, Some("s".into()));
        let own_certificate = Certificates::SelfSigned { key: SelfSignedKey::Rsa2048 };
        assert_eq!(own.tls.certificates, own_certificate);
        assert_eq!((serve.workers, serve.io), (Some(3), Io::Epoll));
        assert_eq!(serve.access_log, Some(LogTarget::Stdout));
        assert_eq!(serve.log_format, LogFormat::Json);
        assert!(serve.dummy.is_none());
        assert_eq!(serve.grace, Duration::from_secs(5));
        assert_eq!((serve.max_connections, serve.max_requests_per_connection), (Some(9), Some(7)));
        assert_eq!(serve.max_connections_per_client, Some(8));
        assert_eq!(serve.max_tunnels_per_client, Some(6));
        assert_eq!(serve.keep_alive_timeout, Duration::from_secs(600));
        assert_eq!(serve.header_timeout, Duration::from_secs(20));
        assert_eq!(serve.body_timeout, Duration::from_secs(40));
        assert_eq!(serve.upload_space_bytes, 2 << 20);
        assert_eq!(serve.trusted_proxies.networks.len(), 2);
        assert_eq!(serve.memory_budget_bytes, Some(64 << 20));
        assert_eq!(serve.server_name.as_deref(), Some("pinion"));
        let site = SiteSettings::from_low(&serve.low).expect("a site");
        assert_eq!((site.memory, site.watch), (MemoryMode::Copy, true));
        let folder = FolderAt { name: "a".to_owned(), path: "/b=c".into(), is_read_only: true };
        assert_eq!(site.lua_folders, [folder]);
        let twice = settings("pinion serve site --lua-folder a=b --lua-folder a=c").err();
        assert!(
            twice.and_then(|failure| failure.reason()).is_some_and(|why| why.contains("twice"))
        );
        // This flag cannot be used with --cache-control.
        let without = served("pinion serve site --no-cache-control");
        let tried = |flag: &&str| serve.low.given(flag) || without.low.given(flag);
        assert!(CONTENT_FLAGS.iter().all(tried), "every flag is tried");
        assert!(SiteSettings::from_low(&without.low).expect("a site").content.no_cache_control);
        let keyed = |flag: &&str| directives::all().any(|r| r.name == *flag && r.file.is_some());
        assert!(CONTENT_FLAGS.iter().all(keyed), "every flag is a key of a folder's site");
        let content = site.content;
        let brotli = CodingLevel { method: Method::Brotli, level: 4 };
        assert_eq!(content.codings, Some(vec![brotli]));
        assert_eq!(content.codings_for[0].to_string(), "*.svg=br:9");
        assert_eq!(content.exclude, ["a", "b"]);
        assert_eq!((content.include[0].as_str(), content.immutable[0].as_str()), (".a", "c"));
        assert!(content.compat_80s);
        assert_eq!(content.cache_control.as_deref(), Some("no-cache"));
        assert!(content.keep_going && content.no_security_fields && content.no_index);
        assert!(content.listing);
        assert!(content.no_clean_urls && content.no_slash_redirects && content.no_etag);
        assert_eq!(content.single_page.as_deref(), Some("index.html"));
        assert_eq!(content.jobs, NonZeroUsize::new(2));
    }
}
