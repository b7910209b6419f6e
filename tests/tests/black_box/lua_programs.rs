//! Scripts that run programs: output, input, exit statuses, time limits, and the remains of
//! programs whose requests have ended.

use pinion_tests::external_programs::stdout;
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::processes::{processes_with, unbacked_bytes};
use pinion_tests::request::percent_encoded;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Command;

/// A script that runs `sh -c` with the code of the query and the content of the request as input,
/// and returns the output and the exit status.
const SHELL: &str = r#"
local function run(req)
    local input = req.method == "POST" and function() return req:read(65536) end or nil
    local process, why = pinion.process.run("sh", { "-c", req.query.code, "sh", req.query.word },
        { input = input, timeout = tonumber(req.query.timeout) })
    if not process then
        return "not started: " .. why
    end
    local output, wrong = process:output()
    local status, how = process:wait()
    return tostring(output or wrong) .. "|" .. tostring(status or how)
end
pinion.get("/run", run)
pinion.post("/run", { body = 2 ^ 26 }, run)
pinion.get("/hello", function() return "hello" end)
"#;

/// Flags that declare the programs of the tests.
const PROGRAMS: [&str; 4] = ["--lua-program", "sh=/bin/sh", "--lua-program", "cat=/bin/cat"];

/// The most anonymous memory of the spawner, besides the relocations of its program.
const SPAWNER_MAX_BYTES: u64 = 1 << 20;

/// Returns the target of a request for a piece of shell code.
fn shell(code: &str) -> String {
    format!("/run?code={}", percent_encoded(code))
}

fn served(text: &str, flags: &[&str]) -> (Folder, Server) {
    let (folder, path) = script(text);
    let start = Start::site(&path).flags(&PROGRAMS).flags(flags);
    (folder, start.start())
}

/// Returns a duration for `sleep` that no other test uses.
fn unique_sleep(number: u32) -> String {
    format!("{}.{number}", 1_000_000 + std::process::id())
}

#[test]
fn a_program_is_run_and_its_status_is_known() {
    for io in Io::BOTH {
        let (_folder, server) = served(SHELL, &["--io", io.as_str()]);
        let result = |code: &str| server.get(&shell(code)).text().to_owned();
        assert_eq!(result("echo hi; exit 3"), "hi\n|3", "{io:?}");
        assert_eq!(result("printf '%s' \"$1\""), "|0");
        let target =
            format!("{}&word={}", shell("printf '%s' \"$1\""), percent_encoded("a b'; rm *"));
        assert_eq!(server.get(&target).text(), "a b'; rm *|0", "arguments are no shell code");
        assert_eq!(result("kill -SEGV $$"), "|ended by SIGSEGV");
        assert_eq!(result("echo $PATH $LANG $HOME"), {
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin C.UTF-8\n|0"
        });
        assert_eq!(result("cat"), "|0", "without input it finds the end");
        let from = server.lines().len();
        assert_eq!(result("echo wrong >&2; echo right"), "right\n|0");
        server.wait_for_line(from, |line| {
            line.starts_with("pinion: sh[") && line.ends_with("]: wrong")
        });
    }
}

/// More bytes than all buffers on the way can hold, in both directions at the same time.
#[test]
fn input_and_output_flow_at_the_same_time() {
    const BYTES: usize = 20 << 20;
    let content: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    for io in Io::BOTH {
        let text = r#"
        pinion.post("/cat", { body = 2 ^ 26 }, function(req, res)
            local input = function() return req:read(65536) end
            local cat = assert(pinion.process.run("cat", nil, { input = input }))
            for piece in cat:pieces() do
                res:write(piece)
            end
            assert(cat:wait() == 0)
        end)
        pinion.get("/string", function()
            local text = ("0123456789"):rep(1e6)
            local cat = assert(pinion.process.run("cat", {}, { input = text }))
            return tostring(cat:output() == text)
        end)"#;
        let (folder, server) = served(text, &["--io", io.as_str(), "--lua-memory", "64"]);
        fs::write(folder.join("content"), &content).expect("written");
        let mut curl = server.curl();
        curl.args(["--silent", "--show-error", "--data-binary"]);
        let sent = format!("@{}", folder.join("content").display());
        let came = stdout(curl.arg(sent).arg(server.url("/cat")));
        assert!(came == content, "{io:?}: {} bytes", came.len());
        assert_eq!(server.get("/string").text(), "true");
    }
}

/// A program that leaves its input unread, or closes it, loses none of its output.
#[test]
fn unread_input_loses_no_output() {
    let text = r#"pinion.get("/:bytes", function(req)
        local input = ("x"):rep(tonumber(req.params.bytes))
        local code = "head -c 5; exec 0<&-; seq 1 20000"
        local program = assert(pinion.process.run("sh", { "-c", code }, { input = input }))
        local output = assert(program:output())
        return #output .. output:sub(1, 5) .. output:sub(-6) .. program:wait()
    end)"#;
    for io in Io::BOTH {
        let (_folder, server) = served(text, &["--io", io.as_str(), "--lua-memory", "64"]);
        for bytes in ["10", "100000", "10000000"] {
            for _ in 0..5 {
                let text = server.get(&format!("/{bytes}")).text().to_owned();
                assert_eq!(text, "108899xxxxx20000\n0", "{bytes} bytes over {io:?}");
            }
        }
    }
}

/// The script reads slowly: the program waits, and memory does not grow.
#[test]
fn a_program_waits_for_its_reader() {
    let text = r#"
    pinion.get("/", function()
        local yes = assert(pinion.process.run("sh", { "-c", "yes | head -c 1000000000" }))
        local bytes = 0
        for _ = 1, 20 do
            bytes = bytes + #yes:read()
            pinion.sleep(0.01)
        end
        local before = yes.pid
        yes:close()
        return tostring(bytes <= 20 * 65536 and before > 1)
    end)"#;
    let (_folder, server) = served(text, &["--workers", "1"]);
    assert_eq!(server.get("/").text(), "true");
    let before = server.own_memory_bytes();
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), "true");
    }
    let grown = server.own_memory_bytes().saturating_sub(before);
    assert!(grown < 2 << 20, "{grown} bytes more");
}

#[test]
fn a_program_that_times_out_is_stopped() {
    let (_folder, server) = served(SHELL, &[]);
    let sleep = unique_sleep(1);
    let target = format!("{}&timeout=0.3", shell(&format!("echo begun; sleep {sleep}")));
    let text = server.get(&target).text().to_owned();
    let why = "sh: the program has not ended within 0.3 s and was stopped";
    assert_eq!(text, format!("{why}|{why}"));
    wait_for("the end of the program", || processes_with(&sleep).is_empty().then_some(()));
    assert_eq!(server.get("/hello").text(), "hello");
}

/// Processes that a program has started end with it: those in the background, and those in a
/// session of their own.
#[test]
fn all_processes_of_a_program_end_with_it() {
    let (_folder, server) = served(SHELL, &[]);
    let sleep = unique_sleep(2);
    for code in [
        format!("sleep {sleep} & echo done"),
        format!("setsid sleep {sleep} >/dev/null 2>&1 & echo done"),
        format!("(setsid sh -c 'sleep {sleep} &' >/dev/null 2>&1 &); echo done"),
        format!("trap '' TERM; sleep {sleep} >/dev/null 2>&1 & echo done"),
    ] {
        assert_eq!(server.get(&shell(&code)).text(), "done\n|0", "{code}");
        wait_for(&code, || processes_with(&sleep).is_empty().then_some(()));
    }
}

#[test]
fn a_program_ends_with_the_request_of_its_client() {
    for (number, io) in Io::BOTH.into_iter().enumerate() {
        let (_folder, server) = served(SHELL, &["--io", io.as_str()]);
        let sleep = unique_sleep(10 + number as u32);
        let mut client = std::net::TcpStream::connect(server.address()).expect("connected");
        let target = shell(&format!("sleep {sleep}"));
        write!(client, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        wait_for("the program", || (!processes_with(&sleep).is_empty()).then_some(()));
        client.shutdown(Shutdown::Write).expect("open");
        let mut response = Vec::new();
        // The connection ends without a response, perhaps with a reset.
        let _reset = client.read_to_end(&mut response);
        assert_eq!(response, b"");
        wait_for("the end of the program", || processes_with(&sleep).is_empty().then_some(()));
        assert_eq!(server.get("/hello").text(), "hello");
    }
}

#[test]
fn undeclared_programs_are_not_run() {
    let text = r#"
    pinion.get("/", function() return pinion.process.run("rm", { "-rf", "/" }) end)
    pinion.get("/option", function() pinion.process.run("sh", {}, { user = "root" }) end)
    pinion.get("/argument", function() pinion.process.run("sh", { true }) end)
    pinion.get("/zero", function()
        local process, why = pinion.process.run("sh", { "-c", "a\0b" })
        return tostring(process) .. " " .. why
    end)"#;
    let (_folder, server) = served(text, &[]);
    for (path, line) in [
        ("/", "there is no program \"rm\" (there is cat, sh)"),
        ("/option", "pinion.process.run has no option \"user\"; its options are input, timeout"),
        ("/argument", "argument 1 of the program is a boolean; write a string"),
    ] {
        let from = server.lines().len();
        assert_eq!(server.get(path).status, 500);
        server.wait_for_line(from, |said| said.contains(line));
    }
    assert!(server.get("/zero").text().starts_with("nil sh: the arguments are"));
    let (_folder, script) = script(text);
    let server = Start::site(&script).start();
    let from = server.lines().len();
    assert_eq!(server.get("/").status, 500);
    server.wait_for_line(from, |said| said.contains("there is no program \"rm\" (there is none)"));
}

#[test]
fn a_program_that_cannot_be_run_stops_the_start() {
    let folder = Folder::with("programs", [("a.lua", ""), ("plain", "no program")]);
    let script = folder.join("a.lua");
    let plain = folder.join("plain").display().to_string();
    for (program, why) in [
        ("x=/missing/program".to_owned(), "cannot open /missing/program"),
        ("x=/tmp".to_owned(), "/tmp is not a file"),
        (format!("x={plain}"), "is not executable"),
        ("x=sh".to_owned(), "\"sh\" is not an absolute path"),
        ("sh".to_owned(), "\"sh\" has no ="),
    ] {
        let script = script.to_str().expect("text");
        let ended = run(&["serve", script, "--listen", "127.0.0.1:0", "--lua-program", &program]);
        assert_eq!(ended.code, Some(2), "{program}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{program}: {}", ended.stderr);
    }
}

/// A script of `pinion run` waits for its programs.
#[test]
fn a_script_without_a_server_runs_programs() {
    let text = r#"local echo = assert(pinion.process.run("sh", { "-c", "echo $0; exit 7", "word" }))
    print(echo:output(), echo:wait())"#;
    let (_folder, path) = script(text);
    let path = path.to_str().expect("text");
    let ended = run(&["run", "--lua-program", "sh=/bin/sh", path]);
    assert_eq!(ended.stdout, "word\n\t7\n", "{}", ended.stderr);
}

/// A reload adds programs and keeps running ones; a server without programs logs how to get them.
#[test]
fn a_reload_changes_programs() {
    let handler = r#"pinion.get("/", function()
        local program = assert(pinion.process.run("it", { "-c", "echo $0", "it" }))
        return program:output() end)"#;
    let folder = Folder::with("reload", [("site.lua", handler)]);
    let configured = |program: &str| {
        let text = format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"site.lua\"\n{program}\n"
        );
        folder.write("next.toml", &text);
        fs::rename(folder.join("next.toml"), folder.join("pinion.toml")).expect("renamed");
    };
    configured("lua-program = [\"it=/bin/sh\"]");
    let server = Start::configured(&folder.join("pinion.toml")).start();
    assert_eq!(server.get("/").text(), "it\n");
    configured("lua-program = [\"it=/bin/dash\", \"cat=/bin/cat\"]");
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.starts_with("reloaded"));
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "it\n");
    }
    configured("");
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.starts_with("reloaded"));
    wait_for("the new version", || (server.get("/").status == 500).then_some(()));
    server.stop();
    let server = Start::configured(&folder.join("pinion.toml")).start();
    configured("lua-program = [\"it=/bin/sh\"]");
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.contains("restart needed"));
    assert_eq!(server.get("/").status, 500, "it goes on as it was");
}

/// When the process that starts programs is killed, its programs end, calls that need it fail with
/// a reason, and everything else continues.
#[test]
fn without_the_spawner_other_requests_are_served() {
    let (_folder, server) = served(SHELL, &["--workers", "1"]);
    assert_eq!(server.get(&shell("echo a")).text(), "a\n|0");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id()));
    let children = children.expect("a list of children");
    let spawner: u32 = children.trim().parse().expect("the spawner is the only child");
    let end = Command::new("kill").args(["-KILL", &spawner.to_string()]).status();
    assert!(end.expect("kill").success());
    wait_for("the error", || {
        let text = server.get(&shell("echo a")).text().to_owned();
        text.contains("the process that starts programs has ended; restart the server")
            .then_some(())
    });
    assert_eq!(server.get("/hello").text(), "hello");
    server.stop();
}

/// A server without programs has no further process, and one with programs has a small one.
#[test]
fn a_server_without_programs_has_no_spawner() {
    let (_folder, path) = script(SHELL);
    let server = Start::site(&path).start();
    let children = |server: &Server| {
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).expect("a list")
    };
    assert_eq!(children(&server), "");
    server.stop();
    let (_folder, server) = served(SHELL, &[]);
    let spawner = children(&server).trim().to_owned();
    let status = fs::read_to_string(format!("/proc/{spawner}/status")).expect("a status");
    let figure = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().expect("a number")
    };
    assert_eq!(figure("Threads"), 1);
    let bytes = unbacked_bytes(spawner.parse().expect("a number"));
    assert!(bytes <= SPAWNER_MAX_BYTES, "{bytes} bytes");
    // The name under which it appears in ps.
    let line = fs::read(format!("/proc/{spawner}/cmdline")).expect("a command line");
    assert!(line.starts_with(b"pinion: spawner"), "{}", line.escape_ascii());
}
