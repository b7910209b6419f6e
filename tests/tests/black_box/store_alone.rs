//! A server with only a store: `pinion store`, and a configuration without a site.

use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::Io;
use pinion_tests::notify_socket::NotifySocket;
use pinion_tests::server::{Ended, Server, Start, run, run_under};
use pinion_tests::store_client::{FIELDS, StoreClient};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Starts `pinion store` with these arguments.
fn start(io: Io, arguments: &[&str]) -> Server {
    Start::store(arguments).flags(&["--io", io.as_str()]).start_without_http()
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Returns the output of redis-cli for a command, with these flags.
fn says(flags: &[&str], words: &str) -> String {
    let mut command = program("redis-cli", "redis-tools");
    command.args(flags).args(words.split(' '));
    String::from_utf8(stdout(&mut command)).expect("text").trim().to_owned()
}

/// Returns the number of TCP listeners of a server.
fn tcp_listeners(server: &Server) -> usize {
    /// The state LISTEN in `/proc/net/tcp` (proc_net_tcp(5)).
    const LISTEN: &str = "0A";
    let own = server.open_files();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/net/{name}")));
    let tables = tables.into_iter().map(Result::unwrap_or_default).collect::<String>();
    let listens = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let inode = columns.get(9).copied().unwrap_or_default();
        columns.get(3) == Some(&LISTEN) && own.contains(&format!("socket:[{inode}]"))
    };
    tables.lines().filter(listens).count()
}

#[test]
fn redis_cli_finds_a_store_and_nothing_else_listens() {
    for io in Io::BOTH {
        let folder = Folder::new("store-alone");
        let socket = folder.join("store.sock");
        let unix = format!("unix:{}", socket.display());
        let server = start(io, &["127.0.0.1:0", &unix]);
        let address = server.address_of("redis");
        let port = address.port().to_string();
        assert_eq!(says(&["-p", &port], "SET greeting hello"), "OK");
        assert_eq!(says(&["-s", shown(&socket)], "GET greeting"), "hello");
        assert_eq!(tcp_listeners(&server), 1);
        let lines = server.last_words();
        let [first, memory, tcp, local, ready, stopping] = &lines[..] else { panic!("{lines:?}") };
        assert!(first.contains(": a store, ") && first.ends_with("(keys and values not counted)"));
        assert!(memory.starts_with("the store has at most "), "{memory}");
        assert_eq!(*tcp, format!("listening redis://{address}/"));
        assert_eq!((local, &**ready), (&format!("listening {unix}"), "ready"));
        assert!(stopping.starts_with("stopping; "), "{stopping}");
        assert!(!socket.exists(), "it is removed");
    }
}

#[test]
fn a_store_on_a_public_address_needs_a_password() {
    let folder = Folder::new("store-alone-password");
    folder.write("password", "open sesame\n");
    let password = folder.join("password");
    for address in [":0", "0", "0.0.0.0:0"] {
        let ended = run(&["store", address]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{address}");
        assert!(ended.stderr.contains("give --store-password FILE"), "{}", ended.stderr);
    }
    for io in Io::BOTH {
        let server = start(io, &["0.0.0.0:0", "--store-password", shown(&password)]);
        let mut client = StoreClient::connect(server.address_of("redis").port());
        assert_eq!(client.say("GET a"), "-NOAUTH Authentication required.");
        assert_eq!(client.say("AUTH default wrong").split(' ').next(), Some("-WRONGPASS"));
        assert_eq!(client.say("AUTH \"open sesame\""), "+OK");
        assert_eq!(client.say("SET a 1"), "+OK");
        server.stop();
    }
}

#[test]
fn flags_without_effect_on_a_store_are_refused() {
    let folder = Folder::with("store-alone-refused", [("site/index.html", "a site")]);
    folder.write("pinion.toml", "[[site]]\npath = \"site\"\n");
    let (site, file) = (folder.join("site"), folder.join("pinion.toml"));
    for (arguments, why) in [
        (&["--watch"][..], "--watch is a flag of `pinion serve`"),
        (&["--listen", ":80"], "give the address alone: `pinion store 127.0.0.1:6379`"),
        (&["--port", "6379"], "give the address alone: `pinion store 127.0.0.1:6379`"),
        (&["--tls", ":6380"], "unknown flag --tls; did you mean --store-tls?"),
        (&["--password", "a"], "unknown flag --password; did you mean --store-password?"),
        (&["--maxmemory", "1gb"], "unknown flag --maxmemory; did you mean --store-memory?"),
        (&["--access-log", "-"], "--access-log is a flag of `pinion serve`"),
        (&["--store-pages", "a:"], "--store-pages is a flag of `pinion serve`, `pinion why`"),
        (&["--cert", "a"], "--cert has no effect without --store-tls; add it"),
        (&["127.0.0.1:1", "127.0.0.1:1"], "--store 127.0.0.1:1 is given twice"),
        (&["nowhere"], "ADDRESS nowhere: "),
        (&[shown(&site)], "is not an address; to serve a folder or a configuration, write"),
        (&[shown(&file)], "is not an address; to serve a folder or a configuration, write"),
    ] {
        let ended = run(&[&["store"], arguments].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(why), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

/// Runs a command for the servers of a session.
#[track_caller]
fn ask(folder: &Folder, arguments: &[&str]) -> Ended {
    let mut env = Command::new("env");
    let mut variable = OsString::from("XDG_RUNTIME_DIR=");
    variable.push(folder.join("run"));
    env.arg(variable);
    run_under(env, arguments)
}

/// Returns the status of the only server of a session.
#[track_caller]
fn status(folder: &Folder) -> Value {
    let ended = ask(folder, &["status", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).expect("one document");
    report["servers"][0].clone()
}

fn session(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir(folder.join("run")).expect("a folder");
    folder
}

#[test]
fn a_store_has_the_control_commands() {
    for io in Io::BOTH {
        let folder = session("store-alone-control");
        let start = Start::store(&["127.0.0.1:0", "--store-memory", "64", "--io", io.as_str()]);
        let mut server = start.session(&folder.join("run")).start_without_http();
        let mut client = StoreClient::connect(server.address_of("redis").port());
        assert_eq!(client.say("SETRANGE a 2999999 x"), ":3000000");
        let report = status(&folder);
        assert_eq!((&report["sites"], &report["requests"]["total"]), (&json!([]), &json!(0)));
        assert_eq!(
            (&report["configuration"], &report["connections"]["open"]),
            (&json!(null), &json!(1))
        );
        let store = &report["store"];
        assert_eq!(
            (&store["max_bytes"], &store["eviction"]),
            (&json!(64 << 20), &json!("noeviction"))
        );
        assert!(store["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 2_000_000), "{report}");
        let text = ask(&folder, &["status"]).stdout;
        assert!(text.contains(" of keys and values, at most 64.0 MiB, noeviction"), "{text}");
        for odd in ["http", "site", "requests", "latency"] {
            assert!(!text.contains(odd), "{odd}: {text}");
        }
        let nothing = "nothing to reload: there is no site, no configuration file and no \
                       certificate\n";
        let ended = ask(&folder, &["reload"]);
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (Some(0), nothing, ""));
        let from = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(from, |line| line == nothing.trim_end());
        assert_eq!(client.say("STRLEN a"), ":3000000");
        let ended = ask(&folder, &["why", "/"]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains("it has no HTTP, only a store"), "{}", ended.stderr);
        drop(client);
        let ended = ask(&folder, &["stop"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
        assert!(server.wait().success());
    }
}

const ONLY_A_STORE: &str = "[[listen]]\nstore = \"127.0.0.1:0\"\n[store]\nmemory = 64\n";

#[test]
fn a_configuration_without_a_site_is_a_store() {
    for io in Io::BOTH {
        let folder = session("store-alone-file");
        folder.write("pinion.toml", ONLY_A_STORE);
        let file = folder.join("pinion.toml");
        let ended = run(&["check", shown(&file)]);
        let right = format!("{}: no errors, only a store\n", file.display());
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (Some(0), &*right, ""));
        let start = Start::configured(&file).flags(&["--io", io.as_str()]);
        let server = start.session(&folder.join("run")).start_without_http();
        let lines = server.lines();
        assert!(lines[0].contains("pinion.toml with a store, "), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("http") || line.contains("site")));
        assert_eq!(tcp_listeners(&server), 1);
        let mut client = StoreClient::connect(server.address_of("redis").port());
        assert_eq!(client.say("SET a 1"), "+OK");
        let reload = || ask(&folder, &["reload"]);
        let reloaded = format!("reloaded {}", file.display());
        assert_eq!(reload().stdout, format!("{reloaded}\n"));
        // The reload names the setting that needs a restart.
        folder.write("pinion.toml", ONLY_A_STORE.replace("64", "65"));
        let ended = reload();
        assert!(
            ended.stderr.contains("a restart is needed for [store] memory\n"),
            "{}",
            ended.stderr
        );
        // A site is loaded, and has no listener before the next start.
        folder.write("site/index.html", "a site");
        folder.write("pinion.toml", format!("{ONLY_A_STORE}[[site]]\npath = \"site\"\n"));
        let ended = reload();
        assert!(ended.stdout.contains(&format!("{reloaded}: 1 site, 1 new, 0 removed\n")));
        assert!(ended.stderr.contains("a restart is needed for [[listen]] address\n"));
        assert_eq!(status(&folder)["sites"][0]["source"], json!(folder.join("site")));
        assert_eq!(tcp_listeners(&server), 1);
        folder.write("pinion.toml", ONLY_A_STORE);
        assert_eq!(reload().stdout, format!("{reloaded}: 0 sites, 0 new, 1 removed\n"));
        assert_eq!(client.say("GET a"), "$1");
        assert_eq!(client.line(), "1");
        server.stop();
    }
}

/// It is an error at each place: a listener or a setting that nothing can use.
#[test]
fn a_configuration_without_a_site_has_nothing_of_http() {
    let folder = session("store-alone-http");
    folder.write("pinion.toml", ONLY_A_STORE);
    let file = folder.join("pinion.toml");
    let start = Start::configured(&file).session(&folder.join("run"));
    let server = start.start_without_http();
    let http = "[[listen]]\naddress = \"127.0.0.1:0\"\n[limits]\nheader-timeout = 5\n";
    folder.write("pinion.toml", format!("{ONLY_A_STORE}{http}"));
    let checked = run(&["check", shown(&file)]);
    let errors = [
        "pinion.toml:6:11: address: there is no site that could respond here; write [[site]], and \
         below it path = \"public\", or leave this listener out",
        "pinion.toml:8:18: header-timeout: has no effect without a site; leave it out, or write \
         [[site]]",
    ];
    assert_eq!(checked.stdout.lines().count(), errors.len(), "{}", checked.stdout);
    let reloaded = ask(&folder, &["reload"]);
    let started = run(&["serve", shown(&file)]);
    assert_eq!((checked.code, reloaded.code, started.code), (Some(2), Some(1), Some(2)));
    for error in errors {
        for said in [&checked.stdout, &reloaded.stderr, &started.stderr] {
            assert!(said.contains(error), "{error}: {said}");
        }
    }
    server.stop();
    folder.write("pinion.toml", "[server]\nworkers = 1\n");
    let ended = run(&["serve", shown(&file)]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("no site: write [[site]], and below it path = \"public\"; for a")
    );
    folder.write("pinion.toml", ONLY_A_STORE);
    let ended = run(&["serve", shown(&file), "--listen", "127.0.0.1:0", "--watch"]);
    assert_eq!(ended.code, Some(2));
    for flag in ["--listen: there is no site that could respond", "--watch: has no effect without"]
    {
        assert!(ended.stderr.contains(flag), "{}", ended.stderr);
    }
    let ended = run(&["why", shown(&file), "/"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("pinion.toml has no HTTP, only a store"), "{}", ended.stderr);
}

#[test]
fn a_store_that_stops_waits_for_commands() {
    for io in Io::BOTH {
        let server = start(io, &["127.0.0.1:0", "--workers", "1"]);
        let port = server.address_of("redis").port();
        let mut client = StoreClient::connect(port);
        client.fill();
        client.send("HGETALL large");
        // The worker has seen the command, as it has this one.
        assert_eq!(StoreClient::connect(port).say("PING"), "+PONG");
        let reader = thread::spawn(move || client.array());
        server.stop();
        assert_eq!(reader.join().expect("a whole reply"), FIELDS * 2);
    }
}

#[test]
fn a_store_notifies_the_service_manager() {
    let manager = NotifySocket::at_path();
    let start = Start::store(&["127.0.0.1:0"]).under(manager.runner());
    let server = start.start_without_http();
    assert_eq!(manager.message(), ["READY=1", "STATUS=serving 0 connections"]);
    server.signal(Signal::HUP);
    assert_eq!(manager.message()[0], "RELOADING=1");
    assert_eq!(manager.message(), ["READY=1", "STATUS=serving 0 connections"]);
    server.stop();
    assert_eq!(manager.message()[0], "STOPPING=1");
}

#[test]
fn a_store_can_listen_only_with_tls() {
    for io in Io::BOTH {
        let folder = session("store-alone-tls");
        let pair = Pair::new(&folder, "a", &["localhost"]);
        let flags = ["--store-tls", "127.0.0.1:0", "--io", io.as_str()];
        let start = Start::store(&flags).flags(&pair.flags()).session(&folder.join("run"));
        let server = start.start_without_http();
        let port = server.address_of("rediss").port().to_string();
        let flags = ["--tls", "--cacert", shown(&pair.cert), "--sni", "localhost", "-p", &port];
        assert_eq!(says(&flags, "SET a 1"), "OK");
        let ended = ask(&folder, &["reload"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(!ended.stdout.contains("nothing to reload"), "{}", ended.stdout);
        assert_eq!(status(&folder)["certificates"][0]["names"], json!(["localhost"]));
        server.stop();
    }
}

#[test]
fn the_proxy_protocol_passes_the_address_of_a_client() {
    for io in Io::BOTH {
        let server = start(io, &["127.0.0.1:0", "--proxy-protocol", "127.0.0.1"]);
        let mut client = StoreClient::connect(server.address_of("redis").port());
        client.send("PROXY TCP4 192.0.2.7 127.0.0.1 4711 6379\nCLIENT INFO");
        assert!(client.line().starts_with('$'));
        let reply = client.line();
        assert!(reply.contains(" addr=192.0.2.7:4711 "), "{reply}");
        server.stop();
    }
}

#[test]
fn statistics_of_a_store_omit_responses() {
    for io in Io::BOTH {
        let server = start(io, &["127.0.0.1:0", "--stats", "3600"]);
        let mut client = StoreClient::connect(server.address_of("redis").port());
        assert_eq!(client.say("PING"), "+PONG");
        drop(client);
        let lines = server.last_words();
        let stats = lines.last().expect("a line");
        let (begin, rest) = stats.split_once(" s: ").expect("a time");
        assert!(begin.starts_with("stats after ") && rest.contains(" connection"), "{stats}");
        assert!(!stats.contains("response") && !stats.contains("content"), "{stats}");
    }
}
