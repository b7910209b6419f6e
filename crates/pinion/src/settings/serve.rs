//! The settings of `pinion serve` that the whole server has. Those of its sites are in
//! [`super::site`].

use super::python_project::with_found_project;
use super::store::StoreSettings;
use super::{
    Listen, ListenKind, SiteSettings, TlsSettings, choice, field_value, listeners_and_tls,
    networks, number, optional, path, path_or_stdout, row, single,
};
use crate::directive_value_parsers::{self, http_values};
use crate::directives::verbs::Verb;
use crate::directives::{self, Directive, DirectiveLevel};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::server::trusted_proxies::TrustedProxies;
use pinion_http::forwarded_client::ClientField;
use std::fmt;
use std::path::{Path, PathBuf};
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

    /// Returns the format of this name, or `Combined` for any other name.
    pub(super) fn named(name: &str) -> Self {
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
    let path = single(low, "health", http_values::url_path)?;
    Ok(path.map(|path| HealthCheck { path, is_logged: !low.given("no-health-log") }))
}

fn client_field(low: &Low) -> Result<ClientField, Failure> {
    let name = single(low, "client-ip-header", http_values::field_name)?.unwrap_or_default();
    Ok(ClientField::named(name.as_bytes()))
}

/// Reads a number of seconds that has a default.
fn seconds(low: &Low, name: &'static str) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(number(low, name)?.unwrap_or_default()))
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
    use crate::served_source::ServedSource;
    use crate::settings::{
        AltSvc, CanonicalHost, CertificateFiles, Certificates, MemoryMode, SelfSignedKey, Settings,
        content_flags,
    };
    use pinion_builder::{CodingLevel, Method};
    use pinion_engine::limits::{BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS};
    use pinion_engine::quic::congestion::CongestionControl;
    use pinion_jobs::confined_folders::FolderAt;
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
    fn settings_of_listeners_apply_to_the_default_listener() {
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
    fn the_dummy_has_the_configured_size_and_delay() {
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
    fn every_flag_of_serve_is_parsed() {
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
        let tried = |flag: &str| serve.low.given(flag) || without.low.given(flag);
        assert!(content_flags().all(tried), "every flag is tried");
        assert!(SiteSettings::from_low(&without.low).expect("a site").content.no_cache_control);
        let keyed = |flag: &str| directives::all().any(|r| r.name == flag && r.file.is_some());
        assert!(content_flags().all(keyed), "every flag is a key of a folder's site");
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
