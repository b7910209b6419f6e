//! The second half of a start: the threads, and the wait for their end.

use super::access::limits::{TUNNELS_DIVISOR, TUNNELS_MIN};
use super::access::request_authorization::{AccessGate, AccessShared};
use super::acme::AcmeChallenges;
use super::app::SitesApp;
use super::capacity::Capacity;
use super::configuration_reload::{LiveSettings, Renewal, Started};
use super::control_thread::Controlled;
use super::deferred_responses::Dynamic;
use super::dev::reload_streams::ReloadStreams;
use super::dummy_server::DummyApp;
use super::explainer::Explainer;
use super::gateway::{Gateway, GatewayShared};
use super::https_redirect::{Leads, Redirect};
use super::listeners::{Bound, BoundQuic};
use super::program_table::ProgramTable;
use super::request_log::{ClientRefusals, RequestLog};
use super::running_programs::RunningPrograms;
use super::sd_notify::Notifier;
use super::server_keys::ServerKeys;
use super::site_roster::Published;
use super::sites::{self, LoadedSite, Sites};
use super::socket_files::SocketFiles;
use super::startup::{Kit, KitPrograms};
use super::startup_messages::{Hosts, print_ready, print_start, urls};
use super::stats::{Stats, Tally};
use super::status::StatusSource;
use super::store::{
    StoreClients, StoreJobs, StoreShared, StoredPages, monotonic_us, start_upkeep, unix_ms, unix_us,
};
use super::tls::{Keeper, Tls};
use crate::access_log::{AccessLog, LogHandle, OpenLogs};
use crate::explain::server_settings::ServerSettings;
use crate::failure::Failure;
use crate::plan::ConfigFile;
use crate::settings::{AltSvc, Dummy, ListenKind, Serve};
use anyhow::Context as _;
use pinion_engine::Poster;
use pinion_engine::listener::{Listener, QuicListener, local_address};
use pinion_engine::quic::config::{QuicConfig, QuicKeys};
use pinion_engine::server::{Kit as EngineKit, RunningServer};
use pinion_engine::settings::{
    ListenerSettings, Protocol, ProxySources, StreamTimeouts, WorkerSettings,
};
use pinion_engine::stderr;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_lua::store_access::StoreAccess;
use pinion_lua::worker_scripts::{Scripts, SharedByScripts};
use pinion_store::settings::Clock as StoreClock;
use pinion_store::store::Store;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How long clients remember that there is HTTP/3, in seconds: a day, which is also their default
/// (RFC 7838 §3.1).
const ALT_SVC_SECONDS: u32 = 86_400;

/// Serves until SIGTERM or SIGINT, and returns when everything has ended.
///
/// # Errors
/// Something could not be started. Once the first request is served nothing fails any more.
pub(crate) fn run(kit: Kit) -> Result<(), Failure> {
    let (started, hosts) = ((Instant::now(), SystemTime::now()), Hosts::of(&kit.sites));
    print_start(&kit);
    let Kit {
        settings,
        config,
        signals,
        manager,
        listeners,
        quic,
        files,
        control: socket,
        tls,
        keys,
        logs,
        log,
        sites,
        programs,
        io,
        workers,
        capacity,
        has_built,
        ..
    } = kit;
    let log = start_logs(&logs, log)?;
    let (urls, leads) = (urls(&listeners, &quic), leads(tls.as_ref(), &listeners));
    let explained = ServerSettings::of_server(&settings, &listeners, &quic, leads.as_ref());
    let (listeners, quic) = of_engine(&settings, (listeners, quic), tls.as_ref(), keys)?;
    let (limits, keeper) = (engine_settings(&settings, &capacity), start_keeper(tls)?);
    let engine = EngineKit { listeners, quic, settings: limits, workers, io };
    let (every, live) = (settings.stats, Arc::new(LiveSettings::new(&settings)));
    let tally = tally(&settings, socket.is_some());
    let configuration = config.as_ref().map(|config| config.path.clone());
    let desks = Desks::new(log.clone(), tally.clone(), &settings);
    let (table, notifier) = (programs.table.clone(), manager.notifier.clone());
    let starting = Starting { config, sites, logs, programs, notifier, capacity, leads };
    let Serving { server, published, renewal, running, store } =
        starting.serve(settings, engine, desks, (Arc::clone(&live), keeper.clone()))?;
    let stats = start_stats(every, tally.clone(), &server)?;
    let status = StatusSource {
        started,
        configuration,
        listeners: urls.clone(),
        workers: (workers, io),
        capacity,
        published: published.clone(),
        programs: table.clone(),
        running: running.clone(),
        store,
        certificates: keeper.as_ref().map(Keeper::served),
        tally,
    };
    manager.start_watchdog(server.control())?;
    let controlled = Controlled {
        explainer: Explainer::new(socket.as_ref(), explained, published.as_ref()),
        signals,
        socket,
        control: server.control(),
        notifier: manager.notifier.clone(),
        renewal,
        keeper,
        log: log.clone(),
        live,
        status,
    };
    let print = || print_ready(&urls, &hosts, has_built);
    let started = controlled.start_ready(published, running.as_ref(), print);
    end((server, started.is_err()), (&table, running.as_ref()), files, stats, log);
    started
}

/// The prepared parts of the sites before the workers start.
struct Starting {
    config: Option<ConfigFile>,
    sites: Vec<LoadedSite>,
    logs: Arc<OpenLogs>,
    programs: KitPrograms,
    notifier: Notifier,
    capacity: Capacity,
    leads: Option<Leads>,
}

/// The workers, and the parts that publish and reload their sites; the dummy has none to serve.
struct Serving {
    server: RunningServer,
    published: Option<Arc<Published>>,
    renewal: Option<Renewal>,
    running: Option<RunningPrograms>,
    store: Option<Arc<Store>>,
}

impl Starting {
    /// Starts the workers, and the threads beside them for the sites.
    fn serve(
        self,
        settings: Serve,
        engine: EngineKit,
        desks: Desks,
        (live, keeper): (Arc<LiveSettings>, Option<Keeper>),
    ) -> Result<Serving, Failure> {
        if let Some(dummy) = &settings.dummy {
            let server = start_dummy(dummy, engine, desks)?;
            let (published, renewal, running, store) = (None, None, None, None);
            return Ok(Serving { server, published, renewal, running, store });
        }
        let Self {
            config,
            sites,
            logs,
            programs: KitPrograms { table: programs, configured, of_sites },
            notifier,
            capacity,
            leads,
        } = self;
        programs.watch(notifier).context("cannot start the thread for the end of programs")?;
        let store = store(&settings, &engine)?;
        let uploads = UploadQuota::new(settings.upload_space_bytes, capacity.upload_files);
        let mut scripts = SharedByScripts::new(engine.workers, uploads, capacity.script_memory)
            .with_spawner(programs.access());
        if let Some(StoreShared { store, jobs, .. }) = store.clone() {
            scripts = scripts.with_store(StoreAccess { store, jobs });
        }
        let stored = store.as_ref().map(|shared| Arc::clone(&shared.store));
        let own = (programs.clone(), configured);
        let sites = (sites, logs, programs);
        let (server, sites) =
            start_sites(sites, engine, desks, &settings, scripts, (leads, store))?;
        let published = Some(sites.published());
        let started = Started { low: settings.low, listen: settings.listen };
        let of_server = (server.poster(), server.control());
        let running = RunningPrograms::new(own, of_sites, of_server);
        let renewal = Renewal::start((sites, running.clone()), config, started, live, keeper);
        let renewal = Some(renewal.context("cannot start the thread for the configuration")?);
        Ok(Serving { server, published, renewal, running: Some(running), store: stored })
    }
}

/// Starts the thread that reloads changed certificates, if there are any.
fn start_keeper(tls: Option<Tls>) -> Result<Option<Keeper>, Failure> {
    Ok(tls.map(Keeper::start).transpose().context("cannot start the thread for certificates")?)
}

/// Returns the counter of responses, if the figures can be read and there can be any.
fn tally(settings: &Serve, has_control_socket: bool) -> Option<Arc<Tally>> {
    let is_reported = settings.stats.is_some() || has_control_socket;
    (is_reported && !settings.is_store_only()).then(Arc::default)
}

/// Starts the thread of the figures, if it was asked for. `every` is its interval, `tally` its
/// source.
fn start_stats(
    every: Option<Duration>,
    tally: Option<Arc<Tally>>,
    server: &RunningServer,
) -> Result<Option<Stats>, Failure> {
    let stats = every.map(|every| Stats::start(every, tally, server.control()));
    Ok(stats.transpose().context("cannot start the thread for the figures")?)
}

/// Waits for the end of the workers, and ends the parts that outlast them: programs, files of
/// sockets, the threads of figures and logs. Workers are stopped at once if the start has failed.
fn end(
    (server, has_failed): (RunningServer, bool),
    (programs, running): (&ProgramTable, Option<&RunningPrograms>),
    files: SocketFiles,
    stats: Option<Stats>,
    log: Option<Arc<AccessLog>>,
) {
    if has_failed {
        server.control().stop();
    }
    server.join();
    if let Some(left) = programs.stop(programs.grace()) {
        stderr::line(format_args!("pinion: {left}"));
    }
    if let Some(running) = running {
        running.remove_files();
    }
    drop(files);
    if let Some(stats) = stats {
        stats.finish();
    }
    if let Some(log) = log {
        log.finish();
    }
}

/// Returns the listeners as the engine has them: those of TCP and of Unix sockets, and those of
/// QUIC.
fn of_engine(
    settings: &Serve,
    (listeners, quic): (Vec<Bound>, Vec<BoundQuic>),
    tls: Option<&Tls>,
    keys: Option<ServerKeys>,
) -> Result<(Vec<Listener>, Vec<QuicListener>), Failure> {
    let alt_svc = alt_svc(settings, &quic);
    let listeners = self::listeners(settings, listeners, tls, alt_svc.as_deref());
    let quic = endpoints(settings, quic, tls, keys.map(|keys| keys.quic).as_ref())?;
    Ok((listeners, quic))
}

/// Returns the listeners of TCP and of Unix sockets.
fn listeners(
    settings: &Serve,
    bound: Vec<Bound>,
    tls: Option<&Tls>,
    alt_svc: Option<&str>,
) -> Vec<Listener> {
    let listener = |Bound { socket, listen, .. }| {
        let tls = tls.and_then(|tls| tls.config(&listen));
        let mut fields = fields_of(settings, tls.is_some());
        // A value from the operator is sent also where this server has no HTTP/3 of its own.
        let announces_http3 = listen.protocols.http3 || settings.tls.alt_svc != AltSvc::Found;
        if let (Some(value), Some(_), true) = (alt_svc, &tls, announces_http3) {
            fields.extend_from_slice(format!("Alt-Svc: {value}\r\n").as_bytes());
        }
        let is_store = listen.kind.is_store();
        let http = Protocol::Http(listen.protocols.tcp);
        let protocol = if is_store { Protocol::ByteStream } else { http };
        // Clients of a store keep connections that they do not use.
        let idle_ms = if is_store { None } else { StreamTimeouts::default().idle_ms };
        let streams = StreamTimeouts { idle_ms, ..StreamTimeouts::default() };
        let proxies = listen.proxy_protocol;
        let proxy_protocol = (!proxies.is_empty()).then(|| {
            ProxySources::new(move |from| proxies.iter().any(|network| network.contains(from)))
        });
        let settings = ListenerSettings { protocol, fields, tls, streams, proxy_protocol };
        Listener { socket: Arc::new(socket), settings }
    };
    bound.into_iter().map(listener).collect()
}

/// Returns the listeners of QUIC.
fn endpoints(
    settings: &Serve,
    bound: Vec<BoundQuic>,
    tls: Option<&Tls>,
    keys: Option<&QuicKeys>,
) -> Result<Vec<QuicListener>, Failure> {
    let mut endpoints = Vec::new();
    let idle_ms = milliseconds(settings.keep_alive_timeout);
    for BoundQuic { sockets, listen, .. } in bound {
        let tls = tls.and_then(|tls| tls.config(&listen)).context("QUIC needs certificates")?;
        let keys = keys.context("QUIC needs keys")?;
        let config = QuicConfig::new(&tls, keys.clone(), idle_ms, listen.congestion);
        let config = config.context("no cipher suite for QUIC")?;
        let protocol = Protocol::Http(listen.protocols.tcp);
        let fields = fields_of(settings, true);
        endpoints.push(QuicListener {
            sockets: sockets.into_iter().map(Arc::new).collect(),
            settings: ListenerSettings {
                fields,
                tls: Some(tls),
                ..ListenerSettings::plain(protocol)
            },
            config,
        });
    }
    Ok(endpoints)
}

fn engine_settings(settings: &Serve, capacity: &Capacity) -> WorkerSettings {
    WorkerSettings {
        connections: capacity.connections as usize,
        connections_per_client: settings.max_connections_per_client,
        trusted_proxies: settings.trusted_proxies.sources(),
        outgoing: capacity.outgoing as usize,
        head_ms: milliseconds(settings.header_timeout),
        body_ms: milliseconds(settings.body_timeout),
        idle_ms: milliseconds(settings.keep_alive_timeout),
        requests_per_connection: settings.max_requests_per_connection,
        buffer_bytes: capacity.buffer_bytes as usize,
        ..WorkerSettings::default()
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis() as u64
}

fn fields_of(settings: &Serve, is_tls: bool) -> Vec<u8> {
    fields(settings.server_name.as_deref(), settings.tls.hsts.as_deref(), is_tls)
}

/// Returns the field lines for every response of a listener. A rule for browsers about HTTPS (HSTS)
/// is worth nothing where any party could have written it (RFC 6797 §7.2).
pub(crate) fn fields(server_name: Option<&str>, hsts: Option<&str>, is_tls: bool) -> Vec<u8> {
    let mut fields = Vec::new();
    if let Some(name) = server_name {
        fields.extend_from_slice(format!("Server: {name}\r\n").as_bytes());
    }
    if let (Some(hsts), true) = (hsts, is_tls) {
        fields.extend_from_slice(format!("Strict-Transport-Security: {hsts}\r\n").as_bytes());
    }
    fields
}

/// Returns the value of Alt-Svc, which announces HTTP/3 to clients of TLS.
fn alt_svc(settings: &Serve, quic: &[BoundQuic]) -> Option<String> {
    let sockets = quic.iter().filter_map(|bound| bound.sockets.first());
    let ports = sockets.filter_map(|socket| Some(local_address(socket)?.port()));
    alt_svc_of(&settings.tls.alt_svc, ports.collect())
}

/// Returns the value of `Alt-Svc` if HTTP/3 is at these ports.
pub(crate) fn alt_svc_of(alt_svc: &AltSvc, mut ports: Vec<u16>) -> Option<String> {
    match alt_svc {
        AltSvc::Off => None,
        AltSvc::Value(value) => Some(value.clone()),
        AltSvc::Found => {
            ports.sort_unstable();
            ports.dedup();
            let services = ports.iter().map(|port| format!("h3=\":{port}\"; ma={ALT_SVC_SECONDS}"));
            let services: Vec<String> = services.collect();
            (!services.is_empty()).then(|| services.join(", "))
        }
    }
}

/// Returns where the listeners that redirect lead; `None` without any.
fn leads(tls: Option<&Tls>, bound: &[Bound]) -> Option<Leads> {
    let is_redirect = |bound: &Bound| bound.listen.kind == ListenKind::Redirect;
    let first = bound.iter().find(|bound| bound.listen.kind == ListenKind::Tls);
    let port = first.and_then(|bound| local_address(&bound.socket)).map(|found| found.port());
    let origin = tls?.origin(port)?.into();
    Some(Leads { listeners: bound.iter().map(is_redirect).collect(), origin })
}

/// The logs and counters that workers write to.
#[derive(Clone)]
struct Desks {
    log: Option<Arc<AccessLog>>,
    tally: Option<Arc<Tally>>,
    refusals: Arc<ClientRefusals>,
}

impl Desks {
    fn new(log: Option<Arc<AccessLog>>, tally: Option<Arc<Tally>>, settings: &Serve) -> Self {
        let max = settings.max_connections_per_client.unwrap_or_default();
        let refusals = Arc::new(ClientRefusals { max, ..ClientRefusals::default() });
        Self { log, tally, refusals }
    }

    /// Returns the request log of one more worker.
    fn request_log(&self) -> RequestLog {
        let logger = self.log.as_deref().map(AccessLog::logger);
        let counts = self.tally.as_deref().map(Tally::counts);
        RequestLog::new(logger, counts, Arc::clone(&self.refusals))
    }
}

/// Starts the threads that write the logs, if there are any.
fn start_logs(
    logs: &Arc<OpenLogs>,
    server: Option<Arc<LogHandle>>,
) -> Result<Option<Arc<AccessLog>>, Failure> {
    if logs.len() == 0 {
        logs.leave_unwritten();
        return Ok(None);
    }
    let log = AccessLog::start(Arc::clone(logs), server).context("cannot start the access log")?;
    Ok(Some(Arc::new(log)))
}

fn start_sites(
    (sites, logs, programs): (Vec<LoadedSite>, Arc<OpenLogs>, ProgramTable),
    engine: EngineKit,
    desks: Desks,
    settings: &Serve,
    scripts: SharedByScripts,
    (leads, store): (Option<Leads>, Option<StoreShared>),
) -> Result<(RunningServer, Sites), Failure> {
    let (published, starting) = sites::publish(sites);
    let for_workers = Arc::clone(&published);
    let health = settings.health.clone();
    let trusted_proxies = Arc::new(settings.trusted_proxies.clone());
    let webroot: Option<Arc<Path>> = settings.tls.acme_webroot.as_deref().map(Into::into);
    let outgoing = engine.settings.outgoing as u64;
    let tunnels = settings.max_tunnels_per_client;
    let tunnels = tunnels.unwrap_or_else(|| tunnels_per_client(outgoing));
    let jobs = Arc::clone(&scripts.jobs);
    let access = AccessShared::new(jobs, scripts.password_limits(), tunnels)?;
    let (resolver, uploads) = (scripts.resolver(), scripts.uploads());
    let gateways =
        GatewayShared::new(resolver, engine.settings.outgoing, uploads, programs.access());
    let make_app = move |worker, poster: Poster| {
        let store = store.clone().map(|shared| StoreClients::new(shared, poster.clone()));
        let gateway = Gateway::new(gateways.clone(), worker, poster.clone());
        let access = AccessGate::new(Arc::clone(&access), worker, poster.clone());
        let streams = ReloadStreams::new(poster.clone());
        let redirect = leads.clone().map(Redirect::new);
        let dynamic = Dynamic::new(Scripts::new(&scripts, worker, poster), streams);
        let published = Arc::clone(&for_workers);
        let trusted = Arc::clone(&trusted_proxies);
        let challenges = webroot.clone().map(AcmeChallenges::new);
        let (request_log, health) = (desks.request_log(), health.clone());
        let dynamic = (dynamic, gateway, access);
        let more = (challenges, store);
        SitesApp::new(published, request_log, health, redirect, trusted, dynamic, more)
    };
    let server = RunningServer::start(engine, make_app).context("cannot start the workers")?;
    let sites = Sites::start(starting, published, logs, programs, server.control())?;
    Ok((server, sites))
}

/// Makes the store, if there is one, and starts its threads.
fn store(settings: &Serve, engine: &EngineKit) -> Result<Option<StoreShared>, Failure> {
    let Some(mut settings) = settings.store.loaded().cloned() else { return Ok(None) };
    settings.clock = Some(StoreClock(monotonic_us));
    settings.unix_clock = Some(StoreClock(unix_us));
    let is_store = |listener: &Listener| listener.settings.protocol == Protocol::ByteStream;
    let listeners: Arc<[bool]> = engine.listeners.iter().map(is_store).collect();
    let mut random = [0; 24];
    getrandom::fill(&mut random).context("the system has no random bytes")?;
    let store = Arc::new(Store::new(settings, random, unix_ms()));
    let kills = Arc::default();
    start_upkeep(&store, &kills).context("cannot start the thread of the store")?;
    let jobs = StoreJobs::start(&store).context("cannot start the threads of the store")?;
    let pages = Arc::new(StoredPages::new(Arc::clone(&store)));
    Ok(Some(StoreShared { store, jobs, kills, pages, listeners }))
}

/// Returns how many tunnels a client may have by default, of so many connections to other servers.
fn tunnels_per_client(outgoing: u64) -> u32 {
    let share = (outgoing / TUNNELS_DIVISOR).max(TUNNELS_MIN);
    share.try_into().unwrap_or(u32::MAX)
}

fn start_dummy(dummy: &Dummy, engine: EngineKit, desks: Desks) -> Result<RunningServer, Failure> {
    let dummy = *dummy;
    let make_app = move |_worker, _poster| DummyApp::new(&dummy, desks.request_log());
    Ok(RunningServer::start(engine, make_app).context("cannot start the workers")?)
}
