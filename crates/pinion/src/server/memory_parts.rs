//! The parts of the memory that a server can use. docs/serving.md ("What the memory is for") lists
//! them for a small container, and a test compares that table with the sum.

use super::capacity::Capacity;
use super::pending_log_records::{self, PENDING_MAX_BYTES};
use crate::access_log::{LOG_BYTES, RING_BYTES, WRITER_BYTES};
use pinion_client::memory_footprint::REQUEST_BYTES;
use pinion_engine::memory_footprint;
use pinion_engine::server::Io;
use pinion_gateway::limits::STORED_UPLOADS_MEMORY_MAX_BYTES;

/// Bytes of the program itself: code and tables that were touched, and the memory of the main
/// thread and the libraries. It is a MiB above the goal for an idle server (docs/benchmarking.md,
/// "Memory"), which includes a part of the memory of a worker: under load more code is touched.
const PROGRAM_BYTES: u64 = 9 << 20;
/// Bytes of the program that only scripts touch. Of a release 9.8 MiB were resident after a flood
/// of a site with scripts, with the heap of the main thread.
const SCRIPT_CODE_BYTES: u64 = 1 << 20;
/// Bytes of the program that only encrypted connections touch. Of the same release 12.9 MiB were
/// resident with TLS.
const TLS_CODE_BYTES: u64 = 3 << 20;
/// Bytes that a thread beside the workers touches of its stack.
const CONTROL_THREAD_BYTES: u64 = 64 << 10;
/// Heap blocks have heads, are rounded up, and lie between others that are in use: one byte in so
/// many is counted for that.
const HEAP_SLACK_DIVISOR: u64 = 8;

/// One part of the memory that a server can use beside the archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPart {
    /// Its purpose.
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
}

impl Capacity {
    /// Returns the parts of the memory that a server can use, while no archive is loaded in place
    /// of another one.
    pub(crate) fn memory_parts(&self, workers: usize, io: Io) -> Vec<MemoryPart> {
        let heap = self.heap_parts(workers, io);
        // The memory of VMs has been measured separately.
        let heap_bytes: u64 = heap.iter().map(|(_, bytes)| bytes).sum();
        let slack_bytes = (heap_bytes - self.scripts.vm_bytes) / HEAP_SLACK_DIVISOR;
        let budget_bytes = self.buffer_bytes as usize / workers;
        let of_worker = memory_footprint::worker_mapped_bytes(io, budget_bytes) as u64;
        let mapped = [
            ("program", self.program_bytes()),
            ("stacks of other threads", self.threads * CONTROL_THREAD_BYTES),
            ("stacks of workers, input that io_uring receives", workers as u64 * of_worker),
            ("hashes of passwords", self.scripts.password_bytes),
        ];
        let slack_bytes = slack_bytes + self.scripts.vm_allocator_overhead_bytes;
        let slack = ("overhead of the allocator", slack_bytes);
        let parts = mapped.into_iter().chain(heap).chain([slack]);
        parts.map(|(name, bytes)| MemoryPart { name, bytes }).collect()
    }

    fn program_bytes(&self) -> u64 {
        let of_scripts = if self.has_scripts() { SCRIPT_CODE_BYTES } else { 0 };
        let of_tls = if self.tls || self.quic { TLS_CODE_BYTES } else { 0 };
        PROGRAM_BYTES + of_scripts + of_tls
    }

    /// Returns the parts that lie in heaps, by name and in bytes.
    fn heap_parts(&self, workers: usize, io: Io) -> [(&'static str, u64); 14] {
        let scripts = &self.scripts;
        let places = memory_footprint::table_places(self.connections as usize, workers) as u64;
        let workers = workers as u64;
        let outgoing = if self.opens_connections { self.outgoing } else { 0 };
        // Every worker may once have had all of them, and its table does not shrink.
        let places = places + workers * outgoing;
        let mut connection = memory_footprint::connection_bytes(io);
        let (mut of_worker, mut log_bytes) = (memory_footprint::worker_bytes(io), 0);
        if self.logs > 0 {
            log_bytes += workers * (RING_BYTES + PENDING_MAX_BYTES) as u64;
            log_bytes += WRITER_BYTES as u64 + self.logs * LOG_BYTES as u64;
            connection += pending_log_records::CONNECTION_BYTES;
        }
        if self.quic {
            of_worker += memory_footprint::QUIC_WORKER_BYTES;
        }
        let socket_bytes = self.datagram_sockets * memory_footprint::QUIC_SOCKET_BYTES as u64;
        if self.proxies {
            connection += memory_footprint::PROXY_ADDRESS_BYTES;
        }
        let secured = match (self.quic, self.tls) {
            (true, _) => {
                memory_footprint::QUIC_CONNECTION_BYTES.max(memory_footprint::TLS_CONNECTION_BYTES)
            }
            (_, true) => memory_footprint::TLS_CONNECTION_BYTES,
            _ => 0,
        };
        let connection_bytes = places * connection as u64 + self.connections * secured as u64;
        let request = memory_footprint::TLS_OUTGOING_BYTES + REQUEST_BYTES;
        let uploads = if self.stores_uploads { STORED_UPLOADS_MEMORY_MAX_BYTES } else { 0 };
        [
            ("workers", workers * of_worker as u64 + socket_bytes),
            ("access logs", log_bytes),
            ("connections of clients", connection_bytes),
            ("connections to other servers", outgoing * request as u64),
            ("uploads for other servers", uploads as u64),
            ("limits and passwords of clients", self.access.bytes(workers)),
            ("buffers and queues", self.buffer_bytes),
            ("Lua VMs", scripts.vm_bytes),
            ("tables of requests in Lua", scripts.task_bytes),
            ("values of pinion.keep", scripts.kept_bytes),
            ("request bodies for Lua", scripts.content_bytes),
            ("requests of pinion.fetch", scripts.fetch_bytes),
            ("files that scripts read and write", scripts.job_bytes),
            ("messages of pinion.send", scripts.message_bytes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};
    use crate::server::access::access_memory_footprint::AccessFootprint;
    use crate::server::capacity::{Load, MemoryFit, default_workers};
    use crate::settings::{Serve, Settings};
    use pinion_lua::script_quotas::Allowance;

    fn serve(line: &str) -> Serve {
        let arguments = line.split(' ').map(std::ffi::OsString::from);
        let Ok(ParsedCommand::Run(low)) = command_line::parse(arguments) else { panic!("{line}") };
        let Ok(Settings::Serve(serve)) = Settings::from_low(&low) else { panic!("{line}") };
        *serve
    }

    /// The load of one site in a container with so many MiB.
    fn load(scripts: &[Allowance], io: Io, mebibytes: u64) -> Load<'_> {
        let memory_bytes = mebibytes << 20;
        let workers = default_workers(8, memory_bytes);
        Load {
            workers,
            io,
            sites: 1,
            external_files: 0,
            file_senders: 0,
            configured: false,
            logs: 0,
            datagram_sockets: 0,
            forwards: false,
            stores_uploads: false,
            access: AccessFootprint::default(),
            scripts,
            memory_bytes,
        }
    }

    fn fit(line: &str, load: Load<'_>) -> MemoryFit {
        let fitted = Capacity::with_workers(&serve(line), 1 << 20, load);
        let Ok((_, capacity)) = fitted else { panic!("{line}") };
        capacity.fit
    }

    #[test]
    fn the_table_in_the_documentation_adds_up_to_the_bound() {
        let document = include_str!("../../../../docs/serving.md");
        let (_, section) = document.split_once("#### What the memory is for").expect("it");
        let lines = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
        let rows = lines.take_while(|line| line.starts_with('|')).map(|line| {
            let mut cells = line.split('|').skip(1).map(str::trim);
            (cells.next().expect("a name").to_owned(), cells.next().expect("MiB").to_owned())
        });
        let rows: Vec<(String, String)> = rows.collect();
        let scripts = [Allowance::default()];
        let load = load(&scripts, Io::Uring, 128);
        let Ok(capacity) = Capacity::new(&serve("pinion serve"), 1 << 20, load) else { panic!() };
        let shown = |bytes: u64| format!("{:.2}", bytes as f64 / f64::from(1 << 20));
        let parts = capacity.memory_parts(load.workers, load.io);
        let parts = parts.iter().filter(|part| part.bytes > 0);
        let mut expected: Vec<_> =
            parts.map(|part| (part.name.to_owned(), shown(part.bytes))).collect();
        let bound_bytes = capacity.bound_bytes(load.workers, load.io);
        expected.push(("all together".to_owned(), shown(bound_bytes)));
        assert_eq!(rows, expected);
        let sum: f64 =
            rows.iter().rev().skip(1).map(|(_, bytes)| bytes.parse::<f64>().expect("it")).sum();
        let all: f64 = rows.last().expect("a sum").1.parse().expect("MiB");
        assert!((sum - all).abs() <= 0.1, "{sum}, not {all}");
    }

    /// As docs/serving.md says below the table.
    #[test]
    fn limits_and_passwords_are_counted() {
        let document = include_str!("../../../../docs/serving.md");
        let part_mebibytes = |rates, passwords, workers| {
            let access = AccessFootprint { rates, passwords };
            let load = Load { access, workers, ..load(&[], Io::Epoll, 4096) };
            let capacity = Capacity::new(&serve("pinion serve"), 1 << 20, load);
            let Ok(capacity) = capacity else { panic!("it is small") };
            let parts = capacity.memory_parts(workers, Io::Epoll);
            let part = parts.iter().find(|part| part.name == "limits and passwords of clients");
            part.expect("a part").bytes as f64 / f64::from(1 << 20)
        };
        assert!(part_mebibytes(false, false, 2) < f64::EPSILON);
        let rates = format!("`request-rate` takes {:.2} MiB", part_mebibytes(true, false, 2));
        let one = part_mebibytes(false, true, 1);
        let of_worker = part_mebibytes(false, true, 2) - one;
        let passwords = format!(
            "`password-file` {:.2} MiB and {of_worker:.0} MiB for each worker",
            one - of_worker
        );
        let text = document.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [rates, passwords] {
            assert!(text.contains(&said), "{said}");
        }
    }

    /// As docs/serving.md says.
    #[test]
    fn the_documented_container_sizes_suffice() {
        let scripts = [Allowance::default()];
        let log = "--access-log log";
        let secured = "--tls 127.0.0.1:443 --quic 127.0.0.1:443";
        for (flags, scripts, least_mebibytes) in [
            ("", &[][..], 72),
            ("", &scripts, 192),
            (log, &scripts, 208),
            (secured, &scripts, 256),
            (&format!("{log} {secured}"), &scripts, 272),
        ] {
            for io in [Io::Epoll, Io::Uring] {
                for mebibytes in [least_mebibytes, 300, 384, 512, 1000, 4096] {
                    let load = load(scripts, io, mebibytes);
                    let logs = usize::from(flags.contains("log"));
                    let datagram_sockets = if flags.contains("quic") { load.workers } else { 0 };
                    let load = Load { logs, datagram_sockets, ..load };
                    let line = format!("pinion serve {flags}");
                    let fit = fit(line.trim_end(), load);
                    assert_ne!(fit, MemoryFit::Exceeded, "{line} in {mebibytes} MiB over {io:?}");
                }
            }
        }
        let of_128 = fit("pinion serve", load(&scripts, Io::Epoll, 128));
        assert_eq!(of_128, MemoryFit::Exceeded);
    }
}
