//! Computes at start how many connections a server takes and how much memory they may cost.

use super::access::access_memory_footprint::AccessFootprint;
use super::live_files::live_files_max;
use crate::failure::Failure;
use crate::settings::{ListenKind, Serve};
use crate::terminal::counted;
use pinion_engine::limits::RESERVED_DESCRIPTORS;
use pinion_engine::server::Io;
use pinion_lua::memory_footprint::ScriptFootprint;
use pinion_lua::script_memory_limits::ScriptMemory;
use pinion_lua::script_quotas::Allowance;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections when nothing bounds them: as many as the table of one worker may grow to without a
/// surprise (32 MiB of connections, and the buffers below).
const CONNECTIONS_DEFAULT_MAX: u64 = 65_536;

/// Connections by default where memory is very small: a browser opens six, so this is for some tens
/// of visitors.
const CONNECTIONS_DEFAULT_MIN: u64 = 256;
/// Connections by default where memory is very small and they may be encrypted, which takes 25 KiB
/// more: a browser opens one, over HTTP/2.
const TLS_DEFAULT_MIN: u64 = 128;
/// Connections by default where memory is very small and QUIC is possible, which takes 100 KiB
/// more.
const QUIC_DEFAULT_MIN: u64 = 64;

/// Connections to other servers may have one descriptor in so many by default: a request that asks
/// another server takes two.
const OUTGOING_DIVISOR: u64 = 4;
/// Connections to other servers at least, among the reserved descriptors if need be.
const OUTGOING_MIN: u64 = 8;
/// Connections to other servers where memory is very small: each takes a third of a MiB, and
/// requests wait for one.
const OUTGOING_SMALL: u64 = 4;
/// Connections to other servers at most by default: a site that waits for others longer than it
/// works itself has some hundreds.
const OUTGOING_MAX: u64 = 1024;

/// The part of the memory that a server may take by default, as a divisor: the rest is for the
/// files that it serves, which the kernel keeps in memory, and for other programs.
pub(super) const MEMORY_DIVISOR: u64 = 4;
/// The memory for each worker by default: there is no more than one worker for so much memory.
const WORKER_MEMORY_BYTES: u64 = 128 << 20;

/// Buffer memory for each connection when no budget is given: half a request of common size from
/// every client at once.
const BUFFER_PER_CONNECTION_BYTES: u64 = 4 << 10;
/// The least buffer memory by default: a small server still takes some large responses at once.
const BUFFER_DEFAULT_MIN_BYTES: u64 = 64 << 20;
/// The buffer memory where memory is very small: still some responses of the size of a page at
/// once.
const BUFFER_SMALL_BYTES: u64 = 4 << 20;
/// With less memory a worker could not hold the buffers that a few clients may fill, let alone a
/// reserve.
const BUFFER_WORKER_MIN_BYTES: u64 = 1 << 20;
/// A large one does not take the whole machine unasked.
const BUFFER_DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// Threads of the server: signals and log.
const SERVER_THREADS: u64 = 2;
/// Threads of each site: reload and watch.
const SITE_THREADS: u64 = 2;
/// Files that a site keeps open: its archive and the next one, the descriptors of its watch, and
/// files that a build reads. Those of the first site are among the reserved ones.
const SITE_DESCRIPTORS: u64 = 8;
/// Uploads to scripts may have one descriptor in so many open: an upload takes two, its connection
/// and its file, so a server with uploads alone still has descriptors for others.
const UPLOAD_FILES_DIVISOR: u64 = 8;
/// Files that uploads may have open at least, among the reserved descriptors if need be.
const UPLOAD_FILES_MIN: u64 = 16;
/// Files that uploads may have open at most: more at once than a disk writes well.
const UPLOAD_FILES_MAX: u64 = 1024;
/// The most a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Open connections, all workers together.
    pub(crate) connections: u64,
    /// Connections to other servers, all workers together.
    pub(crate) outgoing: u64,
    /// Bytes of buffers and queues, all workers together.
    pub(crate) buffer_bytes: u64,
    /// The connections that were asked for, when there are fewer descriptors than that.
    pub(crate) asked: Option<u64>,
    /// The connections to other servers that were asked for, when there are fewer descriptors.
    pub(crate) asked_outgoing: Option<u64>,
    /// Threads beside the workers.
    pub(crate) threads: u64,
    /// Access logs that are open.
    pub(crate) logs: u64,
    /// Some connections are over TLS; any may be.
    pub(crate) tls: bool,
    /// Some connections are over QUIC; any may be.
    pub(crate) quic: bool,
    /// Proxies send the addresses of their clients.
    pub(crate) proxies: bool,
    /// Sockets of QUIC.
    pub(crate) datagram_sockets: u64,
    /// Whether the server may open connections to other servers.
    pub(crate) opens_connections: bool,
    /// Whether content of requests is stored before other servers are asked.
    pub(crate) stores_uploads: bool,
    /// The needs of the access rules.
    pub(crate) access: AccessFootprint,
    /// The memory of the scripts of the sites, all workers together.
    pub(crate) scripts: ScriptFootprint,
    /// The memory that scripts may use where the operator has set no limit.
    pub(crate) script_memory: ScriptMemory,
    /// Files that uploads to scripts may have open.
    pub(crate) upload_files: u64,
    /// Whether defaults are smaller because there is little memory.
    pub(crate) fit: MemoryFit,
}

/// How the defaults of a server fit into its part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryFit {
    /// There is room for all of them, or the operator has set everything.
    Whole,
    /// They are smaller, so that they fit.
    Shrunk,
    /// They are as small as they can be, and more than that part.
    Exceeded,
}

/// The facts at start that the capacity depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'s> {
    /// Threads that serve requests.
    pub(crate) workers: usize,
    /// The interface to the kernel.
    pub(crate) io: Io,
    /// Sites.
    pub(crate) sites: usize,
    /// Files outside of the archives that the sites keep open.
    pub(crate) external_files: usize,
    /// Sites with live folders and mounts that send files, which are open while they are sent.
    pub(crate) file_senders: usize,
    /// A configuration file can be read again; that has a thread of its own.
    pub(crate) configured: bool,
    /// Access logs, of which the first one is among the reserved descriptors.
    pub(crate) logs: usize,
    /// Sockets of QUIC: each listener has one for each worker.
    pub(crate) datagram_sockets: usize,
    /// The limits of each site that has scripts.
    pub(crate) scripts: &'s [Allowance],
    /// Whether a site forwards requests to other servers.
    pub(crate) forwards: bool,
    /// Whether a site stores the content of such requests first.
    pub(crate) stores_uploads: bool,
    /// The needs of the access rules of the sites.
    pub(crate) access: AccessFootprint,
    /// The memory that this process may use, in bytes.
    pub(crate) memory_bytes: u64,
}

impl Load<'_> {
    /// Returns whether connections to other servers are opened.
    fn opens_connections(&self) -> bool {
        self.forwards || !self.scripts.is_empty()
    }
}

/// The scale at which all defaults are whole.
const WHOLE: u32 = ScriptMemory::WHOLE;

/// Returns a default at a scale: the least at 0, all of it at [`WHOLE`].
fn part(least: u64, whole: u64, scale: u32) -> u64 {
    least + whole.saturating_sub(least) * u64::from(scale) / u64::from(WHOLE)
}

impl Capacity {
    /// Works it out for as many workers as fit: fewer than `load` has, and at least one, if the
    /// operator has set no number and the least defaults of so many need more than their part of
    /// the memory. The load that is returned has their number.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub(crate) fn with_workers<'s>(
        serve: &Serve,
        descriptors: u64,
        mut load: Load<'s>,
    ) -> Result<(Load<'s>, Self), Failure> {
        let quic_listeners = load.datagram_sockets / load.workers;
        loop {
            let capacity = Self::new(serve, descriptors, load)?;
            let is_fixed = serve.workers.is_some() || load.workers == 1;
            if is_fixed || capacity.fit != MemoryFit::Exceeded {
                return Ok((load, capacity));
            }
            load.workers -= 1;
            load.datagram_sockets = quic_listeners * load.workers;
        }
    }

    /// Computes the capacity from the settings, the number of files that this process may open, and
    /// the load. Values that the operator has not set shrink in the same proportion until
    /// everything fits into a part of the memory ([`MEMORY_DIVISOR`]).
    ///
    /// # Errors
    /// A budget that is too small for so many workers.
    pub(crate) fn new(serve: &Serve, descriptors: u64, load: Load<'_>) -> Result<Self, Failure> {
        let bound = |capacity: &Self| capacity.bound_bytes(load.workers, load.io);
        let most_bytes = load.memory_bytes / MEMORY_DIVISOR;
        let whole = Self::scaled(serve, descriptors, load, WHOLE)?;
        if bound(&whole) <= most_bytes {
            return Ok(whole);
        }
        let least = Self::scaled(serve, descriptors, load, 0)?;
        if bound(&least) >= most_bytes {
            let is_set = bound(&least) == bound(&whole);
            let fit = if is_set { MemoryFit::Whole } else { MemoryFit::Exceeded };
            return Ok(Self { fit, ..least });
        }
        // The bound grows with the scale.
        let (mut below, mut above, mut best) = (0, WHOLE, least);
        while above - below > 1 {
            let scale = below.midpoint(above);
            let tried = Self::scaled(serve, descriptors, load, scale)?;
            if bound(&tried) <= most_bytes {
                (below, best) = (scale, tried);
            } else {
                above = scale;
            }
        }
        Ok(Self { fit: MemoryFit::Shrunk, ..best })
    }

    /// Works it out for one scale of the defaults.
    fn scaled(
        serve: &Serve,
        descriptors: u64,
        load: Load<'_>,
        scale: u32,
    ) -> Result<Self, Failure> {
        let Load { workers, sites, configured, .. } = load;
        let shares = Descriptors::new(serve, descriptors, load, scale);
        let tls = serve.encrypts();
        let quic = serve.has(ListenKind::Quic);
        let least = match (quic, tls) {
            (true, _) => QUIC_DEFAULT_MIN,
            (_, true) => TLS_DEFAULT_MIN,
            _ => CONNECTIONS_DEFAULT_MIN,
        };
        let connections = serve
            .max_connections
            .unwrap_or_else(|| part(least, CONNECTIONS_DEFAULT_MAX.min(shares.possible), scale));
        let connections = connections.min(shares.possible);
        let least_bytes = workers as u64 * BUFFER_WORKER_MIN_BYTES;
        let buffer_bytes = serve.memory_budget_bytes.unwrap_or_else(|| {
            let whole_bytes = (connections * BUFFER_PER_CONNECTION_BYTES)
                .clamp(BUFFER_DEFAULT_MIN_BYTES, BUFFER_DEFAULT_MAX_BYTES);
            part(BUFFER_SMALL_BYTES, whole_bytes, scale).max(least_bytes)
        });
        if buffer_bytes < least_bytes {
            return Err(Failure::usage(format!(
                "--memory-budget {} MiB: {} need at least {} MiB; give more, or fewer --workers",
                buffer_bytes >> 20,
                counted(workers as u64, "worker"),
                least_bytes >> 20,
            )));
        }
        let threads = SERVER_THREADS
            + SITE_THREADS * sites as u64
            + u64::from(configured)
            + u64::from(serve.stats.is_some())
            + u64::from(tls);
        let script_memory = ScriptMemory::scaled(scale);
        Ok(Self {
            connections,
            outgoing: shares.outgoing,
            buffer_bytes,
            asked: serve.max_connections.filter(|asked| *asked > connections),
            asked_outgoing: serve.max_outgoing.filter(|asked| *asked > shares.outgoing),
            threads,
            logs: load.logs as u64,
            tls,
            quic,
            proxies: serve.listen.iter().any(|listen| !listen.proxy_protocol.is_empty()),
            datagram_sockets: load.datagram_sockets as u64,
            opens_connections: load.opens_connections(),
            stores_uploads: load.stores_uploads,
            access: load.access,
            scripts: ScriptFootprint::new(workers, load.scripts, &script_memory),
            script_memory,
            upload_files: shares.upload_files,
            fit: MemoryFit::Whole,
        })
    }

    /// Returns whether a site has scripts.
    pub(crate) const fn has_scripts(&self) -> bool {
        self.scripts.vm_bytes > 0
    }

    /// Returns the most memory the server can use beside the archives, while no other one is
    /// loaded.
    pub(crate) fn bound_bytes(&self, workers: usize, io: Io) -> u64 {
        self.memory_parts(workers, io).iter().map(|part| part.bytes).sum()
    }
}

/// The shares of the descriptors of a server.
struct Descriptors {
    /// Files that uploads may have open.
    upload_files: u64,
    /// Connections to other servers.
    outgoing: u64,
    /// Connections of clients at most.
    possible: u64,
}

impl Descriptors {
    fn new(serve: &Serve, descriptors: u64, load: Load<'_>, scale: u32) -> Self {
        // Twice: during a reload, the old state of a folder is still being served.
        let of_sites =
            2 * load.external_files as u64 + SITE_DESCRIPTORS * load.sites.saturating_sub(1) as u64;
        let of_logs = (load.logs as u64).saturating_sub(1);
        let of_datagrams = load.datagram_sockets as u64;
        let descriptors = descriptors.saturating_sub(of_sites + of_logs + of_datagrams);
        // Without scripts there are neither uploads nor requests to other servers, unless a reload
        // brings some: then they have a few of the reserved descriptors.
        let has_uploads = !load.scripts.is_empty() || load.stores_uploads;
        let opens_connections = load.opens_connections();
        let upload_files = if has_uploads {
            let files = descriptors / UPLOAD_FILES_DIVISOR;
            files.clamp(UPLOAD_FILES_MIN, UPLOAD_FILES_MAX)
        } else {
            UPLOAD_FILES_MIN
        };
        let outgoing = if opens_connections {
            let outgoing = (descriptors / OUTGOING_DIVISOR).clamp(OUTGOING_MIN, OUTGOING_MAX);
            part(OUTGOING_SMALL, outgoing, scale)
        } else {
            OUTGOING_MIN
        };
        // Half of all is for clients.
        let outgoing = match serve.max_outgoing {
            Some(asked) => asked.min((descriptors / 2).max(1)),
            None => outgoing,
        };
        let live_files = load.file_senders as u64 * live_files_max(descriptors) as u64;
        // However many sites have some, half of all is for others.
        let taken = live_files.min(descriptors / 2)
            + if has_uploads { upload_files } else { 0 }
            + if opens_connections { outgoing } else { 0 };
        let possible = descriptors.saturating_sub(taken + RESERVED_DESCRIPTORS).max(1);
        Self { upload_files, outgoing, possible }
    }
}

/// Returns the number of workers by default: one for each core, as far as there is memory for them.
pub(crate) fn default_workers(cores: usize, memory_bytes: u64) -> usize {
    let most = (memory_bytes / WORKER_MEMORY_BYTES).max(1);
    cores.min(usize::try_from(most).unwrap_or(usize::MAX))
}

/// Raises the limit on open files as far as possible, and returns its new value.
pub(crate) fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Some containers forbid it; the old limit then holds.
        let _kept = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::{LOG_BYTES, RING_BYTES};
    use crate::command_line::{self, ParsedCommand};
    use crate::server::pending_log_records::PENDING_MAX_BYTES;
    use crate::settings::Settings;
    use pinion_client::memory_footprint::REQUEST_BYTES;
    use pinion_engine::memory_footprint;

    fn serve(line: &str) -> Serve {
        let arguments = line.split(' ').map(std::ffi::OsString::from);
        let Ok(ParsedCommand::Run(low)) = command_line::parse(arguments) else { panic!("{line}") };
        let Ok(Settings::Serve(serve)) = Settings::from_low(&low) else { panic!("{line}") };
        *serve
    }

    const ONE_SITE: Load<'_> = Load {
        workers: 2,
        io: Io::Epoll,
        sites: 1,
        external_files: 0,
        file_senders: 0,
        configured: false,
        logs: 0,
        datagram_sockets: 0,
        forwards: false,
        stores_uploads: false,
        access: AccessFootprint { rates: false, passwords: false },
        scripts: &[],
        memory_bytes: u64::MAX,
    };

    fn capacity_of(serve: &Serve, descriptors: u64) -> Capacity {
        let Ok(capacity) = Capacity::new(serve, descriptors, ONE_SITE) else { panic!("{serve:?}") };
        capacity
    }

    #[test]
    fn a_budget_has_a_minimum_for_each_worker() {
        let of = |workers| Load { workers, ..ONE_SITE };
        let small = serve("pinion serve --memory-budget 3");
        assert!(Capacity::new(&small, 1024, of(3)).is_ok());
        let refused = Capacity::new(&small, 1024, of(4)).err().and_then(|failure| failure.reason());
        let reason = refused.expect("a usage error");
        assert!(
            reason.contains("--memory-budget 3 MiB: 4 workers need at least 4 MiB"),
            "{reason}"
        );
        let many = Capacity::new(&serve("pinion serve"), 1024, of(128));
        assert!(many.is_ok_and(|capacity| capacity.buffer_bytes == 128 << 20));
    }

    #[test]
    fn descriptors_bound_the_connections() {
        let capacity = capacity_of(&serve("pinion serve"), 1024);
        assert_eq!(capacity.connections, 1024 - RESERVED_DESCRIPTORS);
        assert_eq!((capacity.buffer_bytes, capacity.asked), (BUFFER_DEFAULT_MIN_BYTES, None));
        assert_eq!(capacity_of(&serve("pinion serve"), 3).connections, 1);
        assert_eq!(capacity_of(&serve("pinion serve"), u64::MAX).connections, 65_536);
    }

    #[test]
    fn configured_limits_hold_as_far_as_descriptors_allow() {
        let serve = serve("pinion serve --max-connections 5000 --memory-budget 16");
        let capacity = capacity_of(&serve, 1 << 20);
        assert_eq!((capacity.connections, capacity.buffer_bytes), (5000, 16 << 20));
        assert_eq!(capacity.asked, None);
        assert_eq!(capacity_of(&serve, 1024).asked, Some(5000));
    }

    #[test]
    fn uploads_and_other_servers_take_descriptors_from_the_connections() {
        let plain = serve("pinion serve");
        let scripts = [Allowance::default()];
        let load = Load { scripts: &scripts, ..ONE_SITE };
        for (descriptors, files, outgoing) in
            [(80, 16, 20), (300, 37, 75), (1024, 128, 256), (1 << 20, 1024, 1024)]
        {
            let Ok(with) = Capacity::new(&plain, descriptors, load) else { panic!("{load:?}") };
            assert_eq!((with.upload_files, with.outgoing), (files, outgoing), "of {descriptors}");
            let taken = RESERVED_DESCRIPTORS + files + outgoing;
            let possible = descriptors.saturating_sub(taken).max(1);
            assert_eq!(with.connections, possible.min(CONNECTIONS_DEFAULT_MAX));
        }
        let asking = serve("pinion serve --max-outgoing 600");
        let of = |descriptors| {
            let Ok(capacity) = Capacity::new(&asking, descriptors, load) else {
                panic!("{load:?}")
            };
            (capacity.outgoing, capacity.asked_outgoing)
        };
        assert_eq!(of(8000), (600, None));
        assert_eq!(of(1000), (500, Some(600)));
    }

    #[test]
    fn defaults_shrink_until_they_fit_into_a_quarter_of_the_memory() {
        let scripts = [Allowance::default(); 3];
        for line in ["pinion serve", "pinion serve --tls 127.0.0.1:443 --quic 127.0.0.1:443"] {
            let serve = serve(line);
            for scripts in [&scripts[..0], &scripts[..1], &scripts[..]] {
                let mut before = 0;
                for mebibytes in [768, 1024, 2048, 4096, 16_384, 1 << 20] {
                    let memory_bytes = mebibytes << 20;
                    let load = Load { scripts, memory_bytes, ..ONE_SITE };
                    let Ok(capacity) = Capacity::new(&serve, 1 << 20, load) else { panic!() };
                    let bound = capacity.bound_bytes(load.workers, load.io);
                    assert!(bound <= memory_bytes / 4, "{line}: {bound} of {mebibytes} MiB");
                    assert_ne!(capacity.fit, MemoryFit::Exceeded);
                    // The available memory is used, because the steps are small.
                    let is_used = bound >= memory_bytes / 4 / 20 * 19;
                    assert_eq!(capacity.fit == MemoryFit::Shrunk, capacity.fit != MemoryFit::Whole);
                    assert!(is_used || capacity.fit == MemoryFit::Whole, "{line}: {bound}");
                    assert!(bound >= before);
                    before = bound;
                }
            }
        }
    }

    #[test]
    fn settings_of_the_operator_do_not_shrink() {
        let set = Allowance { is_vm_memory_set: true, ..Allowance::default() };
        let load = Load { scripts: &[set], memory_bytes: 128 << 20, ..ONE_SITE };
        let serve =
            serve("pinion serve --max-connections 2000 --max-outgoing 300 --memory-budget 100");
        let Ok(capacity) = Capacity::new(&serve, 1 << 20, load) else { panic!("{load:?}") };
        assert_eq!((capacity.connections, capacity.outgoing), (2000, 300));
        assert_eq!(capacity.buffer_bytes, 100 << 20);
        assert_eq!(capacity.fit, MemoryFit::Exceeded);
        let vms = 2 * set.vm_memory_bytes as u64;
        assert!(capacity.bound_bytes(2, Io::Epoll) > vms + (100 << 20));
        // If all values are set, there is nothing to report.
        let load = Load { scripts: &[], ..load };
        let Ok(capacity) = Capacity::new(&serve, 1 << 20, load) else { panic!("{load:?}") };
        assert_eq!(capacity.fit, MemoryFit::Whole);
    }

    #[test]
    fn the_default_of_workers_follows_cores_and_memory() {
        for (cores, mebibytes, workers) in
            [(1, 10, 1), (8, 255, 1), (8, 256, 2), (8, 1024, 8), (8, 1 << 20, 8), (200, 8192, 64)]
        {
            assert_eq!(default_workers(cores, mebibytes << 20), workers);
        }
    }

    #[test]
    fn workers_that_do_not_fit_are_left_out() {
        let scripts = [Allowance::default()];
        let of = |line: &str, workers, mebibytes: u64| {
            let datagram_sockets = if line.contains("--quic") { 2 * workers } else { 0 };
            let (memory_bytes, io) = (mebibytes << 20, Io::Uring);
            let of_one = Load { scripts: &scripts, memory_bytes, io, ..ONE_SITE };
            let load = Load { workers, datagram_sockets, ..of_one };
            let fitted = Capacity::with_workers(&serve(line), 1 << 20, load);
            let Ok((load, capacity)) = fitted else { panic!("{line}") };
            let is_fit = capacity.bound_bytes(load.workers, load.io) <= load.memory_bytes / 4;
            assert_eq!(is_fit, capacity.fit == MemoryFit::Shrunk, "{line}");
            (load.workers, load.datagram_sockets, is_fit)
        };
        assert_eq!(of("pinion serve", 1, 128), (1, 0, false));
        assert_eq!(of("pinion serve", 2, 256), (1, 0, true));
        assert_eq!(of("pinion serve", 2, 320), (2, 0, true));
        assert_eq!(of("pinion serve", 8, 512), (5, 0, true));
        assert_eq!(of("pinion serve --tls 127.0.0.1:443", 2, 256), (1, 0, true));
        let quic = "pinion serve --tls 127.0.0.1:443 --quic 127.0.0.1:443";
        assert_eq!(of(quic, 4, 256), (1, 2, true));
        assert_eq!(of("pinion serve --workers 2", 2, 256), (2, 0, false));
    }

    #[test]
    fn live_files_take_descriptors_from_the_connections() {
        let serve = serve("pinion serve site");
        let connections = |file_senders, descriptors| {
            let load = Load { file_senders, ..ONE_SITE };
            let Ok(capacity) = Capacity::new(&serve, descriptors, load) else { panic!("{load:?}") };
            capacity.connections
        };
        assert_eq!(connections(0, 1024) - connections(1, 1024), 1024 / 8);
        assert_eq!(connections(0, 1024) - connections(2, 1024), 1024 / 4);
        assert_eq!(connections(0, 1024) - connections(100, 1024), 1024 / 2);
    }

    #[test]
    fn every_site_takes_threads_and_descriptors() {
        let serve = serve("pinion serve");
        let one = capacity_of(&serve, 1024);
        let load = Load { sites: 11, external_files: 3, configured: true, ..ONE_SITE };
        let Ok(many) = Capacity::new(&serve, 1024, load) else { panic!("{load:?}") };
        assert_eq!(one.connections - many.connections, 10 * SITE_DESCRIPTORS + 2 * 3);
        assert_eq!(many.threads - one.threads, 10 * SITE_THREADS + 1);
    }

    #[test]
    fn sockets_of_quic_are_descriptors_and_hold_buffers() {
        let serve = serve("pinion serve --quic 127.0.0.1:443");
        let one = capacity_of(&serve, 1024);
        let load = Load { datagram_sockets: 32, ..ONE_SITE };
        let Ok(many) = Capacity::new(&serve, 1024, load) else { panic!("{load:?}") };
        assert_eq!(one.connections - many.connections, 32);
        let sockets = Capacity { datagram_sockets: 8, ..one };
        let more = sockets.bound_bytes(1, Io::Epoll) - one.bound_bytes(1, Io::Epoll);
        assert_eq!(more, 9 * memory_footprint::QUIC_SOCKET_BYTES as u64);
    }

    #[test]
    fn the_bound_grows_with_everything_it_counts() {
        let capacity = capacity_of(&serve("pinion serve"), 1 << 20);
        for io in [Io::Epoll, Io::Uring] {
            let bound = capacity.bound_bytes(1, io);
            let more = Capacity { connections: capacity.connections + 800, ..capacity };
            let connections = 800 * memory_footprint::connection_bytes(io) as u64;
            assert_eq!(more.bound_bytes(1, io) - bound, connections * 9 / 8);
            let more = Capacity { buffer_bytes: capacity.buffer_bytes + 800, ..capacity };
            assert_eq!(more.bound_bytes(1, io) - bound, 900);
            let datagrams = Capacity { quic: true, ..capacity };
            let quic = capacity.connections * memory_footprint::QUIC_CONNECTION_BYTES as u64;
            assert!(datagrams.bound_bytes(1, io) - bound >= quic);
            let secured = Capacity { tls: true, ..capacity };
            let sessions = capacity.connections * memory_footprint::TLS_CONNECTION_BYTES as u64;
            assert!(secured.bound_bytes(1, io) - bound >= sessions);
            let more = Capacity { threads: capacity.threads + 1, ..capacity };
            assert_eq!(more.bound_bytes(1, io) - bound, 64 << 10);
            let of = |content_bytes| ScriptFootprint {
                vm_bytes: 8,
                content_bytes,
                ..ScriptFootprint::default()
            };
            let scripts = Capacity { scripts: of(800), opens_connections: true, ..capacity };
            let more = Capacity { scripts: of(8800), ..scripts };
            assert_eq!(more.bound_bytes(1, io) - scripts.bound_bytes(1, io), 9000);
            let more = Capacity { outgoing: capacity.outgoing + 800, ..scripts };
            let request = memory_footprint::TLS_OUTGOING_BYTES + REQUEST_BYTES;
            let of_one = (memory_footprint::connection_bytes(io) + request) as u64;
            let added = more.bound_bytes(1, io) - scripts.bound_bytes(1, io);
            assert_eq!(added, 800 * of_one * 9 / 8);
            let worker = capacity.bound_bytes(2, io) - bound;
            let mapped =
                memory_footprint::worker_mapped_bytes(io, capacity.buffer_bytes as usize / 2);
            assert!(worker >= (memory_footprint::worker_bytes(io) + mapped) as u64);
            let log = Capacity { logs: 1, ..capacity };
            let more = log.bound_bytes(2, io) - capacity.bound_bytes(2, io);
            assert!(more >= 2 * (RING_BYTES + PENDING_MAX_BYTES) as u64);
            let second = Capacity { logs: 2, ..capacity }.bound_bytes(2, io);
            assert_eq!(second - log.bound_bytes(2, io), LOG_BYTES as u64 * 9 / 8);
        }
    }

    #[test]
    fn the_descriptor_limit_is_raised_to_the_maximum() {
        let raised = raise_descriptors();
        assert_eq!(Some(raised), getrlimit(Resource::Nofile).maximum.or(Some(u64::MAX)));
    }
}
