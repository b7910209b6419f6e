//! What a server costs that has nothing to do (design §6).
#![forbid(unsafe_code)]

use pinion_tests::binary::source_root;
use pinion_tests::client::Connection;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory of the server's own: what no file stands behind.
const IDLE_OWN_MAX_BYTES: u64 = 3 << 20;
/// With the pages of the program that are mapped. The design's 8 MiB are those of a release
/// (packages.rs asks for it); the program of this test has checks, is not linked as a whole, and
/// for each page that it touches the kernel maps up to 64 KiB that happen to be in its cache: of
/// one program between 7.3 and 11.0 MiB were measured. This catches what should not be mapped.
const IDLE_MAX_BYTES: u64 = 12 << 20;
const CONNECTION_MAX_BYTES: u64 = 512;
/// Tables that grow in steps, and buffers that are kept for reuse.
const CONSTANT_MAX_BYTES: u64 = 512 << 10;

fn start(io: Io) -> Server {
    let site = source_root().join("examples/site");
    Start::serve(&[site]).flags(&["--io", io.as_str(), "--workers", "1"]).start()
}

#[test]
fn an_idle_server_takes_little() {
    for io in Io::BOTH {
        let server = start(io);
        assert_eq!(server.get("/").status, 200);
        let own_bytes = server.memory_bytes("RssAnon") + server.memory_bytes("RssShmem");
        assert!(own_bytes <= IDLE_OWN_MAX_BYTES, "{own_bytes} bytes over {io:?}");
        let resident_bytes = server.memory_bytes("VmRSS");
        assert!(resident_bytes <= IDLE_MAX_BYTES, "{resident_bytes} bytes over {io:?}");
        server.stop();
    }
}

#[test]
fn an_idle_connection_takes_at_most_512_bytes() {
    const CONNECTIONS: u64 = 2000;
    raise_open_files();
    for io in Io::BOTH {
        let server = start(io);
        let mut open = vec![connected(&server)];
        let before_bytes = server.memory_bytes("VmRSS");
        open.extend((0..CONNECTIONS).map(|_| connected(&server)));
        let grown_bytes = server.memory_bytes("VmRSS").saturating_sub(before_bytes);
        let allowed_bytes = CONNECTIONS * CONNECTION_MAX_BYTES + CONSTANT_MAX_BYTES;
        assert!(grown_bytes <= allowed_bytes, "{grown_bytes} of {allowed_bytes} bytes over {io:?}");
        server.stop();
    }
}

/// A connection that has had its answer.
fn connected(server: &Server) -> Connection {
    let mut connection = server.connect();
    assert_eq!(connection.exchange(&Request::get("/")).status, 200);
    connection
}

#[test]
fn memory_does_not_grow_from_burst_to_burst() {
    // What is kept for reuse is there after the first bursts; then nothing may be added.
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
