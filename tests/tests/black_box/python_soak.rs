//! Python applications under steady load while their processes are killed, crash, exit, lose memory
//! and are replaced: only requests of a process that ends fail, no response looks complete that is
//! not, and nothing is left behind. With `cargo xtask test --long` hundreds of processes end, or
//! the number in the variable `PINION_PYTHON_KILLS`. They are counted and never timed.

use crate::lua_program_faults::spawner;
use crate::mounts::site;
use pinion_tests::client::{Broken, Connection};
use pinion_tests::matrix::Io;
use pinion_tests::processes::{processes_with, unbacked_bytes};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{SetAtEnd, is_reached, wait_for};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Processes that end by force, for each interface and back-end.
const KILLS: usize = if cfg!(feature = "long") { 100 } else { 4 };
/// Requests that each lose a megabyte, over each interface.
const LEAKS: usize = if cfg!(feature = "long") { 20_000 } else { 300 };
/// Requests before a process ends by force.
const FIRST_REQUESTS: usize = if cfg!(feature = "long") { 20_000 } else { 600 };
/// Processes of an application.
const PROCESSES: usize = 3;
/// The workers of the server. Each has a connection to each process that it has used.
const WORKERS: usize = 2;
/// Clients, each with one request at a time.
const CLIENTS: usize = 6;
/// Requests from one end of a process to the next.
const REQUESTS_BETWEEN: usize = 60;
/// The memory that a process of the server may use after the load beyond that before it, in bytes.
const MORE_MEMORY_BYTES: u64 = 4 << 20;
/// The content of a stream, in bytes.
const STREAM_BYTES: usize = 200_000;
/// The content of an upload, in bytes: more than comes with the head of a request.
const UPLOAD_BYTES: usize = 100_000;

/// The same application for both interfaces. A request that ends its process is one of those that
/// fail.
const APPLICATION: &str = r#"
import asyncio, os, signal

lost = []

def leave(path, query):
    if path == '/leaks':
        lost.append(b'x' * int(query))
    elif path == '/crashes':
        signal.raise_signal(signal.SIGSEGV)
    elif path == '/exits':
        os._exit(3)

def app(environ, start_response):
    path = environ['PATH_INFO']
    leave(path, environ['QUERY_STRING'])
    content = environ['wsgi.input'].read()
    start_response('200 OK', [('Content-Type', 'text/plain')])
    if path == '/stream':
        return (bytes(1000) for _ in range(200))
    return [b'%d' % len(content)]

async def asgi(scope, receive, send):
    if scope['type'] == 'lifespan':
        while True:
            message = await receive()
            await send({'type': message['type'] + '.complete'})
            if message['type'] == 'lifespan.shutdown':
                return
    path = scope['path'][len(scope['root_path']):]
    leave(path, scope['query_string'].decode())
    size, more = 0, True
    while more:
        message = await receive()
        if message['type'] == 'http.disconnect':
            return
        size, more = size + len(message['body']), message['more_body']
    await send({'type': 'http.response.start', 'status': 200,
                'headers': [(b'content-type', b'text/plain')]})
    if path == '/stream':
        for _ in range(200):
            await send({'type': 'http.response.body', 'body': bytes(1000), 'more_body': True})
            await asyncio.sleep(0)
    body = b'' if path == '/stream' else b'%d' % size
    await send({'type': 'http.response.body', 'body': body})
"#;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Interface {
    Wsgi,
    Asgi,
}

impl Interface {
    const BOTH: [Self; 2] = [Self::Wsgi, Self::Asgi];

    /// Returns a mount at `/run` of the application.
    fn mount(self, folder: &Folder, keys: &str) -> String {
        let line = match self {
            Self::Wsgi => "wsgi = \"app\"\npython-threads = 2\n",
            Self::Asgi => "asgi = \"app:asgi\"\n",
        };
        let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
        let path = folder.join("app");
        format!(
            "[[site.mount]]\npath = \"/run\"\n{line}python = \"/usr/bin/python3\"\n\
             python-folder = {path:?}\npython-processes = {PROCESSES}\n{user}{keys}"
        )
    }
}

fn application(name: &str) -> Folder {
    let folder = site(name);
    folder.write("app/app.py", APPLICATION);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    folder
}

fn start(folder: &Folder, io: Io, mount: &str) -> Server {
    folder.write("p.toml", format!("[[site]]\npath = \"public\"\ninclude = \"*.php\"\n{mount}"));
    let workers = WORKERS.to_string();
    let flags = ["--io", io.as_str(), "--workers", &workers];
    Start::site(&folder.join("p.toml")).flags(&flags).start()
}

/// Returns the processes of the application: its folder is on their command lines.
fn processes(folder: &Folder) -> Vec<u32> {
    processes_with(folder.join("app").to_str().expect("a path"))
}

/// The resources of a server.
#[derive(Debug)]
struct Held {
    files: usize,
    bytes: [u64; 2],
}

impl Held {
    /// Waits until a server with all processes has at most `files_max` open files, and counts.
    fn by(server: &Server, folder: &Folder, files_max: usize) -> Self {
        let is_quiet =
            || processes(folder).len() == PROCESSES && server.open_files().len() <= files_max;
        assert!(is_reached(is_quiet), "more than {files_max}: {:?}", server.open_files());
        let files = server.open_files().len();
        Self { files, bytes: [server.id(), spawner(server)].map(unbacked_bytes) }
    }
}

/// Returns the request of a number, and the bytes of content of its response.
fn request(number: usize) -> (Request, usize) {
    match number % 8 {
        0 => (Request::get("/run/stream"), STREAM_BYTES),
        1 => (Request::new("POST", "/run/x").body(&[b'a'; UPLOAD_BYTES]), 6),
        2 => (Request::new("PUT", "/run/x").body(b"content"), 1),
        3 => (Request::get("/run/leaks?100000"), 1),
        _ => (Request::get("/run/x"), 1),
    }
}

/// Sends one request; false if it fails as a request of a process that has ended may.
fn succeeds(connection: &mut Option<Connection>, server: &Server, number: usize) -> bool {
    let (request, bytes) = request(number);
    let mut own = connection.take().unwrap_or_else(|| server.connect());
    own.send_if_open(request.bytes());
    if number % 64 == 16 {
        // A client that leaves is none that fails.
        return true;
    }
    let Ok(response) = own.try_receive(false) else { return false };
    match response.status {
        200 => assert_eq!(response.body.len(), bytes, "request {number}: {response}"),
        502 => {}
        _ => panic!("request {number}: {response}"),
    }
    if !response.says_close() {
        *connection = Some(own);
    }
    response.status == 200
}

/// Keeps clients busy until `work` has ended, and returns how many requests of each have failed.
/// `work` gets the number of requests so far.
fn under_load(server: &Server, work: impl FnOnce(&AtomicUsize)) -> Vec<usize> {
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = || {
        let (mut connection, mut failed) = (None, 0);
        while !stop.load(Ordering::Relaxed) {
            let number = count.fetch_add(1, Ordering::Relaxed);
            failed += usize::from(!succeeds(&mut connection, server, number));
        }
        failed
    };
    thread::scope(|scope| {
        let ends = SetAtEnd(&stop);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        work(&count);
        drop(ends);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    })
}

/// Ends a process by force in one of four ways, and waits until another one is running.
fn end_process(server: &Server, folder: &Folder, number: usize) {
    let before = wait_for("all processes", || {
        let processes = processes(folder);
        (processes.len() == PROCESSES).then_some(processes)
    });
    let by_request = |target: &str| {
        let response = server.client().try_exchange(&Request::get(target));
        // With another one that ends it, it is cut off like any.
        match response {
            Ok(response) => assert_eq!(response.status, 502, "{target}: {response}"),
            Err(Broken::Closed | Broken::Short(_) | Broken::Failed(_)) => {}
            Err(broken) => panic!("{target}: {broken:?}"),
        }
    };
    match number % 4 {
        0 => by_request("/run/crashes"),
        1 => by_request("/run/exits"),
        kind => {
            let victim = before[number % PROCESSES];
            let signal = if kind == 2 { Signal::KILL } else { Signal::SEGV };
            // The process may have been replaced just now.
            let pid = Pid::from_raw(victim.cast_signed()).expect("a process");
            let _ended_meanwhile = kill_process(pid, signal);
        }
    }
    wait_for("another process", || {
        let now = processes(folder);
        let is_new = now.len() == PROCESSES && now.iter().any(|pid| !before.contains(pid));
        is_new.then_some(())
    });
}

fn kills() -> usize {
    let text = std::env::var("PINION_PYTHON_KILLS");
    text.map_or(KILLS, |text| text.parse().expect("PINION_PYTHON_KILLS is a number"))
}

#[test]
fn a_process_that_ends_fails_only_its_own_requests() {
    let folder = application("python-soak");
    let keys = "python-max-requests = 100\npython-max-memory = \"96M\"\n";
    let kills = kills();
    let all = Io::BOTH.into_iter().flat_map(|io| Interface::BOTH.map(|interface| (io, interface)));
    let is_wanted = |(io, interface): &(Io, Interface)| {
        cfg!(feature = "long") || (*io == Io::Epoll) == (*interface == Interface::Wsgi)
    };
    for (io, interface) in all.filter(is_wanted) {
        let server = start(&folder, io, &interface.mount(&folder, keys));
        // Replaced processes alone cost no request.
        let failed = under_load(&server, |count| {
            wait_for("some requests", || {
                (count.load(Ordering::Relaxed) > FIRST_REQUESTS).then_some(())
            });
        });
        assert_eq!(failed.iter().sum::<usize>(), 0, "{io:?} {interface:?}: {failed:?}");
        let before = Held::by(&server, &folder, usize::MAX);
        let failed = under_load(&server, |count| {
            for number in 0..kills {
                let from = count.load(Ordering::Relaxed);
                wait_for("some requests", || {
                    (count.load(Ordering::Relaxed) > from + REQUESTS_BETWEEN).then_some(())
                });
                end_process(&server, &folder, number);
            }
        });
        eprintln!("{io:?} {interface:?}: of each client failed {failed:?} at {kills} ends");
        // A client has one request at a time, so an end costs it one at most, and most clients have
        // theirs in other processes.
        assert!(failed.iter().all(|failed| *failed <= kills), "{io:?} {interface:?}: {failed:?}");
        let most = kills * CLIENTS * 3 / 4;
        assert!(failed.iter().sum::<usize>() <= most, "{io:?} {interface:?}: {failed:?}");
        let behind = Held::by(&server, &folder, before.files + WORKERS * PROCESSES);
        eprintln!("{io:?} {interface:?}: {before:?}, and behind the load {behind:?}");
        for (before, behind) in before.bytes.into_iter().zip(behind.bytes) {
            assert!(behind <= before + MORE_MEMORY_BYTES, "{before} bytes, now {behind}");
        }
        server.stop();
        assert!(processes(&folder).is_empty(), "no process is left");
    }
}

/// Each request loses a megabyte, and a process has memory for a few dozens: none fails.
#[test]
fn an_application_that_leaks_is_replaced_without_a_failed_request() {
    let folder = application("python-leaks");
    for (io, interface) in Io::BOTH.into_iter().zip(Interface::BOTH) {
        let mount = interface.mount(&folder, "python-max-memory = \"64M\"\n");
        let server = start(&folder, io, &mount);
        // Their memory is checked from time to time, so there may be more requests.
        let is_replaced = |line: &String| line.contains("of memory (python-max-memory)");
        let replaced = || server.lines().iter().filter(|line| is_replaced(line)).count();
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let client = || {
            let mut connection = server.connect();
            while !stop.load(Ordering::Relaxed) {
                next.fetch_add(1, Ordering::Relaxed);
                let response = connection.exchange(&Request::get("/run/leaks?1000000"));
                assert_eq!((response.status, response.text()), (200, "0"), "{response}");
            }
        };
        thread::scope(|scope| {
            let ends = SetAtEnd(&stop);
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            wait_for("enough requests and other processes", || {
                let has_failed = clients.iter().any(thread::ScopedJoinHandle::is_finished);
                let is_enough = next.load(Ordering::Relaxed) >= LEAKS && replaced() >= PROCESSES;
                (is_enough || has_failed).then_some(())
            });
            drop(ends);
        });
        server.stop();
        assert!(processes(&folder).is_empty(), "no process is left");
    }
}
