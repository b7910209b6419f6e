//! The reports of a server to the service manager that has started it, for systemd's `Type=notify`
//! and `WatchdogSec=`.

use pinion_tests::external_programs::{program, stdout};
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::notify_socket::NotifySocket;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;

/// A time limit that a busy machine keeps, and that a test can wait for.
const WATCHDOG_US: u32 = 2_000_000;

/// More messages than a server sends until its worker hangs.
const MESSAGES_MAX: usize = 100;

/// Messages about a worker that hangs, without one that the server lives.
const SILENT_MESSAGES: usize = 4;

fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// Returns the number of threads of the server itself: those that the kernel starts for io_uring
/// under load appear and disappear.
fn thread_count(server: &Server) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.id())).expect("its threads");
    let names = tasks.map(|task| fs::read_to_string(task.expect("a thread").path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| !name.starts_with("iou-"))).count()
}

/// Reloads the server, and returns the final message: systemd's Type=notify-reload expects these
/// messages (systemd.service(5)).
#[track_caller]
fn reload(manager: &NotifySocket, server: &Server) -> Vec<String> {
    let before = monotonic_us();
    server.signal(Signal::HUP);
    let [reloading, time, status] = &manager.message()[..] else { panic!("three lines") };
    assert_eq!((&**reloading, &**status), ("RELOADING=1", "STATUS=reloading"));
    let time = time.strip_prefix("MONOTONIC_USEC=").expect("a time").parse().expect("a number");
    assert!((before..=monotonic_us()).contains(&time), "{time} after {before}");
    manager.message()
}

#[test]
fn start_reload_and_stop_are_reported() {
    for (io, manager) in
        Io::BOTH.into_iter().zip([NotifySocket::at_path(), NotifySocket::with_abstract_name()])
    {
        let sites =
            "[[site]]\npath = \"one\"\n\n[[site]]\npath = \"two\"\nhosts = [\"two.test\"]\n";
        let folder = Folder::with(
            "notify",
            [("one/index.html", "1"), ("two/a.html", "2"), ("p.toml", sites)],
        );
        let mut server = Start::site(&folder.join("p.toml"))
            .flags(&["--io", io.as_str()])
            .under(manager.runner())
            .begin();
        assert_eq!(manager.message(), ["READY=1", "STATUS=serving 2 sites, 0 connections"]);
        // All earlier output has been printed.
        let address = server.address_of("http");
        assert!(TcpStream::connect(address).is_ok());
        assert_eq!(reload(&manager, &server)[0], "READY=1");
        folder.write("one/_redirects", "not a rule\n");
        let kept = reload(&manager, &server);
        assert!(kept[1].starts_with("STATUS=serving 2 sites, "), "{kept:?}");
        assert!(kept[1].ends_with("; the last reload failed"), "{kept:?}");
        folder.write("p.toml", "[[site]]\npath = 1\n");
        assert!(reload(&manager, &server)[1].ends_with("; the last reload failed"));
        folder.write("p.toml", "[[site]]\npath = \"two\"\n");
        let ready = reload(&manager, &server);
        assert!(ready[1].starts_with("STATUS=serving 1 site, "), "{ready:?}");
        assert!(!ready[1].contains("failed"), "{ready:?}");
        server.signal(Signal::TERM);
        let [stopping, status] = &manager.message()[..] else { panic!("two lines") };
        assert_eq!(stopping, "STOPPING=1");
        assert!(status.starts_with("STATUS=stopping; "), "{status}");
        assert!(server.wait().success());
    }
}

/// A server without connections ends immediately, for any duration of the report.
#[test]
fn a_server_without_connections_reports_its_end() {
    let manager = NotifySocket::at_path();
    let mut strace = program("strace", "strace");
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=sendto"]);
    strace.args(["-e", "inject=sendto:delay_enter=300000", "env"]);
    strace.arg(format!("NOTIFY_SOCKET={}", manager.name()));
    let mut server = Start::serve(&["--dummy"]).under(strace).start();
    assert_eq!(manager.message()[0], "READY=1");
    server.signal(Signal::TERM);
    assert_eq!(manager.message()[0], "STOPPING=1");
    assert!(server.wait().success());
}

#[test]
fn a_reload_has_ended_when_the_new_version_is_served() {
    let folder = Folder::with("notify", [("index.html", "0")]);
    let manager = NotifySocket::at_path();
    let server = Start::site(folder.path()).under(manager.runner()).start();
    assert_eq!(manager.message()[0], "READY=1");
    for version in ["1", "2", "3"] {
        folder.write("index.html", version);
        assert_eq!(reload(&manager, &server)[0], "READY=1");
        assert_eq!(server.get("/").text(), version);
    }
    server.stop();
}

#[test]
fn a_server_without_sites_reports_too() {
    let manager = NotifySocket::with_abstract_name();
    let server = Start::serve(&["--dummy"]).under(manager.runner()).start();
    assert_eq!(manager.message(), ["READY=1", "STATUS=serving 0 connections"]);
    assert_eq!(reload(&manager, &server)[0], "READY=1");
    server.stop();
    assert_eq!(manager.message()[0], "STOPPING=1");
}

#[test]
fn only_a_time_limit_for_this_process_takes_a_thread() {
    let folder = Folder::with("notify", [("index.html", "home")]);
    let started = |runner| {
        let start = Start::site(folder.path()).flags(&["--workers", "2"]);
        match runner {
            Some(runner) => start.under(runner).start(),
            None => start.start(),
        }
    };
    let threads_under = |runner| {
        let server = started(runner);
        let count = thread_count(&server);
        server.stop();
        count
    };
    let alone = threads_under(None);
    let manager = NotifySocket::at_path();
    assert_eq!(threads_under(Some(manager.runner())), alone);
    // The limit of another process, such as a shell that runs the server.
    let mut others = manager.runner();
    others.args(["WATCHDOG_PID=1", "WATCHDOG_USEC=1000000"]);
    assert_eq!(threads_under(Some(others)), alone);
    let server = started(Some(manager.runner_with_watchdog(WATCHDOG_US)));
    server.wait_for_thread("watchdog");
    assert_eq!(thread_count(&server), alone + 1);
    server.stop();
}

#[test]
fn a_working_server_sends_watchdog_messages() {
    for io in Io::BOTH {
        let folder = Folder::with("notify", [("index.html", "home")]);
        let manager = NotifySocket::at_path();
        let server = Start::site(folder.path())
            .flags(&["--io", io.as_str(), "--workers", "2"])
            .under(manager.runner_with_watchdog(WATCHDOG_US / 10))
            .start();
        assert_eq!(manager.message()[0], "READY=1");
        let mut connection = server.connect();
        let request = pinion_tests::request::Request::get("/");
        assert_eq!(connection.exchange(&request).text(), "home");
        let of_one = "STATUS=serving 1 site, 1 connection";
        for _ in 0..3 {
            assert_eq!(manager.wait_for(|line| line == of_one)[0], "WATCHDOG=1");
        }
        server.stop();
    }
}

/// A worker that the kernel keeps waiting: it opens a named pipe that has no writer.
#[test]
fn a_hanging_worker_stops_the_watchdog_messages() {
    let (folder, path) = script(
        "pinion.get('/hang', function(req)\n\
             io.open(req.query.pipe):close()\n\
             return 'released'\n\
         end)\n",
    );
    let pipe = folder.join("pipe");
    stdout(program("mkfifo", "coreutils").arg(&pipe));
    let manager = NotifySocket::at_path();
    let server = Start::site(&path)
        .flags(&["--lua-unsafe", "--workers", "1"])
        .under(manager.runner_with_watchdog(WATCHDOG_US))
        .start();
    manager.wait_for(|line| line == "WATCHDOG=1");
    let mut client = TcpStream::connect(server.address()).expect("connected");
    let target = format!("/hang?pipe={}", pipe.display());
    write!(client, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let hangs = |line: &str| line.starts_with("STATUS=worker 0 has not responded for ");
    // Nothing else is reported while it hangs. A machine that is busy may keep it waiting before.
    let mut in_a_row = 0;
    for _ in 0..MESSAGES_MAX {
        let message = manager.message();
        let is_silent = message.len() == 1 && hangs(&message[0]);
        in_a_row = if is_silent { in_a_row + 1 } else { 0 };
        if in_a_row == SILENT_MESSAGES {
            break;
        }
    }
    assert_eq!(in_a_row, SILENT_MESSAGES, "it is reported to live");
    let logged = || {
        let lines = server.lines();
        lines.iter().filter(|line| line.contains("worker 0 has not responded for ")).count()
    };
    let line = server.wait_for_line(0, |line| line.contains("worker 0 has not responded for "));
    assert!(line.contains("(WatchdogSec=)"), "{line}");
    let before = logged();
    let message = manager.message();
    assert!(hangs(&message[0]), "{message:?}");
    assert_eq!(logged(), before, "it is logged once");
    drop(OpenOptions::new().write(true).open(&pipe).expect("opened"));
    manager.wait_for(|line| line == "WATCHDOG=1");
    server.stop();
}

#[test]
fn scripts_and_programs_do_not_see_the_manager() {
    let (_folder, path) = script(
        "pinion.get('/', function()\n\
             local pipe = io.popen('env')\n\
             local names = {}\n\
             for line in pipe:lines() do names[#names + 1] = line:match('^[^=]*') end\n\
             return table.concat(names, ' ') .. ' ' .. tostring(os.getenv('NOTIFY_SOCKET'))\n\
         end)\n",
    );
    let manager = NotifySocket::at_path();
    let server = Start::site(&path)
        .flags(&["--lua-unsafe", "--workers", "1"])
        .under(manager.runner_with_watchdog(WATCHDOG_US))
        .start();
    let response = server.get("/");
    let names: Vec<&str> = response.text().split(' ').collect();
    assert!(names.contains(&"PATH") && names.ends_with(&["nil"]), "{names:?}");
    let passed = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];
    assert!(!names.iter().any(|name| passed.contains(name)), "{names:?}");
    server.stop();
}

#[test]
fn a_manager_that_cannot_be_reached_is_logged_once() {
    let folder = Folder::with("notify", [("index.html", "home")]);
    let path = folder.join("nothing");
    for (name, why) in [
        (path.to_str().expect("text"), "cannot notify the service manager at /"),
        ("vsock:2:1", "NOTIFY_SOCKET=vsock:2:1: only paths and abstract sockets"),
    ] {
        let mut env = program("env", "coreutils");
        env.arg(format!("NOTIFY_SOCKET={name}"));
        let server = Start::site(folder.path()).under(env).start();
        server.signal(Signal::HUP);
        server.wait_for_line(0, |line| line.starts_with("reloaded "));
        assert_eq!(server.get("/").text(), "home");
        let said = server.last_words();
        let warnings = said.iter().filter(|line| line.contains("warning:")).collect::<Vec<_>>();
        assert!(warnings.len() == 1 && warnings[0].contains(why), "{said:#?}");
    }
}
