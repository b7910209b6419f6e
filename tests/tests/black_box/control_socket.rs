//! The control socket, and the commands that use it (docs/control.md).

use pinion_tests::binary::pinion;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, build, run, run_under};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use pinion_tests::{PATIENCE, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Creates a site, and a folder for the sockets of a session.
fn site() -> Folder {
    let folder = Folder::with("control", [("public/index.html", "home"), ("public/a.txt", "a")]);
    fs::create_dir(folder.join("run")).expect("a folder");
    folder
}

/// Returns `env` with this folder for the session.
fn session(folder: &Folder) -> Command {
    let mut env = Command::new("env");
    let mut variable = OsString::from("XDG_RUNTIME_DIR=");
    variable.push(folder.join("run"));
    env.arg(variable);
    env
}

fn serve(folder: &Folder) -> Start {
    Start::site(&folder.join("public")).session(&folder.join("run"))
}

/// Runs a command for the servers of a session.
#[track_caller]
fn ask(folder: &Folder, arguments: &[&str]) -> Ended {
    run_under(session(folder), arguments)
}

#[track_caller]
fn status(folder: &Folder) -> Value {
    let ended = ask(folder, &["status", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("one document")
}

fn first_socket(folder: &Folder) -> PathBuf {
    folder.join("run/pinion/pinion.sock")
}

#[test]
fn status_reports_the_settings_and_activity_of_a_server() {
    let folder = site();
    let pair = Pair::new(&folder, "a", &["a.test"]);
    let archive = folder.join("site.pinion");
    build(&folder.join("public"), &archive, &[]);
    folder.write(
        "pinion.toml",
        format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\ntls = \"127.0.0.1:0\"\n\
             [[certificate]]\ncert = {:?}\nkey = {:?}\n\
             [[site]]\npath = \"site.pinion\"\nhosts = [\"a.test\", \"localhost\"]\n\
             [[site]]\npath = \"main.lua\"\n",
            pair.cert, pair.key
        ),
    );
    folder.write("main.lua", "pinion.get('/slow', function() pinion.sleep(0.05) return 'x' end)");
    let config = folder.join("pinion.toml");
    let server = Start::configured(&config).session(&folder.join("run")).start();
    for (path, host, expected) in [
        ("/", "a.test", 200),
        ("/none", "a.test", 404),
        ("/a.txt", "localhost", 200),
        ("/slow", "b", 200),
    ] {
        assert_eq!(server.exchange(&Request::get(path).host(host)).status, expected, "{path}");
    }
    let kept = server.client();
    let report = status(&folder);
    let [report] = &report["servers"].as_array().expect("servers")[..] else { panic!("{report}") };
    assert_eq!(report["socket"], json!(first_socket(&folder)));
    assert_eq!((&report["pid"], &report["state"]), (&json!(server.id()), &json!("serving")));
    assert_eq!(report["configuration"], json!(config));
    let listeners = report["listeners"].as_array().expect("listeners");
    let listening = server
        .lines()
        .into_iter()
        .filter_map(|line| Some(line.strip_prefix("listening ")?.to_owned()));
    assert_eq!(listeners, &listening.map(Value::from).collect::<Vec<_>>());
    let open = report["connections"]["open"].as_u64().expect("a number");
    assert!(
        open >= 1 && open <= report["connections"]["max"].as_u64().expect("a number"),
        "{report}"
    );
    let requests = &report["requests"];
    assert_eq!((&requests["total"], &requests["status_2xx"]), (&json!(4), &json!(3)), "{report}");
    assert_eq!((&requests["status_4xx"], &requests["status_5xx"]), (&json!(1), &json!(0)));
    let longest = report["latency"]["max_micros"].as_u64().expect("a number");
    assert!((50_000..=60_000_000).contains(&longest), "{report}");
    assert!(report["latency"]["p50_micros"].as_u64().expect("a number") <= longest);
    for figure in ["resident_bytes", "bound_bytes"] {
        assert!(report["memory"][figure].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{report}");
    }
    let sites = report["sites"].as_array().expect("sites");
    assert_eq!(sites[0]["hosts"], json!(["a.test", "localhost"]));
    assert_eq!((&sites[0]["source"], &sites[0]["generation"]), (&json!(archive), &json!(1)));
    assert_eq!((&sites[1]["hosts"], &sites[1]["code_files"]), (&json!([]), &json!(1)));
    let inspected: Value =
        serde_json::from_str(&run(&["inspect", "--json", archive.to_str().expect("UTF-8")]).stdout)
            .expect("a document");
    assert_eq!(sites[0]["digest"], inspected["digest"], "{inspected}");
    assert_eq!(sites[0]["paths"], inspected["paths"]["total"], "{inspected}");
    let [certificate] = &report["certificates"].as_array().expect("a list")[..] else {
        panic!("{report}")
    };
    assert_eq!(
        (&certificate["names"], &certificate["file"]),
        (&json!(["a.test"]), &json!(pair.cert))
    );
    assert!(certificate["days_left"].as_i64().is_some_and(|days| days >= 0), "{report}");
    assert_eq!(report["programs"], Value::Null);
    drop(kept);
    let text = ask(&folder, &["status"]).stdout;
    for part in ["serving for ", "a.test and 1 more", "other hosts", "4 (2xx 3, 4xx 1)", "p99 "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    server.stop();
    assert!(!first_socket(&folder).exists());
}

#[test]
fn reload_waits_and_reports_the_result() {
    let folder = site();
    folder.write("pinion.toml", "[[site]]\npath = \"public\"\nhosts = [\"a.test\"]\n");
    let config = folder.join("pinion.toml");
    // Each worker loads a version at its own time; with one worker, the reload is complete for all.
    let start = Start::site(&config).flags(&["--workers", "1"]);
    let server = start.session(&folder.join("run")).start();
    let page = || server.exchange(&Request::get("/").host("a.test")).text().to_owned();
    for version in ["one", "two", "three"] {
        folder.write("public/index.html", version);
        let ended = ask(&folder, &["reload"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(
            ended.stdout.contains(&format!("reloaded {}: 1 site", config.display())),
            "{}",
            ended.stdout
        );
        // The reload has completed, so the test need not wait.
        assert_eq!(page(), version);
    }
    // Errors of a site.
    folder.write("public/_redirects", "/a /b 999\n");
    folder.write("public/index.html", "four");
    let ended = ask(&folder, &["reload"]);
    let wrong = format!("{}:1:7: ", folder.join("public/_redirects").display());
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains(&wrong) && ended.stderr.contains("keeping the previous"),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.contains("1 site keeps its previous version"), "{}", ended.stdout);
    let report = status(&folder);
    let error = report["servers"][0]["sites"][0]["error"].as_str().expect("an error");
    assert!(error.contains("_redirects:1:7"), "{error}");
    assert_eq!(
        (page(), &report["servers"][0]["sites"][0]["generation"]),
        ("three".to_owned(), &json!(4))
    );
    fs::remove_file(folder.join("public/_redirects")).expect("removed");
    // Errors of the configuration: the lines of `pinion check`.
    folder.write("pinion.toml", "[[site]]\npath = \"public\"\nhost = [\"a.test\"]\nx = 1\n");
    let ended = ask(&folder, &["reload"]);
    assert_eq!(ended.code, Some(1));
    let checked = run(&["check", config.to_str().expect("UTF-8")]);
    let faults: Vec<&str> = checked.stdout.lines().collect();
    assert_eq!(faults.len(), 2, "{}", checked.stdout);
    for fault in faults {
        assert!(ended.stderr.contains(fault), "{fault}: {}", ended.stderr);
    }
    let document: Value =
        serde_json::from_str(&ask(&folder, &["reload", "--json"]).stdout).expect("a document");
    assert_eq!(document["messages"][0]["level"], json!("error"), "{document}");
    // A change that needs a restart is a warning, and no error.
    folder.write(
        "pinion.toml",
        "[[site]]\npath = \"public\"\nhosts = [\"a.test\"]\n[server]\nio = \"epoll\"\n",
    );
    let ended = ask(&folder, &["reload"]);
    assert_eq!((ended.code, page()), (Some(0), "four".to_owned()));
    assert!(ended.stderr.contains("a restart is needed for [server] io"), "{}", ended.stderr);
    server.stop();
}

/// Without a file, the site and the certificates are loaded.
#[test]
fn reload_without_a_configuration_loads_the_site_and_the_certificates() {
    let folder = site();
    let pair = Pair::new(&folder, "a", &["a.test"]);
    let server = serve(&folder).tls(&pair).start();
    let ended = ask(&folder, &["reload"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains(": 2 files"), "{}", ended.stdout);
    fs::write(&pair.cert, "nothing").expect("written");
    let ended = ask(&folder, &["reload"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("cannot reload certificate"), "{}", ended.stderr);
    server.stop();
}

/// Starts a script whose response takes some time, and a request to it.
fn busy(folder: &Folder, grace: u32) -> (Server, UnixStream) {
    folder.write(
        "main.lua",
        "pinion.get('/', function(req, res)\n\
         res:write('begun\\n'):flush()\n\
         while not io.open('go') do pinion.sleep(0.01) end\n\
         res:write('done')\nend)",
    );
    let socket = folder.join("http.sock");
    let start = Start::site(&folder.join("main.lua")).working_in(folder.path());
    let listen = format!("unix:{}", socket.display());
    let flags = ["--listen", &listen, "--lua-unsafe", "--lua-time", "600"];
    let server = start.flags(&flags).grace(grace).session(&folder.join("run")).start();
    let mut client = UnixStream::connect(&socket).expect("connected");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    let mut line = String::new();
    let mut reader = BufReader::new(client.try_clone().expect("a descriptor"));
    while !line.contains("begun") {
        assert!(reader.read_line(&mut line).expect("a line") > 0, "{line}");
    }
    (server, client)
}

/// Runs a command in the background, and waits until the server has logged its begin.
fn begin(folder: &Folder, server: &Server, command: &str, word: &str) -> std::process::Child {
    let mut asked = session(folder);
    asked.arg(pinion()).arg(command).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = asked.spawn().expect("it runs");
    server.wait_for_line(0, |line| line.starts_with(word));
    child
}

#[test]
fn drain_waits_for_requests_as_long_as_they_take() {
    let folder = site();
    let (mut server, mut client) = busy(&folder, 0);
    let draining = begin(&folder, &server, "drain", "draining; ");
    assert_eq!(status(&folder)["servers"][0]["state"], json!("draining"));
    assert!(UnixStream::connect(folder.join("http.sock")).is_err(), "nobody new is accepted");
    assert!(server.is_running(), "the grace of 0 seconds is for `stop` alone");
    folder.write("go", "");
    let mut rest = String::new();
    client.read_to_string(&mut rest).expect("the rest");
    assert!(rest.contains("done"), "{rest}");
    assert!(server.wait().success());
    let ended = draining.wait_with_output().expect("it ends");
    assert!(ended.status.success());
    assert!(!first_socket(&folder).exists());
}

#[test]
fn stop_ends_requests_when_the_grace_is_over_also_after_drain() {
    let folder = site();
    let (mut server, mut client) = busy(&folder, 1);
    let draining = begin(&folder, &server, "drain", "draining; ");
    let stopping = begin(&folder, &server, "stop", "stopping; ");
    for child in [draining, stopping] {
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert!(server.wait().success());
    let mut rest = String::new();
    let _reset = client.read_to_string(&mut rest);
    assert!(!rest.contains("done"), "{rest}");
}

#[test]
fn reopen_logs_writes_to_a_new_file() {
    let folder = site();
    let log = folder.join("access.log");
    let server = serve(&folder).flags(&["--access-log", log.to_str().expect("UTF-8")]).start();
    let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default().lines().count();
    assert_eq!(server.get("/").status, 200);
    wait_for("the first line", || (lines(&log) == 1).then_some(()));
    let rotated = folder.join("access.log.1");
    fs::rename(&log, &rotated).expect("renamed");
    assert_eq!(ask(&folder, &["reopen-logs"]).code, Some(0));
    wait_for("the new file", || log.exists().then_some(()));
    assert_eq!(server.get("/").status, 200);
    wait_for("the second line", || (lines(&log) == 1).then_some(()));
    assert_eq!(lines(&rotated), 1);
    server.stop();
}

#[test]
fn a_second_server_has_a_socket_of_its_own() {
    let folder = site();
    let first = serve(&folder).start();
    let second = serve(&folder).start();
    let own = folder.join(format!("run/pinion/pinion-{}.sock", second.id()));
    let note = |line: &&String| line.contains("so commands for this one need --socket");
    let lines = second.lines();
    assert_eq!(lines.iter().filter(note).count(), 1, "{lines:?}");
    let report = status(&folder);
    let servers = report["servers"].as_array().expect("servers").iter();
    let sockets: Vec<_> = servers.map(|server| &server["socket"]).collect();
    assert_eq!(sockets, [&json!(first_socket(&folder)), &json!(own)]);
    // A command without a selection goes to neither of two servers.
    let ended = ask(&folder, &["stop"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("2 servers run; choose one with --socket"), "{}", ended.stderr);
    let ended = ask(&folder, &["stop", "--socket", own.to_str().expect("UTF-8")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(status(&folder)["servers"].as_array().map(Vec::len), Some(1));
    first.stop();
    let ended = ask(&folder, &["status"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("no running server found"), "{}", ended.stderr);
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_respected() {
    let folder = site();
    let socket = folder.join("own/x.sock");
    let flags = ["--control", socket.to_str().expect("UTF-8")];
    let killed = serve(&folder).flags(&flags).start();
    let mut refused = serve(&folder).flags(&flags).begin();
    assert_eq!(refused.wait().code(), Some(1));
    refused.wait_for_line(0, |line| line.contains("another server listens there already"));
    killed.signal(Signal::KILL);
    drop(killed);
    assert!(socket.exists(), "it was left behind");
    let server = serve(&folder).flags(&flags).start();
    let ended = run(&["status", "--socket", flags[1]]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // A file that is no socket is not replaced either.
    folder.write("own/file", "mine");
    let file = folder.join("own/file");
    let mut refused = serve(&folder).flags(&["--control", file.to_str().expect("UTF-8")]).begin();
    assert_eq!(refused.wait().code(), Some(1));
    assert_eq!(fs::read_to_string(&file).expect("still there"), "mine");
    server.stop();
    let ended = run(&["reload", "--socket", flags[1]]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("no server listens on"), "{}", ended.stderr);
}

#[test]
fn a_control_folder_open_to_other_users_is_refused() {
    let folder = site();
    let open = folder.join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, Permissions::from_mode(0o755)).expect("set");
    let socket = open.join("x.sock");
    let mut refused = serve(&folder).flags(&["--control", socket.to_str().expect("UTF-8")]).begin();
    assert_eq!(refused.wait().code(), Some(1));
    let expected = "open to other users (mode 0755); it must have mode 0700";
    refused.wait_for_line(0, |line| line.contains(expected));
    // If the socket was not configured, the server starts without it.
    let session = folder.join("run/pinion");
    fs::create_dir(&session).expect("made");
    fs::set_permissions(&session, Permissions::from_mode(0o750)).expect("set");
    let server = serve(&folder).start();
    let lines = server.lines().join("\n");
    assert!(lines.contains("pinion: note: no control socket in "), "{lines}");
    assert_eq!(server.get("/").status, 200);
    server.stop();
}

#[test]
fn a_server_without_a_runtime_folder_has_no_control_socket() {
    let folder = site();
    for flags in [&[][..], &["--control", "off"]] {
        let start = Start::site(&folder.join("public")).flags(flags);
        let start = if flags.is_empty() { start } else { start.session(&folder.join("run")) };
        let server = start.start();
        // The only socket is that of its listener.
        assert_eq!(server.sockets(), 1, "{flags:?}");
        assert!(!folder.join("run/pinion").exists());
        server.stop();
    }
}

/// Sends bytes, and returns all received bytes until the server ends the connection.
fn talk(socket: &Path, bytes: &[u8]) -> String {
    let mut client = UnixStream::connect(socket).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    // The server may refuse to read all of it.
    let _reset = client.write_all(bytes);
    let mut response = String::new();
    let _reset = client.read_to_string(&mut response);
    response
}

#[test]
fn malformed_and_silent_clients_do_not_block_the_control_socket() {
    let folder = site();
    let server = serve(&folder).start();
    let socket = first_socket(&folder);
    let ask_status = || {
        assert_eq!(status(&folder)["servers"][0]["pid"], json!(server.id()));
        assert_eq!(server.get("/").status, 200);
    };
    for (bytes, expected) in [
        (&b"\n"[..], "this is not a request"),
        (b"GET / HTTP/1.1\r\n\r\n", "this is not a request"),
        (b"\0\xff\xfe\n", "this is not a request"),
        (b"{\"version\":2,\"command\":\"status\"}\n", "this server has version 1"),
        (b"{\"version\":1,\"command\":\"fly\"}\n", "unknown variant `fly`"),
        // The line is incomplete.
        (b"{\"version\":1,\"command\":\"stop\"}", ""),
    ] {
        let response = talk(&socket, bytes);
        assert!(response.contains(expected), "{response}");
        assert_eq!(response.is_empty(), expected.is_empty(), "{response}");
    }
    let response = talk(&socket, &vec![b'['; 1 << 20]);
    assert!(response.contains("longer than 65536 bytes"), "{response}");
    ask_status();
    // A client that sends requests and reads no response is disconnected, and uses no memory.
    let before_bytes = server.memory_bytes("RssAnon");
    let mut greedy = UnixStream::connect(&socket).expect("connected");
    let line = b"{\"version\":1,\"command\":\"status\"}\n".repeat(1000);
    while greedy.write_all(&line).is_ok() {}
    let grown_bytes = server.memory_bytes("RssAnon").saturating_sub(before_bytes);
    assert!(grown_bytes < 1 << 20, "{grown_bytes} bytes");
    // More clients than may be connected, all of them silent.
    let silent: Vec<_> =
        (0..12).map(|_| UnixStream::connect(&socket).expect("connected")).collect();
    let refused = silent.iter().filter(|client| {
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut response = String::new();
        let mut client: &UnixStream = client;
        let _reset = client.read_to_string(&mut response);
        response.contains("8 clients use this socket already")
    });
    assert_eq!(refused.count(), 12 - 8);
    // All of them have been disconnected by now.
    ask_status();
    assert!(server.lines().iter().all(|line| !line.contains("panicked")));
    server.stop();
}

/// Every request gets its response, even if the client has closed its side for sending.
#[test]
fn requests_sent_before_the_end_of_the_input_are_executed() {
    let folder = site();
    let server = serve(&folder).start();
    let mut client = UnixStream::connect(first_socket(&folder)).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = b"{\"version\":1,\"command\":\"reload\"}\n";
    client.write_all(&request.repeat(3)).expect("sent");
    client.shutdown(Shutdown::Write).expect("closed");
    let mut responses = String::new();
    client.read_to_string(&mut responses).expect("the end of the connection");
    let texts: Vec<Value> =
        responses.lines().map(|line| serde_json::from_str(line).expect("a response")).collect();
    assert_eq!(texts.len(), 3, "{responses}");
    assert!(texts.iter().all(|text| text["error"] == Value::Null), "{responses}");
    server.stop();
}

/// Only root and the user of the server are accepted, even if the mode of the file allows others.
#[test]
fn other_users_are_refused() {
    let folder = site();
    let server = serve(&folder).start();
    let socket = first_socket(&folder);
    for path in [folder.path(), &folder.join("run"), &folder.join("run/pinion"), &socket] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).expect("set");
    }
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let ended = run_under(nobody, &["stop", "--socket", socket.to_str().expect("UTF-8")]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let expected = "only root and the user of the server may use this socket";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    assert_eq!(server.get("/").status, 200);
    server.stop();
}
