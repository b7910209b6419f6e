//! Failures around programs of scripts: clients that disconnect at any time, a process that starts
//! programs which hangs or is killed, programs that are missing after a reload.

use pinion_tests::client::Client;
use pinion_tests::lua_script_site::{in_every_way_with, script};
use pinion_tests::matrix::Io;
use pinion_tests::processes::processes_with;
use pinion_tests::request::{Request, percent_encoded};
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{PATIENCE, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Routes that run a program with the code of the request, each at another stage of the request.
const ROUTES: &str = r#"
local function run(req)
    local process, why = pinion.process.run("sh", { "-c", req.query.code },
        { timeout = tonumber(req.query.timeout) })
    if not process then
        return "not started: " .. why
    end
    local output, wrong = process:output()
    return tostring(output or wrong)
end
pinion.get("/run", run)
pinion.get("/later", function(req)
    pinion.sleep(0.1)
    return run(req)
end)
pinion.get("/gathered", function(req)
    pinion.sleep(0.1)
    return pinion.gather(function() return run(req) end)
end)
pinion.post("/read", function(req)
    req:body()
    return run(req)
end)
pinion.get("/stream", function(req, res)
    local process = assert(pinion.process.run("sh", { "-c", req.query.code }, { timeout = 600 }))
    for piece in process:pieces() do
        res:write(piece)
    end
end)
pinion.get("/hello", function() return "hello" end)
"#;

/// A shell as the program of all tests.
const SHELL: [&str; 2] = ["--lua-program", "sh=/bin/sh"];

fn served(flags: &[&str]) -> (Folder, Server) {
    let (folder, path) = script(ROUTES);
    let start = Start::site(&path).flags(&SHELL).flags(flags);
    (folder, start.start())
}

/// Returns a text that no command line of another test has.
fn unique(number: u32) -> String {
    format!("{}.{number}", 2_000_000 + std::process::id())
}

/// Returns all children of a process, including zombies.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("a process").flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = lists.flat_map(|list| {
        list.split_whitespace().map(|pid| pid.parse().expect("a number")).collect::<Vec<u32>>()
    });
    numbers.collect()
}

/// Returns the process that starts the programs of a server: its only child.
pub(crate) fn spawner(server: &Server) -> u32 {
    match children(server.id())[..] {
        [spawner] => spawner,
        ref others => panic!("the spawner is the only child: {others:?}"),
    }
}

fn send(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("sent");
}

/// Stops a process, and continues it when the test ends in any way.
struct Stopped(u32);

impl Stopped {
    fn new(process: u32) -> Self {
        send(process, Signal::STOP);
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        send(self.0, Signal::CONT);
    }
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).expect("connected")
}

fn ask(client: &mut TcpStream, target: &str) {
    write!(client, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
}

/// A client of HTTP/1 ends its input in one of several ways before its handler runs a program.
#[test]
fn a_program_is_not_started_for_a_disconnected_client() {
    for io in Io::BOTH {
        let (_folder, server) = served(&["--io", io.as_str(), "--lua-time", "600"]);
        let sleep = unique(1);
        let code = percent_encoded(&format!("exec sleep {sleep}"));
        let get =
            |path: &str| format!("GET {path}?timeout=600&code={code} HTTP/1.1\r\nHost: a\r\n\r\n");
        for request in [
            get("/run"),
            get("/later"),
            get("/gathered"),
            // The second request begins after the end of its client's input.
            format!("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n{}", get("/run")),
            format!(
                "POST /read?timeout=600&code={code} HTTP/1.1\r\nHost: a\r\n\
                 Content-Length: 4\r\n\r\nbody"
            ),
        ] {
            let mut client = connect(&server);
            client.write_all(request.as_bytes()).expect("sent");
            client.shutdown(Shutdown::Write).expect("open");
            client.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let mut responses = Vec::new();
            // The connection ends without a response to the last request, perhaps with a reset.
            let end = client.read_to_end(&mut responses).map_err(|error| error.kind());
            assert_ne!(end, Err(ErrorKind::WouldBlock), "{io:?} {request:?}");
            let expected = request.matches("GET /hello").count();
            let responses = String::from_utf8_lossy(&responses);
            assert_eq!(responses.matches("HTTP/1.1 ").count(), expected, "{io:?}: {responses}");
            wait_for("the end of the program", || processes_with(&sleep).is_empty().then_some(()));
        }
        assert_eq!(server.get("/hello").text(), "hello");
    }
}

/// A client of HTTP/2 that is killed closes its connection without resetting a stream.
#[test]
fn a_program_ends_when_its_client_is_killed() {
    for io in Io::BOTH {
        let (_folder, server) = served(&["--io", io.as_str(), "--lua-time", "600"]);
        for (number, version) in (2..).zip(["--http1.1", "--http2-prior-knowledge"]) {
            let sleep = unique(number);
            let target =
                format!("/run?timeout=600&code={}", percent_encoded(&format!("sleep {sleep}")));
            let mut curl = server.curl();
            let curl = curl.args([version, "--silent"]).arg(server.url(&target));
            let mut client = curl.spawn().expect("curl runs");
            wait_for("the program", || (!processes_with(&sleep).is_empty()).then_some(()));
            client.kill().expect("killed");
            client.wait().expect("it has ended");
            wait_for("the end of the program", || processes_with(&sleep).is_empty().then_some(()));
        }
        assert_eq!(server.get("/hello").text(), "hello");
    }
}

/// Clients of every protocol disconnect while a program is silent, and while it waits for them to
/// read its output.
#[test]
fn a_program_ends_when_its_connection_is_closed() {
    in_every_way_with(ROUTES, &[&SHELL[..], &["--lua-time", "600"]].concat(), |server| {
        let text = unique(6);
        for code in [format!("sleep {text}"), format!("yes {text}")] {
            let mut client = Client::with_little_room(server);
            let target = format!("/stream?code={}", percent_encoded(&code));
            let begun = client.begin(&Request::get(&target));
            wait_for("the program", || (!processes_with(&text).is_empty()).then_some(()));
            drop((begun, client));
            wait_for("the end of the program", || processes_with(&text).is_empty().then_some(()));
        }
        assert_eq!(server.get("/hello").text(), "hello");
    });
}

/// Programs that stop slowly count as running, so that clients which connect and disconnect cannot
/// use up the programs of all workers.
#[test]
fn programs_that_stop_slowly_count_as_running() {
    const MAX: usize = 64;
    let (_folder, server) = served(&["--workers", "1"]);
    let sleep = unique(4);
    let code = format!("trap '' TERM; while :; do sleep {sleep}; done");
    let target = format!("/run?timeout=600&code={}", percent_encoded(&code));
    let mut clients: Vec<TcpStream> = (0..MAX).map(|_| connect(&server)).collect();
    clients.iter_mut().for_each(|client| ask(client, &target));
    // Each shell has a child.
    wait_for("the programs", || (processes_with(&sleep).len() == 2 * MAX).then_some(()));
    drop(clients);
    let echo = format!("/run?code={}", percent_encoded("echo a"));
    let full = "64 programs run in this worker already; try again when one has ended";
    assert_eq!(server.get(&echo).text(), format!("not started: sh: {full}"));
    wait_for("the end of the programs", || processes_with(&sleep).is_empty().then_some(()));
    wait_for("a program", || (server.get(&echo).text() == "a\n").then_some(()));
}

/// The process that starts programs is killed: running programs end with a reason and leave no
/// process, the log reports it once, and everything else continues.
#[test]
fn a_killed_spawner_leaves_no_processes_and_is_logged_once() {
    for io in Io::BOTH {
        let (_folder, server) = served(&["--io", io.as_str(), "--workers", "2"]);
        let sleep = unique(5);
        // A program that detaches itself does not end with its parent.
        let code = format!("setsid sh -c 'setsid sleep {sleep} & exit' & sleep {sleep}");
        let mut client = connect(&server);
        ask(&mut client, &format!("/run?timeout=600&code={}", percent_encoded(&code)));
        wait_for("the program", || {
            (processes_with(&format!("sleep\0{sleep}")).len() == 2).then_some(())
        });
        send(spawner(&server), Signal::KILL);
        let line = server.wait_for_line(0, |line| line.contains("has ended by SIGKILL"));
        let text = "pinion: the process that starts programs has ended by SIGKILL; no programs \
                    run until you restart the server, everything else goes on";
        assert_eq!(line, text);
        wait_for("the end of the programs", || processes_with(&sleep).is_empty().then_some(()));
        wait_for("no zombie", || children(server.id()).is_empty().then_some(()));
        let gone = "the process that starts programs has ended; restart the server";
        let mut response = [0; 4096];
        let bytes = client.read(&mut response).expect("an answer");
        let response = String::from_utf8_lossy(&response[..bytes]);
        // The program may receive the end of its connection first.
        assert!(
            response.contains("sh: the ") && response.contains("starts programs"),
            "{response}"
        );
        // A worker that has run no program before reports it too.
        let echo = format!("/run?code={}", percent_encoded("echo a"));
        for _ in 0..20 {
            assert_eq!(server.get(&echo).text(), format!("not started: sh: {gone}"));
            assert_eq!(server.get("/hello").text(), "hello");
        }
        let lines = server.last_words();
        let logged_count = lines.iter().filter(|line| line.contains("starts programs")).count();
        assert_eq!(logged_count, 1, "{lines:?}");
    }
}

/// The process that starts programs hangs: no worker waits for it, not even during a reload, and
/// running programs continue. When it continues, programs can be started again.
#[test]
fn a_hanging_spawner_does_not_block_other_requests() {
    let site = r#"
    local long = ("x"):rep(16000)
    pinion.get("/yes", function(req, res)
        local yes = assert(pinion.process.run("it", { "-c", "exec yes" }, { timeout = 600 }))
        for piece in yes:pieces() do
            res:write(piece)
        end
    end)
    pinion.get("/long", function()
        local program, why = pinion.process.run("it", { "-c", "echo ran", long }, { timeout = 60 })
        return program and program:output() or why
    end)
    pinion.get("/hello", function() return "hello" end)"#;
    let folder = Folder::with("hangs", [("site.lua", site)]);
    let configured = |programs: &str| {
        let text = format!(
            "[server]\nworkers = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\n\
             path = \"site.lua\"\nlua-program = [{programs}]\n"
        );
        folder.write("next.toml", &text);
        fs::rename(folder.join("next.toml"), folder.join("pinion.toml")).expect("renamed");
    };
    configured("\"it=/bin/sh\"");
    let server = Start::configured(&folder.join("pinion.toml")).start();
    let mut yes = connect(&server);
    ask(&mut yes, "/yes");
    // More than all buffers on the way can hold.
    let mut read_on = || {
        let mut piece = vec![0; 4 << 20];
        yes.read_exact(&mut piece).expect("more of the output");
    };
    read_on();
    let stopped = Stopped::new(spawner(&server));
    configured("\"it=/bin/sh\", \"cat=/bin/cat\"");
    server.signal(Signal::HUP);
    // More requests than fit into the socket of the worker: the others wait.
    let before = server.sockets();
    let mut clients: Vec<TcpStream> = (0..50).map(|_| connect(&server)).collect();
    clients.iter_mut().for_each(|client| ask(client, "/long"));
    assert_eq!(server.get("/hello").text(), "hello");
    // Waiting requests have no sockets for their programs.
    let more = server.sockets() - before;
    assert!(more < clients.len() * 3 / 2, "{more} sockets for {} clients", clients.len());
    // The program of a client that has disconnected must be stopped, which the spawner does not
    // receive either.
    drop(clients.remove(0));
    for _ in 0..3 {
        assert_eq!(server.get("/hello").text(), "hello");
        read_on();
    }
    // Requests above the limit get an error while the spawner still hangs. The worker may have read
    // the requests in any order.
    let response = wait_for("the first answer", || {
        clients.iter_mut().find_map(|client| {
            client.set_nonblocking(true).expect("a socket");
            let mut response = [0; 4096];
            let bytes = client.read(&mut response).ok()?;
            Some(String::from_utf8_lossy(&response[..bytes]).into_owned())
        })
    });
    let busy = "it: the process that starts programs is busy; try again later";
    assert!(response.ends_with(busy), "{response}");
    read_on();
    server.wait_for_line(0, |line| line.contains("the spawner has not answered"));
    drop(stopped);
    drop(clients);
    wait_for("a program", || (server.get("/long").text() == "ran\n").then_some(()));
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.starts_with("reloaded"));
    wait_for("a program", || (server.get("/long").text() == "ran\n").then_some(()));
}

/// Each version of a site adds its own programs, and removes those of the previous version.
#[test]
fn a_reload_removes_the_programs_of_the_previous_version() {
    let handler = r#"pinion.get("/", function()
        local program = assert(pinion.process.run("it"))
        return program:output() end)"#;
    let folder = Folder::with("versions", [("site.lua", handler)]);
    let release = |number: u32| {
        let program = folder.join(format!("it-{number}"));
        write_program(&program, &format!("#!/bin/sh\necho {number}\n"));
        let text = format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"site.lua\"\n\
             lua-program = [\"it={}\"]\n",
            program.display()
        );
        folder.write("next.toml", &text);
        fs::rename(folder.join("next.toml"), folder.join("pinion.toml")).expect("renamed");
    };
    release(0);
    let server = Start::configured(&folder.join("pinion.toml")).start();
    assert_eq!(server.get("/").text(), "0\n");
    // More than the rows of a table.
    for number in 1..70 {
        fs::remove_file(folder.join(format!("it-{}", number - 1))).expect("removed");
        release(number);
        let from = server.lines().len();
        server.signal(Signal::HUP);
        let line = server.wait_for_line(from, |line| line.contains("reload"));
        assert!(line.starts_with("reloaded"), "version {number}: {line}");
        wait_for("the version", || (server.get("/").text() == format!("{number}\n")).then_some(()));
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}
