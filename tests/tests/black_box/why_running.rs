//! `pinion why` of a running server: it explains the served version, not the files on the disk.
//! Every case of the resolution tests (`Matrix::explained`) compares the explanation with that
//! without a server.

use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, build, run, run_under};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::why_comparison::lasting;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

fn socket(folder: &Folder) -> PathBuf {
    folder.join("control/pinion.sock")
}

/// Starts a server with a control socket.
fn serve<S: AsRef<OsStr>>(folder: &Folder, source: &Path, flags: &[S]) -> Server {
    let control = ["--control".into(), socket(folder)];
    Start::site(source).flags(&control).flags(flags).start()
}

/// Requests an explanation from the server at the socket.
fn ask(folder: &Folder, words: &[&str]) -> Ended {
    let socket = socket(folder);
    let socket = socket.to_str().expect("UTF-8");
    run(&[&["why", "--socket", socket][..], words].concat())
}

#[track_caller]
fn document(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.stdout).expect("a document")
}

#[track_caller]
fn of_server(folder: &Folder, words: &[&str]) -> Value {
    document(&ask(folder, &[words, &["--json"]].concat()))
}

#[track_caller]
fn of_disk(source: &Path, words: &[&str]) -> Value {
    let source = source.to_str().expect("UTF-8");
    document(&run(&[&["why", source][..], words, &["--json"]].concat()))
}

/// Returns the last step, with the text of its rule.
fn last_step(report: &Value) -> (&str, &str) {
    let last = report["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    (last["name"].as_str().expect("a name"), last["rule"]["text"].as_str().unwrap_or_default())
}

#[track_caller]
fn control(folder: &Folder, command: &str) {
    let socket = socket(folder);
    let ended = run(&[command, "--socket", socket.to_str().expect("UTF-8")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// The files of the first and the second version of a site.
const VERSIONS: [[(&str, &str); 3]; 2] = [
    [("index.html", "one"), ("_redirects", "/old /new 302\n"), ("_headers", "/*\n  X-V: 1\n")],
    [("index.html", "two"), ("_redirects", "# next\n/old /\n"), ("_headers", "/*\n  X-V: 2\n")],
];

#[test]
fn a_server_explains_the_version_that_it_serves() {
    let folder = Folder::new("why-versions");
    let (site, archive) = (folder.join("site"), folder.join("site.pinion"));
    let write = |version: usize| {
        for (name, text) in VERSIONS[version] {
            folder.write(format!("site/{name}"), text);
        }
        build(&site, &folder.join("next.pinion"), &[]);
        fs::rename(folder.join("next.pinion"), &archive).expect("renamed");
    };
    for source in [&site, &archive] {
        write(0);
        let server = serve(&folder, source, &["--no-watch"]);
        let paths = ["/", "/old", "/none", "/index.html"];
        let before = paths.map(|path| lasting(&of_disk(source, &[path])));
        assert_eq!(paths.map(|path| lasting(&of_server(&folder, &[path]))), before);
        write(1);
        let (served, on_disk) = (of_server(&folder, &["/old"]), of_disk(source, &["/old"]));
        assert_eq!(last_step(&served), ("rule", "/old /new 302"));
        assert_eq!(last_step(&on_disk), ("rule", "/old /"));
        assert_eq!((&served["status"], &on_disk["status"]), (&json!(302), &json!(301)));
        assert_eq!(paths.map(|path| lasting(&of_server(&folder, &[path]))), before);
        assert_eq!(server.get("/old").status, 302, "as it explains");
        control(&folder, "reload");
        let after = paths.map(|path| lasting(&of_disk(source, &[path])));
        assert_eq!(paths.map(|path| lasting(&of_server(&folder, &[path]))), after);
        assert_ne!(before, after);
        server.stop();
    }
}

/// The text is the same as without a server, and has the listener in addition.
#[test]
fn the_text_is_that_without_a_server() {
    let folder = Folder::with("why-text", [("site/a.html", "a"), ("site/_redirects", "/b /a\n")]);
    let site = folder.join("site");
    let server = serve::<&str>(&folder, &site, &[]);
    for words in
        [&["/b"][..], &["/a", "-H", "Accept-Encoding: br"], &["/%zz"], &["/c", "-X", "PUT"]]
    {
        let offline = run(&[&["why", site.to_str().expect("UTF-8")][..], words].concat());
        let running = ask(&folder, words);
        assert_eq!((offline.code, running.code), (Some(0), Some(0)), "{}", running.stderr);
        let without = |text: &str, beginnings: &[&str]| -> Vec<String> {
            let differs = |line: &&str| beginnings.iter().any(|begin| line.starts_with(begin));
            text.lines().filter(|line| !differs(line)).map(str::to_owned).collect()
        };
        let ours = without(&running.stdout, &["listener ", "site ", "  Date: "]);
        assert_eq!(ours, without(&offline.stdout, &["site ", "  Date: "]), "{words:?}");
        let listener = format!("\nlistener  {} (HTTP)\n", server.address());
        assert!(running.stdout.contains(&listener), "{}", running.stdout);
    }
    server.stop();
}

/// Listeners, hosts, the health check and scripts of a configuration.
#[test]
fn a_server_explains_its_listeners_hosts_and_scripts() {
    let folder = Folder::with("why-config", [("site/a.html", "a")]);
    folder.write("main.lua", "pinion.get('/hello/:name', function() error('called') end)");
    folder.write(
        "pinion.toml",
        "[server]\nhealth = \"/health\"\nserver-name = \"Why/1\"\n\n\
         [tls]\nself-signed = \"p256\"\nhsts = \"1y\"\n\n\
         [[site]]\nhosts = [\"a.example\", \"*.a.example\"]\npath = \"site\"\n\n\
         [[site]]\nhosts = [\"lua.example\"]\npath = \"main.lua\"\n\n\
         [[listen]]\naddress = \"127.0.0.1:0\"\n\n[[listen]]\ntls = \"127.0.0.1:0\"\n\n\
         [[listen]]\nquic = \"127.0.0.1:0\"\n",
    );
    let source = folder.join("pinion.toml");
    let state = ["--state".into(), folder.join("state")];
    let control = ["--control".into(), socket(&folder)];
    let server = Start::configured(&source).flags(&control).flags(&state).start();
    for url in [
        "http://a.example/a",
        "http://x.a.example/none",
        "http://none.example/a",
        "http://none.example/health",
        "http://lua.example/hello/x",
        "http://lua.example/none",
    ] {
        let ours = of_server(&folder, &[url]);
        assert_eq!(lasting(&ours), lasting(&of_disk(&source, &[url])), "{url}");
    }
    let url = format!("http://{}/a", server.address());
    let report = of_server(&folder, &[&url, "-H", "Host: a.example"]);
    let address = json!({"address": server.address().to_string(), "kind": "http"});
    assert_eq!((&report["listener"], &report["notes"]), (&address, &json!([])));
    let report = of_server(&folder, &["https://a.example/a"]);
    let value = |name: &str| {
        let headers = report["headers"].as_array().expect("headers");
        let found = headers.iter().find(|header| header["name"] == name).expect("a header");
        found["value"].as_str().expect("a value").to_owned()
    };
    assert_eq!(report["listener"]["kind"], json!("tls"));
    assert_eq!(value("Strict-Transport-Security"), "max-age=31536000");
    let ports = server.lines().into_iter().filter_map(|line| {
        let quic = line.strip_prefix("listening https://127.0.0.1:")?.strip_suffix("/ (HTTP/3)")?;
        Some(quic.to_owned())
    });
    let ports: Vec<String> = ports.collect();
    assert_eq!(ports.len(), 1, "{:?}", server.lines());
    assert_eq!(value("Alt-Svc"), format!("h3=\":{}\"; ma=86400", ports[0]));
    server.stop();
}

/// A listener that redirects, and the requests that it does not redirect.
#[test]
fn a_server_explains_its_redirect_to_https() {
    let challenge = ".well-known/acme-challenge";
    let folder = Folder::with("why-redirect", [("site/a.html", "a")]);
    folder.write(format!("site/{challenge}/of-site"), "of-site.key");
    folder.write(format!("webroot/{challenge}/of-server"), "of-server.key");
    folder.write(
        "pinion.toml",
        format!(
            "[tls]\nself-signed = \"p256\"\ncanonical-host = \"a.example\"\n\
             acme-webroot = {:?}\n\n[[site]]\npath = \"site\"\n\n\
             [[listen]]\nredirect-http = \"127.0.0.1:0\"\n\n[[listen]]\ntls = \"127.0.0.1:0\"\n",
            folder.join("webroot")
        ),
    );
    let source = folder.join("pinion.toml");
    let state = ["--state".into(), folder.join("state")];
    let control = ["--control".into(), socket(&folder)];
    let server = Start::configured(&source).flags(&control).flags(&state).start();
    for (path, step) in [
        ("/a".to_owned(), "redirect-to-https"),
        (format!("/{challenge}/none"), "redirect-to-https"),
        (format!("/{challenge}/of-site"), "file"),
        (format!("/{challenge}/of-server"), "acme-challenge"),
    ] {
        let url = format!("http://a.example{path}");
        let report = of_server(&folder, &[&url]);
        assert_eq!(last_step(&report).0, step, "{path}");
        assert_eq!(last_step(&of_disk(&source, &[&url])).0, step, "{path}");
        let response = server.exchange(&Request::get(&path).host("a.example"));
        assert_eq!(report["status"], json!(response.status), "{path}");
        let location = response.field("Location").map(str::to_owned);
        let headers = report["headers"].as_array().expect("headers");
        let report = headers.iter().find(|header| header["name"] == "Location");
        let report = report.map(|header| header["value"].as_str().expect("a value").to_owned());
        assert_eq!(report, location, "{path}");
    }
    server.stop();
}

/// Errors that do not depend on the request: an archive that was truncated, a large file of a
/// folder that has changed.
#[test]
fn a_server_explains_damaged_files() {
    let folder = Folder::new("why-damage");
    folder.write("site/index.html", "x".repeat(100_000));
    folder.write("site/large.bin", vec![7; 2 << 20]);
    let site = folder.join("site");
    let server = serve(&folder, &site, &["--no-watch"]);
    assert_eq!(last_step(&of_server(&folder, &["/large.bin"])).0, "file");
    folder.write("site/large.bin", vec![8; (2 << 20) + 1]);
    let report = of_server(&folder, &["/large.bin"]);
    assert_eq!((last_step(&report).0, &report["status"]), ("damage", &json!(500)));
    assert_eq!(server.get("/large.bin").status, 500);
    server.stop();

    let archive = folder.join("site.pinion");
    build(&site, &archive, &[]);
    let server = serve(&folder, &archive, &["--no-watch"]);
    let bytes = fs::metadata(&archive).expect("an archive").len();
    let file = fs::OpenOptions::new().write(true).open(&archive).expect("opened");
    file.set_len(bytes / 2).expect("truncated");
    // The server checks once a second, and when a page is missing.
    pinion_tests::wait_for("the damage", || (server.get("/").status == 500).then_some(()));
    let report = of_server(&folder, &["/"]);
    assert_eq!((last_step(&report).0, &report["status"]), ("damage", &json!(500)), "{report}");
    server.stop();
}

#[test]
fn without_a_source_why_asks_the_only_server_of_the_session() {
    let folder = Folder::with("why-found", [("site/a.html", "a"), ("run/x", "")]);
    let session = || {
        let mut env = Command::new("env");
        env.arg(format!("XDG_RUNTIME_DIR={}", folder.join("run").display()));
        env
    };
    let ended = run_under(session(), &["why", "/a"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    for part in ["no running server found", "pinion why SOURCE URL"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let start = || Start::site(&folder.join("site")).session(&folder.join("run")).start();
    let first = start();
    let ended = run_under(session(), &["why", "/a", "--json"]);
    assert_eq!(document(&ended)["status"], json!(200));
    let second = start();
    let ended = run_under(session(), &["why", "/a"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("2 servers run; choose one with --socket"), "{}", ended.stderr);
    first.stop();
    second.stop();
}

#[test]
fn errors_contain_advice() {
    let folder = Folder::with("why-errors", [("site/a.html", "a")]);
    let ended = ask(&folder, &["/a"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("no server listens on"), "{}", ended.stderr);
    let server = serve::<&str>(&folder, &folder.join("site"), &[]);
    for (words, code, expected) in [
        (&["about"][..], 2, "about: is not a URL"),
        (&["/", "-H", "Content-Length: 1"], 2, "is about the connection"),
        (&["/a", "--listing"], 2, "--listing has no effect on a running server"),
        (&["site", "/a"], 2, "--socket and SOURCE contradict each other"),
    ] {
        let ended = ask(&folder, words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{words:?}");
        assert!(ended.stderr.contains(expected), "{words:?}: {}", ended.stderr);
    }
    let long = format!("/{}", "a".repeat(70_000));
    let ended = ask(&folder, &[&long]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("takes requests of at most 65536 bytes"), "{}", ended.stderr);
    let report: Value =
        serde_json::from_str(&ask(&folder, &[&long, "--json"]).stdout).expect("JSON");
    assert!(report["error"].as_str().is_some_and(|error| error.contains("65536")), "{report}");
    // The target is longer than any request line that the server accepts, but can be explained.
    let report = of_server(&folder, &[&long[..60_000]]);
    assert_eq!((last_step(&report).0, &report["status"]), ("request", &json!(414)));
    server.stop();

    let control = ["--control".into(), socket(&folder)];
    let server = Start::serve(&["--dummy"]).flags(&control).start();
    let ended = ask(&folder, &["/a"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("it has no sites: --dummy"), "{}", ended.stderr);
    server.stop();
}

/// An older server does not know this command.
#[test]
fn a_server_of_an_older_version_is_named() {
    let folder = Folder::new("why-older");
    fs::create_dir(folder.join("control")).expect("a folder");
    let listener = UnixListener::bind(socket(&folder)).expect("bound");
    let responses = [
        r#"{"version":1,"error":"this is not a known request: unknown variant `why`, expected"}"#,
        r#"{"version":2,"error":null,"messages":[]}"#,
        r#"{"version":1,"error":null,"messages":[]}"#,
        "nothing",
    ];
    let server = thread::spawn(move || {
        for response in responses {
            let (mut client, _) = listener.accept().expect("a client");
            let mut line = String::new();
            let mut reader = BufReader::new(client.try_clone().expect("a descriptor"));
            reader.read_line(&mut line).expect("a request");
            writeln!(client, "{response}").expect("sent");
        }
    });
    for expected in [
        "has an older version of pinion, which cannot explain responses; restart it",
        "has version 2 of the control protocol",
        "gave no explanation",
        "gave a response that cannot be read",
    ] {
        let ended = ask(&folder, &["/a"]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    server.join().expect("it has answered");
}

/// An explanation does not delay other commands, and one whose client has disconnected has no
/// effect.
#[test]
fn explanations_do_not_delay_other_commands() {
    let folder = Folder::new("why-slow");
    // The script takes a while to start, within its limit.
    folder.write(
        "main.lua",
        "local sum = 0\nfor i = 1, 3e7 do sum = sum + i % 7 end\n\
         pinion.get('/', function() return tostring(sum) end)\n",
    );
    let server = serve::<&str>(&folder, &folder.join("main.lua"), &[]);
    let request = json!({"version": 1, "command": "why", "request": {"url": "/"}});
    // A later command gets its response first.
    let mut client = UnixStream::connect(socket(&folder)).expect("connected");
    writeln!(client, "{request}").expect("sent");
    control(&folder, "reopen-logs");
    client.set_nonblocking(true).expect("a mode");
    let early = client.read(&mut [0]).expect_err("the explanation has come first");
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    for _ in 0..20 {
        let mut client = UnixStream::connect(socket(&folder)).expect("connected");
        // The client disconnects before its request is answered or refused.
        let _sent = writeln!(client, "{request}");
        client.shutdown(Shutdown::Both).expect("closed");
        control(&folder, "reopen-logs");
    }
    // Only the last one may arrive before the threads of the others have ended.
    let report = pinion_tests::wait_for("an explanation", || {
        let ended = ask(&folder, &["/", "--json"]);
        (ended.code == Some(0)).then(|| document(&ended))
    });
    assert_eq!(last_step(&report).0, "route");
    // Pipelined requests get their responses in order.
    let mut client = UnixStream::connect(socket(&folder)).expect("connected");
    let status = json!({"version": 1, "command": "status"});
    write!(client, "{request}\n{status}\n{request}\n").expect("sent");
    client.shutdown(Shutdown::Write).expect("closed");
    let mut all = String::new();
    client.read_to_string(&mut all).expect("the responses");
    let responses: Vec<Value> =
        all.lines().map(|line| serde_json::from_str(line).expect("a response")).collect();
    let has = |member: &str| responses.iter().map(|one| one[member] != Value::Null).collect();
    let (explained, status): (Vec<bool>, Vec<bool>) = (has("explanation"), has("status"));
    assert_eq!((explained, status), (vec![true, false, true], vec![false, true, false]));
    server.stop();
}
