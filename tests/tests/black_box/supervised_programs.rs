//! Programs that the server keeps running (`[[program]]`): restarts, reloads, settings, and the end
//! of everything.

use pinion_tests::binary::pinion;
use pinion_tests::empty_root_filesystem::EmptyRoot;
use pinion_tests::external_programs::program;
use pinion_tests::processes::processes_with;
use pinion_tests::server::{Ended, Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{is_reached, wait_for};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Every delay is at least this long and doubles with each restart; a quarter is added at random.
const FIRST_DELAY_MS: u64 = 100;

/// Returns a text that no command line of another test has.
fn unique(number: u32) -> String {
    format!("{}.{number}", 3_000_000 + std::process::id())
}

/// Returns a `[[program]]` with this name that runs a script of the shell, and more keys.
fn shell(name: &str, script: &str, keys: &str) -> String {
    let command = format!("command = [\"/bin/sh\", \"-c\", {script:?}]");
    format!("[[program]]\nname = \"{name}\"\n{command}\n{keys}\n")
}

/// Returns a folder with a site, and a configuration with these programs.
fn configured(programs: &str) -> Folder {
    let folder = Folder::with("supervised", [("public/index.html", "home")]);
    configure(&folder, programs);
    folder
}

fn configure(folder: &Folder, programs: &str) {
    let listener = "[[listen]]\naddress = \"127.0.0.1:0\"\n";
    let control = "[server]\ncontrol = \"run/pinion.sock\"\n";
    let site = "[[site]]\npath = \"public\"\n";
    folder.write("pinion.toml", format!("{site}{listener}{control}{programs}"));
}

fn start(folder: &Folder) -> Server {
    Start::configured(&folder.join("pinion.toml")).start()
}

fn socket(folder: &Folder) -> PathBuf {
    folder.join("run/pinion.sock")
}

fn command(folder: &Folder, words: &[&str]) -> Ended {
    let socket = socket(folder);
    let socket = ["--socket", socket.to_str().expect("UTF-8")];
    run(&[words, &socket[..]].concat())
}

/// Returns the programs as `pinion status --json` lists them.
fn listed(folder: &Folder) -> Vec<Value> {
    let ended = command(folder, &["status", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let document: Value = serde_json::from_str(&ended.stdout).expect("one document");
    document["servers"][0]["programs"]["supervised"].as_array().expect("a list").clone()
}

/// Waits until a program runs, and returns its process.
#[track_caller]
fn running(folder: &Folder, name: &str) -> u32 {
    wait_for("a program that runs", || {
        let listed = listed(folder);
        let program = listed.iter().find(|program| program["name"] == name)?;
        let is_running = program["state"] == "running";
        is_running
            .then(|| program["pid"].as_u64().expect("a process").try_into().expect("a number"))
    })
}

/// Returns the lines of the log about a program, each as its process, if it has one, and its text.
fn lines_about(server: &Server, name: &str) -> Vec<(Option<u32>, String)> {
    let about = |line: String| {
        let rest = line.strip_prefix("pinion: ")?.strip_prefix(name)?;
        match rest.strip_prefix('[') {
            Some(rest) => {
                let (pid, text) = rest.split_once("]: ")?;
                Some((Some(pid.parse().ok()?), text.to_owned()))
            }
            None => Some((None, rest.strip_prefix(": ")?.to_owned())),
        }
    };
    server.lines().into_iter().filter_map(about).collect()
}

/// Waits for a line of the log about a program.
#[track_caller]
fn wait_for_line(server: &Server, name: &str, text: &str) -> (Option<u32>, String) {
    wait_for(&format!("{name}: {text}"), || {
        lines_about(server, name).into_iter().find(|(_, line)| line.contains(text))
    })
}

fn kill(process: u32) {
    let pid = Pid::from_raw(process.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("killed");
}

/// Returns the process that starts the programs of a server.
fn spawner(folder: &Folder) -> u32 {
    let ended = command(folder, &["status", "--json"]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("one document");
    let pid = document["servers"][0]["programs"]["spawner_pid"].as_u64().expect("a process");
    pid.try_into().expect("a number")
}

/// Splits `how; next start in N ms`.
fn end_and_delay(line: &str) -> Option<(&str, u64)> {
    let (end, delay) = line.split_once("; next start in ")?;
    Some((end, delay.strip_suffix(" ms")?.parse().ok()?))
}

#[test]
fn programs_that_end_are_started_again_with_growing_delays() {
    let folder = configured(
        &[
            shell("crash", "kill -SEGV $$", ""),
            shell("done", "exit 0", ""),
            shell("wrong", "exit 3", ""),
        ]
        .concat(),
    );
    let server = start(&folder);
    for (name, how) in [
        ("crash", "ended by SIGSEGV"),
        ("done", "exited with status 0"),
        ("wrong", "exited with status 3"),
    ] {
        let lines = wait_for("restarts", || {
            let lines = lines_about(&server, name);
            let ends = lines.iter().filter(|(_, line)| end_and_delay(line).is_some()).count();
            (ends >= 4).then_some(lines)
        });
        let (mut delay_ms, mut processes) = (FIRST_DELAY_MS, BTreeSet::new());
        for pair in lines.chunks_exact(2) {
            let [(started, text), (ended, end)] = pair else { unreachable!("chunks of two") };
            assert_eq!((&**text, started), ("started", ended), "{name}: {lines:?}");
            assert!(processes.insert(*started), "{name}: one process for two starts");
            let (end, shown_ms) = end_and_delay(end).expect("an end with a delay");
            assert_eq!(end, how);
            let longest_ms = delay_ms + delay_ms / 4;
            assert!((delay_ms..=longest_ms).contains(&shown_ms), "{shown_ms} for {delay_ms} ms");
            delay_ms *= 2;
        }
        let listed = listed(&folder);
        let program = listed.iter().find(|program| program["name"] == name).expect("listed");
        assert!(program["restarts"].as_u64() >= Some(3), "{program}");
        assert_eq!(program["last_end"], how, "{program}");
    }
    assert_eq!(server.get("/").text(), "home");
    server.stop();
}

/// The output of a program is escaped and has the process, and the program has no input.
#[test]
fn both_outputs_of_a_program_are_lines_of_the_log() {
    let script =
        "read line || echo no input; echo err >&2; printf '\\033[31mred\\n'; exec sleep 9999";
    let folder = configured(&shell("talk", script, ""));
    let server = start(&folder);
    let (pid, _) = wait_for_line(&server, "talk", "red");
    let said = lines_about(&server, "talk").into_iter().filter(|(_, line)| line != "started");
    let said: Vec<(Option<u32>, String)> = said.collect();
    let expected = ["no input", "err", "\\x1b[31mred"].map(|line| (pid, line.to_owned()));
    assert_eq!(said, expected);
    assert_eq!(running(&folder, "talk"), pid.expect("a process"));
    server.stop();
}

#[test]
fn a_program_that_floods_its_output_is_bounded() {
    let text = unique(1);
    let folder = configured(&shell("flood", &format!("exec yes {text}"), ""));
    let server = start(&folder);
    wait_for_line(&server, "flood", "lines were left out");
    assert_eq!(server.get("/").text(), "home");
    running(&folder, "flood");
    let lines = server.last_words();
    // These lines exceed the limits of a burst and of each second; they are most of the written
    // lines.
    let left_out = lines.iter().filter_map(|line| {
        let line = line.strip_prefix("pinion: flood[")?.strip_suffix(" lines were left out")?;
        line.split_once("]: ")?.1.parse::<usize>().ok()
    });
    let written = lines.iter().filter(|line| line.ends_with(&text)).count();
    assert!(left_out.sum::<usize>() > written, "{written} lines were written");
    assert!(processes_with(&text).is_empty());
}

/// A process that detaches itself does not outlive its program, so it never exists twice.
#[test]
fn daemons_of_a_program_end_with_it() {
    let sleep = unique(2);
    let script = format!("setsid sh -c 'setsid sleep {sleep} & exit'; exit 0");
    let folder = configured(&shell("daemon", &script, ""));
    let server = start(&folder);
    wait_for("restarts", || {
        let lines = lines_about(&server, "daemon");
        (lines.iter().filter(|(_, line)| line == "started").count() >= 3).then_some(())
    });
    wait_for("a line about a process that is left", || {
        let is_match = |line: &String| line.contains("which a program has left");
        server.lines().iter().any(is_match).then_some(())
    });
    configure(&folder, "");
    assert_eq!(command(&folder, &["reload"]).code, Some(0));
    wait_for("the end of the daemons", || processes_with(&sleep).is_empty().then_some(()));
    server.stop();
}

#[test]
fn a_program_that_ignores_its_stop_signal_is_killed() {
    let sleep = unique(3);
    let script = format!("trap '' TERM; echo ready; while :; do sleep {sleep}; done");
    let folder = configured(&shell("deaf", &script, "stop-timeout = 1"));
    let server = start(&folder);
    let (pid, _) = wait_for_line(&server, "deaf", "ready");
    configure(&folder, "");
    assert_eq!(command(&folder, &["reload"]).code, Some(0));
    wait_for_line(&server, "deaf", "ended by SIGKILL");
    let said = lines_about(&server, "deaf");
    let said: Vec<&str> = said.iter().map(|(_, line)| line.as_str()).collect();
    let expected = [
        "stopping, it was removed from the configuration",
        "killed, it has not stopped in 1000 ms",
        "ended by SIGKILL",
    ];
    assert_eq!(said[said.len() - 3..], expected);
    let pid = pid.expect("a process").to_string();
    wait_for("its end", || (!fs::exists(format!("/proc/{pid}")).expect("proc")).then_some(()));
    assert!(processes_with(&sleep).is_empty());
    assert!(listed(&folder).is_empty());
    server.stop();
}

/// A program whose file is missing is tried again, and runs once the file exists again.
#[test]
fn a_program_that_cannot_be_executed_is_tried_again() {
    let folder = configured("");
    let file = folder.join("app");
    let restore = || {
        // Written under another name, because a file that is open for writing is not executed.
        folder.write("new", "#!/bin/sh\necho alive; read line; test -e \"$0\"\n");
        fs::set_permissions(folder.join("new"), Permissions::from_mode(0o755)).expect("a mode");
        fs::rename(folder.join("new"), &file).expect("a name");
    };
    restore();
    configure(&folder, &format!("[[program]]\nname = \"app\"\ncommand = {file:?}\n"));
    let server = start(&folder);
    wait_for_line(&server, "app", "exited with status 0");
    fs::remove_file(&file).expect("removed");
    let (pid, line) = wait_for_line(&server, "app", "cannot execute the program");
    let (end, _) = end_and_delay(&line).expect("a delay");
    assert_eq!((pid, end), (None, "cannot execute the program: No such file or directory"));
    let count = lines_about(&server, "app").len();
    restore();
    wait_for("a start", || {
        let lines = lines_about(&server, "app");
        lines[count..].iter().any(|(_, line)| line == "alive").then_some(())
    });
    server.stop();
}

#[test]
fn a_reload_touches_only_programs_that_have_changed() {
    let sleep = unique(4);
    let sleeper = |name: &str, keys: &str| shell(name, &format!("exec sleep {sleep}"), keys);
    let folder =
        configured(&[sleeper("kept", ""), sleeper("changed", ""), sleeper("gone", "")].concat());
    let server = start(&folder);
    let [kept, changed, gone] = ["kept", "changed", "gone"].map(|name| running(&folder, name));
    let next = [sleeper("new", ""), sleeper("changed", "nice = 19"), sleeper("kept", "")].concat();
    configure(&folder, &next);
    let reloaded = command(&folder, &["reload"]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.stderr);
    let new = running(&folder, "new");
    let changed_again = wait_for("the changed program", || {
        let process = running(&folder, "changed");
        (process != changed).then_some(process)
    });
    assert_eq!(running(&folder, "kept"), kept);
    wait_for("the end of the others", || {
        let found: BTreeSet<u32> = processes_with(&sleep).into_iter().collect();
        (found == BTreeSet::from([kept, changed_again, new])).then_some(())
    });
    let names: Vec<Value> = listed(&folder).iter().map(|program| program["name"].clone()).collect();
    assert_eq!(names, ["new", "changed", "kept"]);
    wait_for_line(&server, "changed", "stopping, its settings have changed");
    wait_for_line(&server, "gone", "stopping, it was removed from the configuration");
    assert!(!processes_with(&sleep).contains(&gone));
    // Nothing of a file is used that has an error, be it in a program or in a site.
    let broken_site =
        next.replace("nice = 19", "") + "[[site]]\nhosts = [\"a.test\"]\npath = \"none\"\n";
    for wrong in [next.replace("/bin/sh", "bin/sh"), broken_site] {
        configure(&folder, &wrong);
        let reloaded = command(&folder, &["reload"]);
        assert_eq!(reloaded.code, Some(1), "{}", reloaded.stderr);
        assert!(reloaded.stderr.contains("keeping the previous version"), "{}", reloaded.stderr);
    }
    let now = ["kept", "changed", "new"].map(|name| running(&folder, name));
    assert_eq!(now, [kept, changed_again, new]);
    server.stop();
    assert!(processes_with(&sleep).is_empty());
}

#[test]
fn adding_the_first_program_needs_a_restart() {
    let folder = configured("");
    let server = start(&folder);
    configure(&folder, &shell("late", "exec sleep 9999", ""));
    let reloaded = command(&folder, &["reload"]);
    assert_eq!(reloaded.code, Some(1), "{}", reloaded.stderr);
    let why = "[[program]]: the server was started without programs; restart needed";
    assert!(reloaded.stderr.contains(why), "{}", reloaded.stderr);
    assert_eq!(server.get("/").text(), "home");
    server.stop();
}

/// A program can be added to a server whose scripts run programs.
#[test]
fn a_spawner_of_scripts_starts_programs_too() {
    let folder = configured("");
    let start = Start::configured(&folder.join("pinion.toml"));
    let server = start.flags(&["--lua-program", "sh=/bin/sh"]).start();
    assert!(listed(&folder).is_empty());
    configure(&folder, &shell("late", "exec sleep 9999", ""));
    let reloaded = command(&folder, &["reload"]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.stderr);
    running(&folder, "late");
    server.stop();
}

#[test]
fn settings_of_a_program_apply() {
    let script = "ulimit -n; nice; pwd; echo $KEY-$LANG-$PINION_TEST; exec sleep 9999";
    let keys = "directory = \"/usr\"\nnice = 19\nlimits = { open-files = 99, memory = \"64M\" }\n\
                environment = { KEY = \"value\" }";
    let memory = "head -c 100000000 /dev/zero | tail -c 100000000 >/dev/null; echo status $?; \
                  exec sleep 9999";
    let folder = configured(
        &[shell("settings", script, keys), shell("bounded", memory, "limits.memory = \"20M\"")]
            .concat(),
    );
    let mut env = program("env", "coreutils");
    env.arg("PINION_TEST=secret");
    let server = Start::configured(&folder.join("pinion.toml")).under(env).start();
    wait_for_line(&server, "settings", "value-");
    let said = lines_about(&server, "settings").into_iter().map(|(_, line)| line);
    let said: Vec<String> = said.filter(|line| line != "started").collect();
    assert_eq!(said, ["99", "19", "/usr", "value-C.UTF-8-"]);
    let (_, line) = wait_for_line(&server, "bounded", "status");
    assert_ne!(line, "status 0", "tail keeps all of it in memory");
    server.stop();
}

/// Root can change the user and the root directory. Without privileges a server with such a file
/// does not start, and reports the reason.
#[test]
fn a_program_can_have_another_user_and_root_directory() {
    let root = EmptyRoot::with_program("/app/pinion");
    let directory = root.outside("/");
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("a mode");
    let jailed = format!(
        "[[program]]\nname = \"jailed\"\ncommand = [\"/app/pinion\", \"version\"]\n\
         user = 65534\ngroup = 65534\nchroot = {directory:?}\ndirectory = \"/app\"\n"
    );
    let script = "id -u; id -g; id -G; exec sleep 9999";
    let other = shell("other", script, "user = 65534\ngroup = 65533\ngroups = [65531]");
    let folder = configured(&[jailed, other].concat());
    let config = folder.join("pinion.toml");
    if geteuid().is_root() {
        let server = start(&folder);
        let words = "2 programs to keep running: jailed as user 65534, other as user 65534";
        server.wait_for_line(0, |line| line == words);
        wait_for_line(&server, "jailed", &format!("pinion {}", env!("CARGO_PKG_VERSION")));
        wait_for_line(&server, "other", "65533 65531");
        let said = lines_about(&server, "other").into_iter().map(|(_, line)| line);
        let said: Vec<String> = said.filter(|line| line != "started").collect();
        assert_eq!(said, ["65534", "65533", "65533 65531"]);
        let process = running(&folder, "other");
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
        assert!(status.contains("CapEff:\t0000000000000000\n"), "{status}");
        server.stop();
    }
    let unprivileged = || {
        if !geteuid().is_root() {
            return std::process::Command::new("env");
        }
        let mut setpriv = program("setpriv", "util-linux");
        setpriv.args(["--bounding-set=-all", "--inh-caps=-all"]);
        setpriv
    };
    let mut server = Start::configured(&config).under(unprivileged()).begin();
    assert_eq!(server.wait().code(), Some(2));
    for line in [10, 17] {
        let head = format!("{}:{line}:8: user: ", config.display());
        server.wait_for_line(0, |line| line.contains(&head) && line.contains("CAP_SETGID"));
    }
    // The one who checks a file need not be the one who starts the server.
    let mut check = unprivileged();
    let check = check.arg(pinion()).arg("check").arg(&config).output().expect("it runs");
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success() && said.contains("needs CAP_SETGID"), "{said}");
}

/// They get the signal that they want, after the last response.
#[test]
fn programs_stop_after_the_last_response() {
    let script = "trap 'echo stopping well; exit' INT; echo ready; while :; do sleep 0.01; done";
    let folder = configured(&shell("polite", script, "stop-signal = \"SIGINT\""));
    let server = start(&folder);
    let (pid, _) = wait_for_line(&server, "polite", "ready");
    // A request that has begun.
    let mut client = TcpStream::connect(server.address()).expect("connected");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").expect("sent");
    wait_for("the connection", || (server.sockets() > 0).then_some(()));
    server.signal(Signal::TERM);
    server.wait_for_line(0, |line| line.starts_with("stopping; "));
    assert_eq!(running(&folder, "polite"), pid.expect("a process"));
    assert!(!lines_about(&server, "polite").iter().any(|(_, line)| line == "stopping well"));
    client.write_all(b"\r\n").expect("sent");
    drop(client);
    let lines = server.last_words();
    let position = |text: &str| lines.iter().position(|line| line.ends_with(text));
    let (stopping, stopped) = (position("stopping 1 program"), position("]: stopping well"));
    assert!(stopping.is_some() && stopping < stopped, "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("next start")), "{lines:?}");
}

/// A program that ends while the server still serves its last requests is started again.
#[test]
fn programs_are_started_again_while_the_server_drains() {
    let folder = configured(&shell("app", "exec sleep 9999", ""));
    let server = start(&folder);
    let before = running(&folder, "app");
    let mut client = TcpStream::connect(server.address()).expect("connected");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").expect("sent");
    wait_for("the request", || {
        let ended = command(&folder, &["status", "--json"]);
        let document: Value = serde_json::from_str(&ended.stdout).expect("one document");
        (document["servers"][0]["connections"]["open"] == json!(1)).then_some(())
    });
    server.signal(Signal::TERM);
    server.wait_for_line(0, |line| line.starts_with("stopping; 1 connection open"));
    kill(before);
    wait_for_line(&server, "app", "ended by SIGKILL; next start");
    assert_ne!(running(&folder, "app"), before);
    drop(client);
    server.last_words();
}

#[test]
fn a_killed_spawner_ends_all_programs_and_the_server_continues() {
    let sleep = unique(5);
    let script = format!("setsid sh -c 'setsid sleep {sleep} & exit' & exec sleep {sleep}");
    let folder = configured(&shell("app", &script, ""));
    let server = start(&folder);
    running(&folder, "app");
    wait_for("both processes", || (processes_with(&sleep).len() == 2).then_some(()));
    kill(spawner(&folder));
    let line = server.wait_for_line(0, |line| line.contains("the process that starts programs"));
    let expected = "pinion: the process that starts programs has ended by SIGKILL; no programs run \
                    until you restart the server, everything else goes on";
    assert_eq!(line, expected);
    wait_for("the end of its processes", || processes_with(&sleep).is_empty().then_some(()));
    let stopped = wait_for("the state", || {
        let listed = listed(&folder);
        (listed[0]["state"] == "stopped").then(|| listed[0].clone())
    });
    assert_eq!((&stopped["name"], &stopped["pid"]), (&json!("app"), &Value::Null));
    let shown = command(&folder, &["status"]).stdout;
    let ended = "programs      the process that starts programs has ended; restart the server";
    assert!(shown.contains(ended) && shown.contains("app stopped"), "{shown}");
    // A reload that changes no program succeeds, and one that does reports why it cannot.
    assert_eq!(command(&folder, &["reload"]).code, Some(0));
    configure(&folder, &shell("app", &script, "nice = 19"));
    let reloaded = command(&folder, &["reload"]);
    assert_eq!(reloaded.code, Some(1));
    assert!(reloaded.stderr.contains("restart the server"), "{}", reloaded.stderr);
    assert_eq!(server.get("/").text(), "home");
    let lines = server.last_words();
    assert_eq!(lines.iter().filter(|line| line.contains("the process that starts")).count(), 1);
}

#[test]
fn a_killed_server_leaves_no_process() {
    let sleep = unique(6);
    let script =
        format!("setsid sh -c 'setsid sleep {sleep} & exit' & trap '' TERM; sleep {sleep}");
    let folder = configured(&shell("app", &script, ""));
    let mut server = start(&folder);
    wait_for("both processes", || {
        (processes_with(&format!("sleep\0{sleep}")).len() == 2).then_some(())
    });
    let spawner = spawner(&folder);
    kill(server.id());
    server.wait();
    wait_for("the end of its processes", || processes_with(&sleep).is_empty().then_some(()));
    wait_for("the end of the spawner", || {
        (!fs::exists(format!("/proc/{spawner}")).expect("proc")).then_some(())
    });
}

#[test]
fn status_lists_programs() {
    let folder = configured(
        &[shell("steady", "exec sleep 9999", ""), shell("crash", "exit 7", "")].concat(),
    );
    let server = start(&folder);
    let process = running(&folder, "steady");
    let waiting = wait_for("a program that waits", || {
        let program = listed(&folder).get(1)?.clone();
        (program["state"] == "waiting" && program["restarts"].as_u64() > Some(0)).then_some(program)
    });
    assert!(waiting["restart_in_ms"].is_u64() && waiting["pid"].is_null(), "{waiting}");
    assert_eq!(
        (&waiting["name"], &waiting["last_end"]),
        (&json!("crash"), &json!("exited with status 7"))
    );
    let since = waiting["since"].as_str().expect("a time");
    assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
    // The text has the same.
    let is_shown = is_reached(|| {
        let shown = command(&folder, &["status"]).stdout;
        let lines: Vec<&str> = shown.lines().collect();
        let steady = format!("  programs      steady ({process}) running since ");
        lines.iter().any(|line| line.starts_with(&steady))
            && lines.iter().any(|line| {
                line.starts_with("                crash starts again in ")
                    && line.ends_with("last end: exited with status 7")
            })
    });
    assert!(is_shown, "{}", command(&folder, &["status"]).stdout);
    server.stop();
}

/// A program that cannot be executed now is no reason to stop the sites, or to refuse a reload. It
/// is an error for `pinion check`, and a start reports the same, with the line and the column.
#[test]
fn a_missing_program_file_stops_nothing_else() {
    let folder = configured(
        "[[program]]\nname = \"app\"\ncommand = [\"/no/such/program\"]\n\
         [[program]]\nname = \"other\"\ncommand = [\"/etc/passwd\"]\ndirectory = \"/tmp\"\n",
    );
    let config = folder.join("pinion.toml");
    let shown = config.display();
    let expected = [
        format!("{shown}:9:12: command: cannot open /no/such/program: No such file or directory"),
        format!("{shown}:12:12: command: /etc/passwd is not executable: run `chmod +x` for it"),
    ];
    let checked = run(&["check", config.to_str().expect("UTF-8")]);
    assert_eq!(checked.code, Some(2));
    assert_eq!(checked.stdout.lines().collect::<Vec<_>>(), expected);
    let server = start(&folder);
    for line in &expected {
        server.wait_for_line(0, |said| said == format!("pinion: warning: {line}"));
    }
    assert_eq!(server.get("/").text(), "home");
    wait_for_line(&server, "app", "cannot execute the program: No such file or directory");
    wait_for_line(&server, "other", "cannot execute the program: Permission denied");
    // Another program that is missing keeps no other change from being used.
    configure(
        &folder,
        &["[[program]]\nname = \"late\"\ncommand = \"/no/such\"\n", &shell("app", "exit 1", "")]
            .concat(),
    );
    let reloaded = command(&folder, &["reload"]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.stderr);
    assert!(reloaded.stderr.contains("cannot open /no/such"), "{}", reloaded.stderr);
    wait_for_line(&server, "late", "cannot execute the program: No such file or directory");
    wait_for_line(&server, "app", "exited with status 1");
    server.stop();
}
