//! Servers in Node, Python and Go behind one mount, which are killed, stopped and restarted at
//! random times while clients send requests. This takes minutes, so it only runs in `cargo xtask
//! test --long`. Requests are counted and never timed.

use crate::lua_fetch::Running;
use pinion_tests::client::{Broken, Connection};
use pinion_tests::external_programs::{build_go, program};
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::reserved_port::HeldPort;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start, run_under};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{PATIENCE, SetAtEnd, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Determines the events; their times depend on the machine.
const SEED: u64 = 35;
/// Number of disturbances, over each backend.
const ROUNDS: usize = 80;
/// Clients, each with one request at a time.
const CLIENTS: usize = 8;
/// Requests before the first disturbance, and after the last restart.
const CALM_REQUESTS: usize = 2_000;
/// Bytes of responses, up to more than all buffers on the way can hold.
const PAGE_BYTES: [usize; 3] = [10, 20_000, 2 << 20];
/// The most bytes by which the memory of a server may grow over the run. Allocators keep a few MiB;
/// one leaked response in each round would be more.
const MORE_MEMORY_BYTES: u64 = 24 << 20;

/// Random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

/// A server that can be killed.
struct Application {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<PathBuf>,
    port: HeldPort,
    notes: PathBuf,
    running: Option<Running>,
}

impl Application {
    fn all(folder: &Folder) -> [Application; 3] {
        folder.write("soak.mjs", include_str!("../../src/upstream_soak.mjs"));
        folder.write("soak.py", include_str!("../../src/upstream_soak.py"));
        folder.write("soak.go", include_str!("../../src/upstream_soak.go"));
        build_go(folder.path(), "soak.go", "soak");
        let found = |name, package| PathBuf::from(program(name, package).get_program());
        [
            ("node", found("node", "nodejs"), vec![folder.join("soak.mjs")]),
            ("python", found("python3", "python3"), vec![folder.join("soak.py")]),
            ("go", folder.join("soak"), Vec::new()),
        ]
        .map(|(name, program, arguments)| {
            let notes = folder.join(format!("notes-{name}"));
            Application { name, program, arguments, port: HeldPort::take(), notes, running: None }
        })
    }

    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        let port = self.port.address().port().to_string();
        command.args(&self.arguments).arg(port).arg(&self.notes);
        self.running = Some(Running::start(command.stdout(Stdio::null()).stderr(Stdio::null())));
        let response = wait_for("the application", || self.response());
        let name = format!("\r\nX-Server: {}\r\n", self.name);
        assert!(response.contains(&name), "not {}: {response}", self.name);
    }

    /// Returns the response of the process that listens at the port.
    fn response(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.port.address()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let request = "GET /page/start/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("the application takes a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        Some(response)
    }

    fn signal(&self, signal: Signal) {
        let running = self.running.as_ref().expect("it runs");
        let pid = Pid::from_raw(running.id().cast_signed()).expect("a number");
        kill_process(pid, signal).expect("a signal reaches it");
    }

    /// Returns the executed requests, one entry for each time.
    fn done(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(&self.notes).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }
}

/// Counts over all clients.
#[derive(Default)]
struct Tally {
    /// Requests that have ended, with any outcome.
    ended: AtomicUsize,
    /// Disturbances that have begun, and those that have ended: odd during one.
    disturbances: AtomicUsize,
    is_over: AtomicBool,
}

/// The reason why a client has no whole response.
enum Failure {
    /// The connection has ended within the response.
    Cut,
    /// The connection has ended before the first byte of the response.
    Closed,
    /// Anything else.
    Wrong(String),
}

/// The outcomes of one client.
#[derive(Default)]
struct Outcomes {
    statuses: BTreeMap<u16, usize>,
    /// Responses that were cut off, all during a disturbance.
    cut: usize,
    /// Connections that were closed before the first byte of a response, all during a disturbance:
    /// the server failed after its head had arrived and before it was sent to the client.
    closed: usize,
    /// Unsafe requests with a response.
    done: Vec<String>,
    wrong: Vec<String>,
}

/// Sends requests until the end of the test.
fn send_requests(server: &Server, number: usize, tally: &Tally) -> Outcomes {
    let (mut random, mut outcomes) = (Random(SEED + number as u64), Outcomes::default());
    let mut connection: Option<Connection> = None;
    for count in 0.. {
        if tally.is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{}-{number}-{count}", server.id());
        let bytes = PAGE_BYTES[random.below(PAGE_BYTES.len())];
        let content = vec![b'x'; bytes.min(100_000)];
        let (request, expected) = match random.below(5) {
            0 => (Request::new("POST", &format!("/do/{id}")).body(&content), None),
            1 => (Request::new("PUT", &format!("/do/{id}")).chunked(&content, 5_000), None),
            2 => (Request::head(&format!("/page/{id}/{bytes}")), Some(String::new())),
            _ => {
                let text = format!("{id}-");
                let page = text.repeat(bytes / text.len() + 1).get(..bytes).map(str::to_owned);
                (Request::get(&format!("/page/{id}/{bytes}")), page)
            }
        };
        let is_unsafe = expected.is_none();
        let expected = expected.unwrap_or_else(|| format!("{id} {}", content.len()));
        let mut own = connection.take().unwrap_or_else(|| server.connect());
        let before = tally.disturbances.load(Ordering::SeqCst);
        let result = exchange(&mut own, &request);
        // A request is affected by a disturbance if there was one when it began, or one has begun
        // since.
        let after = tally.disturbances.load(Ordering::SeqCst);
        let is_explained = before % 2 == 1 || before != after;
        match result {
            Ok(response) => {
                *outcomes.statuses.entry(response.status).or_default() += 1;
                match check(&response, &expected) {
                    Ok(()) if is_unsafe && response.status == 200 => outcomes.done.push(id),
                    Ok(()) => {}
                    Err(why) => outcomes.wrong.push(format!("{id}: {why}")),
                }
                connection = (response.field("Connection") != Some("close")).then_some(own);
            }
            Err(Failure::Cut) if is_explained => outcomes.cut += 1,
            Err(Failure::Closed) if is_explained => outcomes.closed += 1,
            Err(Failure::Cut) => outcomes.wrong.push(format!("{id}: cut off without a reason")),
            Err(Failure::Closed) => outcomes.wrong.push(format!("{id}: closed without a reason")),
            Err(Failure::Wrong(why)) => outcomes.wrong.push(format!("{id}: {why}")),
        }
        tally.ended.fetch_add(1, Ordering::Relaxed);
    }
    outcomes
}

/// Sends a request, and reads its response.
fn exchange(connection: &mut Connection, request: &Request) -> Result<Response, Failure> {
    let is_reset = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    connection.send_if_open(request.bytes());
    match connection.read_some(64 * 1024) {
        Ok(0) => return Err(Failure::Closed),
        Ok(_) => {}
        Err(error) if is_reset(error.kind()) => return Err(Failure::Closed),
        Err(error) => return Err(Failure::Wrong(error.to_string())),
    }
    connection.try_receive(request.is_head()).map_err(|broken| match broken {
        Broken::Short(_) => Failure::Cut,
        Broken::Failed(error) if is_reset(error.kind()) => Failure::Cut,
        broken => Failure::Wrong(format!("{broken:?}")),
    })
}

/// Checks that a response is the expected one, or an error of the gateway.
fn check(response: &Response, expected: &str) -> Result<(), String> {
    match response.status {
        200 if response.text() == expected => Ok(()),
        200 => Err(format!("{} bytes, and not {}", response.body.len(), expected.len())),
        502..=504 => Ok(()),
        status => Err(format!("status {status}")),
    }
}

/// Waits until this many more requests have ended.
fn wait_for_requests(tally: &Tally, more: usize) {
    let from = tally.ended.load(Ordering::Relaxed);
    wait_for("requests", || (tally.ended.load(Ordering::Relaxed) >= from + more).then_some(()));
}

/// Kills or stops a server, and restarts it.
fn disturb(application: &mut Application, tally: &Tally, random: &mut Random) {
    let more = 1 + random.below(200);
    tally.disturbances.fetch_add(1, Ordering::SeqCst);
    match random.below(3) {
        0 => {
            application.signal(Signal::STOP);
            wait_for_requests(tally, more);
            application.signal(Signal::CONT);
        }
        // The server is killed while it is stopped: requests that were sent to it are lost.
        1 => {
            application.signal(Signal::STOP);
            wait_for_requests(tally, 1 + random.below(CLIENTS));
            application.running = None;
            wait_for_requests(tally, more);
            application.start();
        }
        _ => {
            application.running = None;
            wait_for_requests(tally, more);
            application.start();
        }
    }
    tally.disturbances.fetch_add(1, Ordering::SeqCst);
}

/// Returns the states of the servers from `pinion status`.
fn states(folder: &Folder) -> Vec<String> {
    let mut env = Command::new("env");
    env.arg(format!("XDG_RUNTIME_DIR={}", folder.path().display()));
    let report: Value =
        serde_json::from_str(&run_under(env, &["status", "--json"]).stdout).expect("a document");
    let upstreams = report["servers"][0]["sites"][0]["upstreams"].as_array().expect("servers");
    upstreams.iter().map(|one| one["state"].as_str().expect("a state").to_owned()).collect()
}

/// Waits until all servers are used.
fn wait_for_health(folder: &Folder) {
    wait_for("servers that are up", || {
        let states = states(folder);
        (states.len() == 3 && states.iter().all(|state| state == "up")).then_some(())
    });
}

#[test]
fn killed_and_stopped_servers_process_no_request_twice() {
    let folder = Folder::with("upstream-soak", [("public/index.html", "home")]);
    let mut applications = Application::all(&folder);
    applications.iter_mut().for_each(Application::start);
    let urls = applications.each_ref().map(|one| format!("\"http://{}\"", one.port.address()));
    let keys = "timeout = 2\nmax-fails = 2\nfail-timeout = 1\nhealth-path = \"/page/health/2\"\n\
                health-interval = 1\nhealth-timeout = 10\nhealth-fails = 2\nhealth-passes = 1";
    let mount = format!("[[site.mount]]\nproxy = [{}]\n{keys}\n", urls.join(", "));
    folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{mount}"));
    for io in Io::BOTH {
        let start = Start::site(&folder.join("p.toml")).session(folder.path());
        let server = start.flags(&["--io", io.as_str()]).start();
        run(&server, &folder, &mut applications);
        server.stop();
    }
    let done: Vec<String> = applications.iter().flat_map(Application::done).collect();
    let distinct: BTreeSet<&String> = done.iter().collect();
    assert_eq!(distinct.len(), done.len(), "a request was done twice");
    assert!(distinct.len() > 1_000, "{} requests show little", distinct.len());
}

/// Runs clients that send requests to one server while its applications are disturbed.
fn run(server: &Server, folder: &Folder, applications: &mut [Application; 3]) {
    let (tally, mut random) = (Tally::default(), Random(SEED));
    wait_for_health(folder);
    let sockets = server.sockets();
    let mut before_bytes = 0;
    let all = thread::scope(|scope| {
        let clients_end_too = SetAtEnd(&tally.is_over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let tally = &tally;
                    move || send_requests(server, number, tally)
                })
            })
            .collect();
        wait_for_requests(&tally, CALM_REQUESTS);
        before_bytes = server.memory_bytes("RssAnon");
        for _ in 0..ROUNDS {
            wait_for_requests(&tally, 1 + random.below(200));
            let index = random.below(applications.len());
            disturb(&mut applications[index], &tally, &mut random);
        }
        wait_for_health(folder);
        wait_for_requests(&tally, CALM_REQUESTS);
        drop(clients_end_too);
        clients.into_iter().map(|client| client.join().expect("no panic")).collect::<Vec<_>>()
    });
    let wrong: Vec<_> = all.iter().flat_map(|one| &one.wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let done: BTreeSet<String> = applications.iter().flat_map(Application::done).collect();
    for id in all.iter().flat_map(|one| &one.done) {
        assert!(done.contains(id), "{id} was responded to and not done");
    }
    // A disturbance affects at most the open request of each client.
    let cut: usize = all.iter().map(|one| one.cut).sum();
    let closed: usize = all.iter().map(|one| one.closed).sum();
    println!("{cut} responses were cut off, {closed} connections closed without a byte of one");
    assert!(cut + closed <= ROUNDS * CLIENTS, "{cut} responses were cut off, {closed} never began");
    for application in applications.iter() {
        wait_for(application.name, || {
            (server.get("/page/a/1").field("X-Server") == Some(application.name)).then_some(())
        });
    }
    wait_for_health(folder);
    // Connections for health checks may be opened later than the first count.
    wait_for("closed connections", || {
        (server.sockets() <= sockets + applications.len()).then_some(())
    });
    let after_bytes = server.memory_bytes("RssAnon");
    let allowed_bytes = before_bytes + MORE_MEMORY_BYTES;
    assert!(after_bytes <= allowed_bytes, "{after_bytes} bytes behind {before_bytes}");
}
