//! Measures the memory of an idle server (docs/benchmarking.md, "Memory").

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::processes::unbacked_bytes;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// The most anonymous memory of the server, besides the relocations of its program.
const IDLE_OWN_MAX_BYTES: u64 = (5 << 20) / 2;
/// The same, with the mapped pages of the program. The goal of 8 MiB is that of a release
/// (dist_packages.rs checks it); the program of this test has assertions and no link-time
/// optimisation.
const IDLE_MAX_BYTES: u64 = 10 << 20;
const CONNECTION_MAX_BYTES: u64 = 512;
/// The memory of tables that grow in steps, and of buffers that are kept for reuse.
const CONSTANT_MAX_BYTES: u64 = 512 << 10;

fn serve(io: Io) -> Start {
    let site = source_root().join("examples/site");
    Start::serve(&[site]).flags(&["--io", io.as_str(), "--workers", "1"])
}

fn start(io: Io) -> Server {
    serve(io).start()
}

#[test]
fn an_idle_server_uses_little_memory() {
    let in_memory = ProgramInMemory::new();
    for io in Io::BOTH {
        let server = start(io);
        assert_eq!(server.get("/").status, 200);
        let own_bytes = unbacked_bytes(server.id()) + server.memory_bytes("RssShmem");
        assert!(own_bytes <= IDLE_OWN_MAX_BYTES, "{own_bytes} bytes over {io:?}");
        server.stop();

        let server = serve(io).found_at(&in_memory.path()).start();
        assert_eq!(server.get("/").status, 200);
        let resident_bytes = server.memory_bytes("VmRSS");
        assert!(resident_bytes <= IDLE_MAX_BYTES, "{resident_bytes} bytes over {io:?}");
        server.stop();
    }
}

/// A copy of the program in a memory file. Around each page that a process uses, the kernel maps
/// the parts of the file that its cache holds in large pieces: of one program on a disk between 7.3
/// and 11.0 MiB were resident, depending on how it had been written.
struct ProgramInMemory(OwnedFd);

impl ProgramInMemory {
    fn new() -> Self {
        let written = memfd_create("pinion", MemfdFlags::CLOEXEC).expect("a file in memory");
        let mut written = File::from(written);
        let mut program = File::open(pinion()).expect("the program");
        io::copy(&mut program, &mut written).expect("copied");
        // A file that is open for writing cannot be executed.
        let path = format!("/proc/self/fd/{}", written.as_raw_fd());
        Self(File::open(path).expect("the same file, to be read").into())
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

#[test]
fn an_idle_connection_uses_at_most_512_bytes() {
    const CONNECTIONS: u64 = 2000;
    raise_open_files();
    for io in Io::BOTH {
        let server = start(io);
        // The first connections load the pages of the code that serves them.
        (0..50).for_each(|_| drop(connected(&server)));
        let mut open = vec![connected(&server)];
        let before_bytes = server.memory_bytes("VmRSS");
        open.extend((0..CONNECTIONS).map(|_| connected(&server)));
        let grown_bytes = server.memory_bytes("VmRSS").saturating_sub(before_bytes);
        let allowed_bytes = CONNECTIONS * CONNECTION_MAX_BYTES + CONSTANT_MAX_BYTES;
        assert!(grown_bytes <= allowed_bytes, "{grown_bytes} of {allowed_bytes} bytes over {io:?}");
        server.stop();
    }
}

/// Opens a connection that has received its response.
fn connected(server: &Server) -> Connection {
    let mut connection = server.connect();
    assert_eq!(connection.exchange(&Request::get("/")).status, 200);
    connection
}

#[test]
fn memory_does_not_grow_from_burst_to_burst() {
    // Memory for reuse exists after the first bursts; then nothing may be added.
    for io in Io::BOTH {
        let server = start(io);
        for _ in 0..3 {
            burst(&server);
        }
        let before_bytes = server.memory_bytes("RssAnon");
        for _ in 0..3 {
            burst(&server);
        }
        let grown_bytes = server.memory_bytes("RssAnon").saturating_sub(before_bytes);
        assert!(grown_bytes <= 1 << 20, "{grown_bytes} bytes over {io:?}");
        server.stop();
    }
}

fn burst(server: &Server) {
    let mut connections: Vec<Connection> = (0..50).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send(Request::get("/assets/pinion.png").bytes().repeat(20));
    }
    for connection in &mut connections {
        for _ in 0..20 {
            assert_eq!(connection.receive().status, 200);
        }
    }
}

/// Both ends of the connections are files; this process holds one of each.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may be raised to the hard one");
    let enough = getrlimit(Resource::Nofile).current.is_none_or(|files| files >= 2500);
    assert!(enough, "this test needs 2500 open files: raise the hard limit (ulimit -Hn)");
}
