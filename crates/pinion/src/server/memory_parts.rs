//! The parts of the memory that a server can use. docs/serving.md ("What the memory is for") lists
//! them for a small container, and a test compares that table with the sum.

use super::capacity::Capacity;
use super::pending::{self, PENDING_MAX_BYTES};
use crate::access_log::{LOG_BYTES, RING_BYTES, WRITER_BYTES};
use pinion_client::footprint::REQUEST_BYTES;
use pinion_engine::footprint;
use pinion_engine::server::Io;

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
    /// What it is for.
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
}

impl Capacity {
    /// Returns the parts of the memory that a server can use, while no archive is loaded in place
    /// of another one.
    pub(crate) fn memory_parts(&self, workers: usize, io: Io) -> Vec<MemoryPart> {
        let heap = self.heap_parts(workers, io);
        let slack_bytes = heap.iter().map(|(_, bytes)| bytes).sum::<u64>() / HEAP_SLACK_DIVISOR;
        let budget_bytes = self.buffer_bytes as usize / workers;
        let of_worker = footprint::worker_mapped_bytes(io, budget_bytes) as u64;
        let mapped = [
            ("program", self.program_bytes()),
            ("stacks of other threads", self.threads * CONTROL_THREAD_BYTES),
            ("stacks of workers, input that io_uring receives", workers as u64 * of_worker),
            ("hashes of passwords", self.scripts.password_bytes),
        ];
        let slack = ("overhead of the allocator", slack_bytes);
        let parts = mapped.into_iter().chain(heap).chain([slack]);
        parts.map(|(name, bytes)| MemoryPart { name, bytes }).collect()
    }

    fn program_bytes(&self) -> u64 {
        let of_scripts = if self.has_scripts() { SCRIPT_CODE_BYTES } else { 0 };
        let of_tls = if self.tls || self.quic { TLS_CODE_BYTES } else { 0 };
        PROGRAM_BYTES + of_scripts + of_tls
    }

    /// Returns what lies in heaps, by name and in bytes.
    fn heap_parts(&self, workers: usize, io: Io) -> [(&'static str, u64); 12] {
        let scripts = &self.scripts;
        let places = footprint::table_places(self.connections as usize, workers) as u64;
        let workers = workers as u64;
        let outgoing = if self.has_scripts() { self.outgoing } else { 0 };
        // Every worker may once have had all of them, and its table does not shrink.
        let places = places + workers * outgoing;
        let mut connection = footprint::connection_bytes(io);
        let (mut of_worker, mut log_bytes) = (footprint::worker_bytes(io), 0);
        if self.logs > 0 {
            log_bytes += workers * (RING_BYTES + PENDING_MAX_BYTES) as u64;
            log_bytes += WRITER_BYTES as u64 + self.logs * LOG_BYTES as u64;
            connection += pending::CONNECTION_BYTES;
        }
        if self.quic {
            of_worker += footprint::QUIC_WORKER_BYTES;
        }
        let socket_bytes = self.datagram_sockets * footprint::QUIC_SOCKET_BYTES as u64;
        if self.proxies {
            connection += footprint::PROXY_ADDRESS_BYTES;
        }
        let secured = match (self.quic, self.tls) {
            (true, _) => footprint::QUIC_CONNECTION_BYTES.max(footprint::TLS_CONNECTION_BYTES),
            (_, true) => footprint::TLS_CONNECTION_BYTES,
            _ => 0,
        };
        let connection_bytes = places * connection as u64 + self.connections * secured as u64;
        let request = footprint::TLS_OUTGOING_BYTES + REQUEST_BYTES;
        [
            ("workers", workers * of_worker as u64 + socket_bytes),
            ("access logs", log_bytes),
            ("connections of clients", connection_bytes),
            ("connections to other servers", outgoing * request as u64),
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
    use crate::command_line::{self, Asked};
    use crate::server::capacity::{Load, MemoryFit};
    use crate::settings::{Serve, Settings};
    use pinion_lua::allowance::Allowance;

    fn serve(line: &str) -> Serve {
        let arguments = line.split(' ').map(std::ffi::OsString::from);
        let Ok(Asked::Run(low)) = command_line::parse(arguments) else { panic!("{line}") };
        let Ok(Settings::Serve(serve)) = Settings::from_low(&low) else { panic!("{line}") };
        *serve
    }

    #[test]
    fn print() {
        for line in ["pinion serve", "pinion serve --access-log x", "pinion serve --tls 127.0.0.1:443", "pinion serve --tls 127.0.0.1:443 --quic 127.0.0.1:443"] {
            for io in [Io::Epoll, Io::Uring] {
                for mebibytes in [128u64, 192, 256, 512] {
                    let workers = super::super::capacity::default_workers(2, mebibytes << 20);
                    let load = Load { workers, io, sites: 1, external_files: 0, configured: false, logs: line.contains("log") as usize, datagram_sockets: 0, scripts: &[Allowance::default()], memory_bytes: mebibytes << 20 };
                    let Ok(c) = Capacity::new(&serve(line), 1 << 20, load) else { panic!() };
                    let bound = c.bound_bytes(workers, io);
                    println!("{line} {io:?} {mebibytes} MiB {workers} workers: {:.1} of {} {:?} vm {} buffers {} conns {}", bound as f64 / 1048576.0, mebibytes / 4, c.fit, c.script_memory.vm_bytes >> 10, c.buffer_bytes >> 10, c.connections);
                    if mebibytes == 128 && !line.contains("tls") { for part in c.memory_parts(workers, io) { println!("   {:60} {:8.2}", part.name, part.bytes as f64 / 1048576.0); } }
                }
            }
        }
        let _ = MemoryFit::Whole;
    }
}
