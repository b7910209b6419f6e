//! The first half of a start: everything that needs the main thread alone, a name in the file
//! system or a privilege. Threads that it needs are gone when it is over. What comes out is values;
//! [`super::run`] opens nothing by name any more but what a reload needs.

use super::capacity::{Capacity, raise_descriptors};
use super::generation::Generation;
use super::interrupt;
use super::listeners::{self, Bound};
use super::loader::Loader;
use super::socket_files::SocketFiles;
use super::watch::Watch;
use crate::access_log::Output;
use crate::failure::{Failure, without_number};
use crate::settings::{self, LogTarget, Serve};
use crate::source::{self, Source};
use anyhow::{Context as _, anyhow};
use pinion_engine::backend::probe_uring;
use pinion_engine::mapping;
use pinion_engine::residency;
use pinion_engine::server::Io;
use pinion_engine::signals::{self, Signals};
use pinion_engine::stderr;

/// Everything a server needs.
pub(crate) struct Kit {
    /// What was asked for.
    pub(crate) settings: Serve,
    /// Blocked; the proof that it happened before any other thread.
    pub(crate) signals: Signals,
    /// At least one.
    pub(crate) listeners: Vec<Bound>,
    /// The files of those that are Unix sockets.
    pub(crate) files: SocketFiles,
    /// The open log.
    pub(crate) log: Option<Output>,
    /// The site and how to load it again; none for the dummy.
    pub(crate) site: Option<Site>,
    /// How to talk to the kernel.
    pub(crate) io: Io,
    /// How many workers.
    pub(crate) workers: usize,
    /// How many connections, how much memory.
    pub(crate) capacity: Capacity,
}

/// What is served first, and how to load the next.
pub(crate) struct Site {
    /// From the first load.
    pub(crate) first: Generation,
    /// For every further one.
    pub(crate) loader: Loader,
    /// Asks for further ones, when that was asked for.
    pub(crate) watch: Option<Watch>,
}

/// Prepares a start. Fails before anything is served if anything is wrong.
///
/// # Errors
/// One line that names what is in the way.
pub(crate) fn prepare(settings: Serve) -> Result<Kit, Failure> {
    // First, so that every thread inherits it, those that build a folder too.
    let signals = signals::block().context("cannot block signals")?;
    mapping::guard_lost_pages().context("cannot watch over mapped files")?;
    let descriptors = raise_descriptors();
    let files = SocketFiles::default();
    let opened = interrupt::endable(&signals, &files, || open(&settings, &files))?;
    let Opened { io, log, listeners, site } = opened;
    let external_files =
        site.as_ref().map_or(0, |site| site.first.mapping().external_count() as u64);
    let workers = settings.workers.unwrap_or_else(cores);
    // Twice: while a reload is taken up, the old state of the folder is still being served.
    let descriptors = descriptors.saturating_sub(2 * external_files);
    let capacity = Capacity::new(&settings, descriptors, workers)?;
    Ok(Kit { settings, signals, listeners, files, log, site, io, workers, capacity })
}

/// What can keep a start waiting.
struct Opened {
    io: Io,
    log: Option<Output>,
    listeners: Vec<Bound>,
    site: Option<Site>,
}

fn open(settings: &Serve, files: &SocketFiles) -> Result<Opened, Failure> {
    // What is wrong with the command line shows before anything is touched.
    let unloaded = match settings.dummy {
        true => None,
        false => Some(recognise(settings)?),
    };
    let workers = settings.workers.unwrap_or_else(cores);
    let io = choose_io(settings.io, workers)?;
    let log = settings.access_log.clone().map(open_log).transpose()?;
    // Before the folder is built: an address in use need not wait for that.
    let listeners = listeners::bind_all(&settings.listen, files)?;
    let site = match unloaded {
        Some((loader, watch)) => Some(Site { first: load_first(&loader)?, loader, watch }),
        None => None,
    };
    Ok(Opened { io, log, listeners, site })
}

/// Loads the site before anything is served. What a build leaves in memory goes.
fn load_first(loader: &Loader) -> Result<Generation, Failure> {
    let first = loader.load()?;
    if matches!(loader.source(), Source::Folder(_)) {
        residency::release();
    }
    Ok(first)
}

/// Finds out what is to be served, and whether it is to be watched.
fn recognise(settings: &Serve) -> Result<(Loader, Option<Watch>), Failure> {
    let source = source::recognise(settings.path.as_deref())?;
    let watch = settings.watch.then(|| Watch::new(&source, &settings.content.exclude));
    let watch = watch.transpose()?;
    let loader = Loader::new(source, settings, watch.as_ref().map(Watch::link_teller))?;
    Ok((loader, watch))
}

fn open_log(target: LogTarget) -> Result<Output, Failure> {
    let name = match &target {
        LogTarget::File(path) => path.display().to_string(),
        LogTarget::Stdout => "stdout".to_owned(),
    };
    Ok(Output::open(target).with_context(|| format!("cannot open the access log {name}"))?)
}

/// io_uring where it works, unless epoll was asked for. The verdict is told when it is not what a
/// user expects.
fn choose_io(asked: settings::Io, workers: usize) -> Result<Io, Failure> {
    if asked == settings::Io::Epoll {
        return Ok(Io::Epoll);
    }
    match (probe_uring(workers).map_err(|reason| without_number(&reason)), asked) {
        (Ok(()), _) => Ok(Io::Uring),
        (Err(reason), settings::Io::Uring) => {
            Err(anyhow!("io_uring does not work here: {reason}; use --io auto or epoll").into())
        }
        (Err(reason), _) => {
            stderr::line(format_args!(
                "pinion: io_uring does not work here, epoll it is: {reason}"
            ));
            Ok(Io::Epoll)
        }
    }
}

/// Cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
