//! The first half of a start: everything that needs the main thread alone, a name in the file
//! system or a privilege. The threads that it needs have ended when it returns. Its result is
//! values; [`super::server_threads`] opens no more files by name except for a reload.

use super::access::access_memory_footprint::AccessFootprint;
use super::capacity::{Capacity, Load, default_workers, raise_descriptors};
use super::listeners::{self, Bound, BoundQuic};
use super::memory_limit::MemoryLimit;
use super::passed_sockets::PassedSockets;
use super::program_table::ProgramTable;
use super::server_keys::ServerKeys;
use super::service_manager::ServiceManager;
use super::site_programs::SitePrograms;
use super::sites::{LoadedSite, UnloadedSite};
use super::socket_files::SocketFiles;
use super::startup_interrupt;
use super::tls::Tls;
use crate::access_log::{LogHandle, OpenLogs};
use crate::control::socket;
use crate::failure::{Failure, without_number};
use crate::path_warnings;
use crate::plan::{ConfigFile, PlannedSite, ServerPlan};
use crate::served_source::ServedSource;
use crate::settings::{self, LogTarget, Serve};
use crate::terminal::counted;
use crate::warnings_and_notes;
use anyhow::{Context as _, anyhow};
use pinion_engine::backend::probe_uring;
use pinion_engine::file_mapping;
use pinion_engine::release_memory;
use pinion_engine::server::Io;
use pinion_engine::signals::{self, Signals};
use pinion_engine::tls::tickets::Tickets;
use pinion_lua::script_quotas::Allowance;
use pinion_spawner::start_table::ProgramStart;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Everything a server needs.
pub(crate) struct Kit {
    /// The settings.
    pub(crate) settings: Serve,
    /// The configuration file, from which they can be read again.
    pub(crate) config: Option<ConfigFile>,
    /// The served content, in words.
    pub(crate) description: String,
    /// Blocked; the proof that it happened before any other thread.
    pub(crate) signals: Signals,
    /// The service manager that has started the server, and gets its messages.
    pub(crate) manager: ServiceManager,
    /// The listeners of TCP and Unix sockets; none where QUIC is alone.
    pub(crate) listeners: Vec<Bound>,
    /// The listeners of QUIC.
    pub(crate) quic: Vec<BoundQuic>,
    /// The files of the listeners that are Unix sockets.
    pub(crate) files: SocketFiles,
    /// The control socket, if there is one.
    pub(crate) control: Option<OwnedFd>,
    /// The state of TLS; none without listeners that encrypt.
    pub(crate) tls: Option<Tls>,
    /// The keys of sessions and connections that clients come back with; none where nothing is
    /// encrypted.
    pub(crate) keys: Option<ServerKeys>,
    /// Every log that is open.
    pub(crate) logs: Arc<OpenLogs>,
    /// Of these, the log of the server.
    pub(crate) log: Option<Arc<LogHandle>>,
    /// The first generations of the sites, and how to load them again; none for the dummy, and for
    /// a server with only a store.
    pub(crate) sites: Vec<LoadedSite>,
    /// The programs of the sites, and the programs that are kept running.
    pub(crate) programs: KitPrograms,
    /// The interface to the kernel.
    pub(crate) io: Io,
    /// The number of workers.
    pub(crate) workers: usize,
    /// The number of connections and the memory.
    pub(crate) capacity: Capacity,
    /// The memory of the machine.
    pub(crate) memory: MemoryLimit,
    /// Whether a folder was built, which leaves memory behind that serving does not need.
    pub(crate) has_built: bool,
}

/// The programs of a server.
pub(crate) struct KitPrograms {
    /// All of them.
    pub(crate) table: ProgramTable,
    /// The programs of `[[program]]`.
    pub(crate) configured: Vec<ProgramStart>,
    /// The programs that the server starts for its sites.
    pub(crate) of_sites: SitePrograms,
}

/// Prepares a start. Fails before anything is served if anything is wrong.
///
/// # Errors
/// One line that names the obstacle.
pub(crate) fn prepare(plan: ServerPlan, mut manager: ServiceManager) -> Result<Kit, Failure> {
    plan.check_privileges()?;
    plan.program_file_faults.iter().for_each(warnings_and_notes::warning);
    let ServerPlan { serve: mut settings, mut sites, programs, config, .. } = plan;
    let has_built = sites.iter().any(|site| matches!(site.source, ServedSource::Folder(_)));
    // Before anything is made for the listeners, such as a certificate.
    listeners::check(&settings.listen)?;
    let of_sites = SitePrograms::default().next(&mut sites, &programs)?;
    // Before every thread, so that all threads inherit it, also the ones that build a folder.
    let signals = signals::block().context("cannot block signals")?;
    // While nothing is in memory that programs should not see, such as keys.
    let named = sites.iter().flat_map(|site| site.settings.script_access.programs());
    let cgi = sites.iter().flat_map(|site| site.settings.mounts.cgi());
    let table = ProgramTable::fork(of_sites.kept(&programs), named, cgi)?;
    file_mapping::guard_lost_pages().context("cannot watch over mapped files")?;
    let (descriptors, files) = (raise_descriptors(), SocketFiles::default());
    let keys = settings.encrypts().then(|| ServerKeys::of(&settings)).transpose()?;
    let tickets = keys.as_ref().map(|keys| &keys.tickets);
    let memory = MemoryLimit::of_process();
    settings.store.load(memory.bytes)?;
    let most_workers = settings.workers.unwrap_or_else(|| default_workers(cores(), memory.bytes));
    let passed = std::mem::take(&mut manager.sockets);
    let open = || open(&settings, most_workers, sites, &table, (&files, passed), tickets);
    let opened = startup_interrupt::endable(&signals, &files, open)?;
    let OpenedParts { io, logs, log, tls, listeners, mut quic, control, sites } = opened;
    let description = in_words(&settings, &sites, config.as_ref());
    let scripts = sites.iter().filter_map(|site| site.first.program());
    let scripts: Vec<Allowance> = scripts.map(|program| *program.allowance()).collect();
    let rules = sites.iter().filter_map(|site| site.first.access());
    let load = Load {
        scripts: &scripts,
        forwards: sites.iter().any(|site| !site.first.mounts().is_empty()),
        stores_uploads: sites.iter().any(|site| site.first.mounts().store_uploads()),
        access: AccessFootprint::of(rules.map(|rules| &**rules)),
        memory_bytes: memory.bytes,
        workers: most_workers,
        io,
        sites: sites.len(),
        file_senders: sites.iter().map(|site| site.first.file_senders()).sum(),
        external_files: sites.iter().map(|site| site.first.mapping().external_count()).sum(),
        configured: config.is_some(),
        logs: logs.len(),
        datagram_sockets: quic.iter().map(|bound| bound.sockets.len()).sum(),
    };
    let (Load { workers, .. }, capacity) = Capacity::with_workers(&settings, descriptors, load)?;
    // Clients of a worker that does not run come to the others.
    quic.iter_mut().for_each(|bound| bound.sockets.truncate(workers));
    Ok(Kit {
        settings,
        config,
        description,
        signals,
        manager,
        listeners,
        quic,
        files,
        control,
        tls,
        keys,
        logs,
        log,
        sites,
        programs: KitPrograms { table, configured: programs, of_sites },
        io,
        workers,
        capacity,
        memory,
        has_built,
    })
}

fn in_words(settings: &Serve, sites: &[LoadedSite], config: Option<&ConfigFile>) -> String {
    let served = match sites {
        [] if settings.dummy.is_some() => "dummy".to_owned(),
        [] => "a store".to_owned(),
        [site] if config.is_none() => site.in_words(),
        sites => counted(sites.len() as u64, "site"),
    };
    match config {
        Some(config) => format!("{} with {served}", config.path.display()),
        None => served,
    }
}

/// The parts whose opening can keep a start waiting.
struct OpenedParts {
    io: Io,
    logs: Arc<OpenLogs>,
    log: Option<Arc<LogHandle>>,
    tls: Option<Tls>,
    listeners: Vec<Bound>,
    quic: Vec<BoundQuic>,
    control: Option<OwnedFd>,
    sites: Vec<LoadedSite>,
}

fn open(
    settings: &Serve,
    workers: usize,
    sites: Vec<PlannedSite>,
    programs: &ProgramTable,
    (files, mut passed): (&SocketFiles, PassedSockets),
    tickets: Option<&Arc<Tickets>>,
) -> Result<OpenedParts, Failure> {
    let unloaded: Result<Vec<_>, _> =
        sites.into_iter().map(|site| UnloadedSite::new(site, programs)).collect();
    // A fault in a pattern shows before anything is touched.
    let unloaded = unloaded?;
    let io = choose_io(settings.io, workers)?;
    let logs = Arc::new(OpenLogs::default());
    let log = settings.access_log.as_ref().map(|target| {
        let opened = logs.open(target, settings.log_format);
        opened.with_context(|| format!("cannot open the access log {target}"))
    });
    let log = log.transpose()?;
    let tls = tickets.map(|tickets| Tls::open(settings, tickets)).transpose()?;
    // Before folders are built: an address in use need not wait for that.
    let listeners = listeners::bind_all(&settings.listen, files, &mut passed)?;
    let quic = listeners::bind_quic(&settings.listen, workers, &mut passed)?;
    passed.report_unused();
    warn_of_paths(settings, &unloaded);
    let sites = load_all(unloaded, &logs)?;
    // Before the workers have memory of their own in it.
    release_memory::release_heap();
    // Last, since no thread responds there before everything runs.
    let control = socket::bind(&settings.control, files)?;
    Ok(OpenedParts { io, logs, log, tls, listeners, quic, control, sites })
}

/// Loads every site, so that the failures of all of them are known at once.
fn load_all(unloaded: Vec<UnloadedSite>, logs: &OpenLogs) -> Result<Vec<LoadedSite>, Failure> {
    let (mut sites, mut failures) = (Vec::new(), Vec::new());
    for site in unloaded {
        match site.load(logs) {
            Ok(site) => sites.push(site),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.len() {
        0 => Ok(sites),
        1 => failures.pop().map_or(Ok(sites), Err),
        _ => Err(Failure::SeveralSites(failures)),
    }
}

/// Warns about paths that were most likely not meant.
fn warn_of_paths(settings: &Serve, sites: &[UnloadedSite]) {
    let webroot = settings.tls.acme_webroot.as_deref();
    if let Some(warning) = webroot.and_then(path_warnings::of_acme_webroot) {
        warnings_and_notes::warning(format_args!("--acme-webroot: {warning}"));
    }
    let of_sites = sites.iter().filter_map(UnloadedSite::access_log);
    let mut logs: Vec<&LogTarget> = settings.access_log.iter().chain(of_sites).collect();
    logs.sort_unstable();
    logs.dedup();
    for log in logs {
        let sources = sites.iter().map(UnloadedSite::source);
        if let Some(warning) = path_warnings::of_log(log, sources) {
            warnings_and_notes::warning(warning);
        }
    }
    let mounts = sites.iter().flat_map(|site| site.mounts().all());
    for warning in mounts.flat_map(path_warnings::of_no_exec) {
        warnings_and_notes::warning(format_args!("no-exec: {warning}"));
    }
}

/// Returns io_uring where it works, unless epoll was asked for. The choice is reported when a user
/// does not expect it.
fn choose_io(asked: settings::Io, workers: usize) -> Result<Io, Failure> {
    if asked == settings::Io::Epoll {
        return Ok(Io::Epoll);
    }
    match (probe_uring(workers).map_err(|reason| without_number(&reason)), asked) {
        (Ok(()), _) => Ok(Io::Uring),
        (Err(reason), settings::Io::Uring) => {
            Err(anyhow!("io_uring is not available ({reason}); use --io auto or --io epoll").into())
        }
        (Err(reason), _) => {
            warnings_and_notes::note(format_args!(
                "io_uring is not available ({reason}), using epoll"
            ));
            Ok(Io::Epoll)
        }
    }
}

/// Returns the number of cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
