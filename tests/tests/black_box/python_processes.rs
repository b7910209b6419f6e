//! The start and the replacement of processes of Python applications: an application that cannot be
//! loaded, reloads under load, streams that continue meanwhile.

use crate::mounts::site;
use pinion_tests::external_programs::program;
use pinion_tests::matrix::Io;
use pinion_tests::processes::cpu_ticks;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// At any end of a test, its clients must not continue for ever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the key with the user of the applications, for tests that run as root.
fn user_keys() -> &'static str {
    if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" }
}

/// Writes a site with the application `app.py` for `/run`.
fn application(name: &str, source: &str, keys: &str) -> Folder {
    let folder = site(name);
    folder.write("app/app.py", source);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    let (path, user) = (folder.join("app"), user_keys());
    folder.write(
        "p.toml",
        format!(
            "[[site]]\npath = \"public\"\nphp = false\n[[site.mount]]\npath = \"/run\"\n\
             wsgi = \"app\"\npython = \"/usr/bin/python3\"\npython-folder = {path:?}\n{user}{keys}"
        ),
    );
    folder
}

/// Returns an application that responds with a version, and whose stream lasts until a file exists.
fn version(version: u32, folder: &Folder) -> String {
    let file = folder.join("end");
    format!(
        r#"
import os, time
streams = 0
def stream():
    global streams
    streams += 1
    yield b'begin {version}\n'
    while not os.path.exists({file:?}):
        time.sleep(0.01)
        yield b'.'
    yield b'end\n'
def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    if environ['PATH_INFO'] == '/stream':
        return stream()
    return [b'{version} %d %d' % (os.getpid(), streams)]
"#
    )
}

fn start(folder: &Folder, io: Io) -> Server {
    Start::site(&folder.join("p.toml")).flags(&["--io", io.as_str()]).start()
}

/// Reloads, and returns the lines that the server has written about it.
pub(crate) fn reload(server: &Server) -> Vec<String> {
    let from = server.lines().len();
    server.signal(Signal::HUP);
    let is_end = |line: &str| line.starts_with("reloaded ") || line.contains("cannot reload");
    server.wait_for_line(from, is_end);
    server.lines().split_off(from)
}

#[test]
fn an_application_that_cannot_be_loaded_ends_the_start() {
    for (source, expected) in [
        ("import pinion_has_no_such_module\n", "ModuleNotFoundError"),
        ("app = = 1\n", "SyntaxError"),
        ("other = 1\n", "has neither \"application\" nor \"app\""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV"),
    ] {
        let folder = application("python-import", source, "");
        let path = folder.join("p.toml");
        let ended = run(&["serve", path.to_str().expect("a path"), "--listen", "127.0.0.1:0"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        let last = "the Python application app cannot be loaded: python";
        assert!(ended.stderr.contains(last), "{}", ended.stderr);
        assert!(!ended.stderr.contains("\nready"), "{}", ended.stderr);
    }
}

/// Clients that send requests all the time get the old version or the new one, and no failure.
#[test]
fn a_reload_loads_changed_code_without_a_failed_request() {
    let folder = application("python-reload", "", "python-processes = 2\n");
    for io in Io::BOTH {
        folder.write("app/app.py", version(1, &folder));
        let server = start(&folder, io);
        let (stop, latest) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = server.connect();
                    while !stop.load(Ordering::Relaxed) {
                        let response = connection.exchange(&Request::get("/run/x"));
                        assert_eq!(response.status, 200, "{response}");
                        let (number, _) = response.text().split_once(' ').expect("a version");
                        latest.store(number.parse().expect("a number"), Ordering::Relaxed);
                    }
                });
            }
            let ended = StopOnDrop(&stop);
            for number in 2..6 {
                folder.write("app/app.py", version(number, &folder));
                let lines = reload(&server);
                assert!(lines.iter().all(|line| !line.contains("cannot")), "{lines:?}");
                wait_for("the new version", || {
                    (latest.load(Ordering::Relaxed) == number).then_some(())
                });
            }
            drop(ended);
        });
        assert!(server.get("/run/x").text().starts_with("5 "));
        server.stop();
    }
}

#[test]
fn a_stream_continues_while_its_process_is_replaced() {
    let folder = application("python-streams", "", "python-threads = 2\n");
    folder.write("app/app.py", version(1, &folder));
    let server = start(&folder, Io::BOTH[0]);
    thread::scope(|scope| {
        let streams: Vec<_> = (1..4)
            .map(|number| {
                let stream = scope.spawn(|| server.get("/run/stream").text().to_owned());
                wait_for("the stream", || {
                    let text = server.get("/run/x").text().to_owned();
                    assert!(text.starts_with(&number.to_string()), "{text}");
                    text.ends_with(" 1").then_some(())
                });
                folder.write("app/app.py", version(number + 1, &folder));
                reload(&server);
                wait_for("the new version", || {
                    let expected = format!("{} ", number + 1);
                    server.get("/run/x").text().starts_with(&expected).then_some(())
                });
                stream
            })
            .collect();
        folder.write("end", "");
        for (stream, number) in streams.into_iter().zip(1..) {
            let text = stream.join().expect("the stream");
            assert!(text.starts_with(&format!("begin {number}\n")), "{number}: {text}");
            assert!(text.ends_with("end\n"), "{number}: {text}");
        }
    });
    server.stop();
}

#[test]
fn broken_code_keeps_the_running_processes() {
    let folder = application("python-broken", "", "");
    folder.write("app/app.py", version(1, &folder));
    let server = start(&folder, Io::BOTH[0]);
    let before = server.get("/run/x").text().to_owned();
    folder.write("app/app.py", "import pinion_has_no_such_module\n");
    let from = server.lines().len();
    reload(&server);
    server.wait_for_line(from, |line| line.contains("ModuleNotFoundError"));
    server.wait_for_line(from, |line| line.contains("the Python application app cannot be loaded"));
    assert_eq!(server.get("/run/x").text(), before, "the same process responds");
    folder.write("app/app.py", version(2, &folder));
    let lines = reload(&server);
    assert!(lines.iter().all(|line| !line.contains("cannot")), "{lines:?}");
    assert!(server.get("/run/x").text().starts_with("2 "));
    server.stop();
}

/// An application that loses memory with each request, and responds with its process.
const LEAKS: &str = "\
import os
lost = []
def app(environ, start_response):
    lost.append(b'x' * int(environ['QUERY_STRING'] or 0))
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'%d' % os.getpid()]
";

/// Sends requests from several clients until this many processes have responded.
fn until_processes(server: &Server, target: &str, count: usize) {
    let processes = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = server.connect();
                wait_for("other processes", || {
                    let response = connection.exchange(&Request::get(target));
                    assert_eq!(response.status, 200, "{response}");
                    let mut processes = processes.lock().expect("no panic");
                    processes.insert(response.text().to_owned());
                    (processes.len() >= count).then_some(())
                });
            });
        }
    });
}

#[test]
fn a_process_is_replaced_after_its_requests_without_a_failed_one() {
    let keys = "python-max-requests = 50\npython-processes = 2\n";
    let folder = application("python-max-requests", LEAKS, keys);
    for io in Io::BOTH {
        let server = start(&folder, io);
        until_processes(&server, "/run/x", 6);
        server.wait_for_line(0, |line| line.contains("requests (python-max-requests)"));
        server.stop();
    }
}

#[test]
fn a_process_that_loses_memory_is_replaced_without_a_failed_request() {
    let folder = application("python-max-memory", LEAKS, "python-max-memory = \"64M\"\n");
    let server = start(&folder, Io::BOTH[0]);
    until_processes(&server, "/run/x?1000000", 3);
    server.wait_for_line(0, |line| line.contains("of memory (python-max-memory)"));
    server.stop();
}

#[test]
fn a_process_is_replaced_after_its_lifetime() {
    let folder = application("python-max-lifetime", LEAKS, "python-max-lifetime = 1\n");
    let server = start(&folder, Io::BOTH[0]);
    until_processes(&server, "/run/x", 2);
    server.wait_for_line(0, |line| line.contains("seconds (python-max-lifetime)"));
    server.stop();
}

/// With `--dev`, changed code is loaded automatically, also after code that cannot be loaded.
#[test]
fn changed_code_is_loaded_in_development() {
    let folder = application("python-dev", "import pinion_has_no_such_module\n", "dev = true\n");
    let text = fs::read_to_string(folder.join("p.toml")).expect("the configuration");
    let text =
        text.replace("dev = true\n", "").replace("php = false\n", "php = false\ndev = true\n");
    folder.write("p.toml", text);
    let server = start(&folder, Io::BOTH[0]);
    server.wait_for_line(0, |line| line.contains("ModuleNotFoundError"));
    assert_eq!(server.get("/run/x").status, 503);
    for number in 1..4 {
        folder.write("app/app.py", version(number, &folder));
        wait_for("the new version", || {
            let response = server.get("/run/x");
            assert!(matches!(response.status, 200 | 503), "{response}");
            response.text().starts_with(&format!("{number} ")).then_some(())
        });
        let from = server.lines().len();
        folder.write("app/app.py", "app = = 1\n");
        server.wait_for_line(from, |line| line.contains("SyntaxError"));
        assert!(server.get("/run/x").text().starts_with(&format!("{number} ")));
    }
    server.stop();
}

/// Returns the line about the memory of the application.
fn memory_line(server: &Server, from: usize) -> String {
    let line = server.wait_for_line(from, |line| line.contains(" in use, at most "));
    line.trim_start_matches("Python application app: ").to_owned()
}

#[test]
fn the_start_reports_the_memory_in_use() {
    let folder = application("python-memory", LEAKS, "");
    let server = start(&folder, Io::BOTH[0]);
    let line = memory_line(&server, 0);
    assert!(line.starts_with("1 process, ") && line.contains(" MiB of "), "{line}");
    assert!(line.ends_with(" in use, at most 1 process of any size"), "{line}");
    let from = server.lines().len();
    reload(&server);
    assert!(memory_line(&server, from).starts_with("1 process, "));
    server.stop();
}

#[test]
fn start_and_status_report_the_memory_limit() {
    let keys = "python-processes = 2\npython-max-memory = \"512M\"\n";
    let folder = application("python-memory-max", LEAKS, keys);
    folder.write("run/.keep", "");
    fs::set_permissions(folder.join("run"), Permissions::from_mode(0o700)).expect("permissions");
    let path = folder.join("run/control");
    let path = path.to_str().expect("a path");
    let server = Start::site(&folder.join("p.toml")).flags(&["--control", path]).start();
    let expected = " in use, at most 1.00 GiB (python-max-memory)";
    let line = memory_line(&server, 0);
    assert!(line.starts_with("2 processes, ") && line.ends_with(expected), "{line}");
    let ended = run(&["status", "--socket", path]);
    let is_line = |line: &str| line.contains("app in ") && line.ends_with(expected);
    assert!(ended.stdout.lines().any(is_line), "{}", ended.stdout);
    let ended = run(&["status", "--socket", path, "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let memory = &status["servers"][0]["python"][0]["memory"];
    assert_eq!(memory["max_bytes"].as_u64(), Some(1 << 30), "{memory}");
    assert_eq!(memory["processes"].as_u64(), Some(2), "{memory}");
    let resident = status["servers"][0]["python"][0]["processes"].as_array().expect("processes");
    let resident: u64 =
        resident.iter().map(|it| it["resident_bytes"].as_u64().expect("a number")).sum();
    let used = memory["used_bytes"].as_u64().expect("a number");
    assert!((1 << 20..resident).contains(&used), "{used} of {resident}: they share Python");
    server.stop();
}

#[test]
fn the_status_shows_processes() {
    let folder = application("python-status", LEAKS, "python-processes = 2\n");
    folder.write("run/.keep", "");
    fs::set_permissions(folder.join("run"), Permissions::from_mode(0o700)).expect("permissions");
    let path = folder.join("run/control");
    let path = path.to_str().expect("a path");
    let server = Start::site(&folder.join("p.toml")).flags(&["--control", path]).start();
    for _ in 0..5 {
        assert_eq!(server.get("/run/x").status, 200);
    }
    let ended = run(&["status", "--socket", path]);
    assert!(ended.stdout.contains("app in "), "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("in use, 0 requests now, ").count(), 2, "{}", ended.stdout);
    let ended = run(&["status", "--socket", path, "--json"]);
    assert!(ended.stdout.contains("\"in-use\""), "{}", ended.stdout);
    server.stop();
}

/// A process that is always busy. It is killed with the value.
struct BusyProcess(Child);

impl BusyProcess {
    /// Starts it on this core, in a session of its own as another service has.
    fn start(core: &str) -> BusyProcess {
        let mut command = program("setsid", "util-linux");
        command.args(["taskset", "-c", core, "sh", "-c", "while :; do :; done"]);
        BusyProcess(command.spawn().expect("a process"))
    }
}

impl Drop for BusyProcess {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// An application that uses all the CPU time it gets from a request for `/spin` on, in a thread,
/// so that no request waits for the end.
const SPINS: &str = "\
import os, threading
def spin():
    while True:
        pass
def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    if environ['PATH_INFO'] == '/spin':
        threading.Thread(target=spin, daemon=True).start()
    return [b'%d' % os.getpid()]
";

/// Returns the share of another process in the ticks that it and the application get.
fn share_of_the_other(keys: &str) -> (f64, String) {
    let folder = application("python-nice", SPINS, keys);
    let status = fs::read_to_string("/proc/self/status").expect("the status of this process");
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let core = cores.expect("cores").trim().split(['-', ',']).next().expect("a core");
    let mut taskset = program("taskset", "util-linux");
    taskset.args(["-c", core]);
    let server = Start::site(&folder.join("p.toml")).under(taskset).start();
    let line = server.wait_for_line(0, |line| line.starts_with("Python application app in "));
    let pid: u32 = server.get("/run/pid").text().parse().expect("a process");
    let idle = cpu_ticks(pid);
    assert_eq!(server.get("/run/spin").status, 200);
    wait_for("a busy application", || (cpu_ticks(pid) >= idle + 5).then_some(()));
    let busy = BusyProcess::start(core);
    let ticks = || (cpu_ticks(pid), cpu_ticks(busy.0.id()));
    let begin = ticks();
    let (application, other) = wait_for("ticks", || {
        let now = ticks();
        let (application, other) = (now.0 - begin.0, now.1 - begin.1);
        (application + other >= 200).then_some((application, other))
    });
    drop(busy);
    server.stop();
    (other as f64 / (application + other) as f64, line)
}

/// A program that runs at the same time as a busy application, on the same core, has its share.
#[test]
fn a_busy_application_leaves_a_core_to_others() {
    let (share, line) = share_of_the_other("python-nice = 19\n");
    assert!(
        line.ends_with("nice 19 (about 1.4 % of a core while another program is busy on it)"),
        "{line}"
    );
    assert!(share > 0.75, "the other process had {share} of the core");
}
