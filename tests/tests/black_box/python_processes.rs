//! How processes of Python applications start and are replaced: an application that cannot be
//! loaded, reloads under load, streams that go on meanwhile.

use crate::mounts::site;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// A user that tests which run as root run applications as.
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

/// An application that responds with a version, and whose stream lasts until a file is there.
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
fn reload(server: &Server) -> Vec<String> {
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

/// Clients that ask all the time meet the old version or the new one, and no failure.
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
            for number in 2..6 {
                folder.write("app/app.py", version(number, &folder));
                let lines = reload(&server);
                assert!(lines.iter().all(|line| !line.contains("cannot")), "{lines:?}");
                wait_for("the new version", || {
                    (latest.load(Ordering::Relaxed) == number).then_some(())
                });
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(server.get("/run/x").text().starts_with("5 "));
        server.stop();
    }
}

#[test]
fn a_stream_goes_on_while_its_process_is_replaced() {
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
fn broken_code_leaves_the_processes_as_they_are() {
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
