//! The files in `packaging/`: the units of systemd and the Containerfile, tested as far as possible
//! without running either of them.

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::empty_root_filesystem::EmptyRoot;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::Io;
use pinion_tests::notify_socket::NotifySocket;
use pinion_tests::passed_sockets::passing;
use pinion_tests::seccomp::refusing;
use pinion_tests::server::{Start, run};
use pinion_tests::systemd_units::{refused_calls, settings};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs;
use std::process::Command;

/// The paths of the program and its configuration in the unit.
const INSTALLED: &str = "/usr/local/bin/pinion";
const CONFIGURATION: &str = "/etc/pinion/pinion.toml";

/// The exposure of the unit in tenths, from 0 (no access to anything) to 100. The rest is needed by
/// a server: to listen, also on ports below 1024.
const EXPOSURE_MAX: u32 = 20;

/// The same for the unit for apps, which can change users, and lets programs use namespaces.
const APPS_EXPOSURE_MAX: u32 = 40;

/// The time of the watchdog, in microseconds.
const WATCHDOG_US: u32 = 1_000_000;

fn read(path: &str) -> String {
    fs::read_to_string(source_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn analyze() -> Command {
    program("systemd-analyze", "systemd")
}

/// Lets systemd check units in a folder with their additions. Returns its complaints, which are
/// printed to stderr and do not always mean a failure.
#[track_caller]
fn complaints(folder: &Folder, units: &[&str]) -> String {
    let mut verify = analyze();
    // The manual is not installed here.
    verify.args(["verify", "--man=no"]).args(units).current_dir(folder.path());
    let verified = pinion_tests::external_programs::output(&mut verify);
    let text = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success(), "{text}");
    text
}

/// docs/certbot.md adds settings to the unit, so that the server can read its keys.
#[test]
fn systemd_accepts_the_unit_with_either_access_to_the_keys() {
    let unit = read("packaging/pinion.service");
    let document = read("docs/certbot.md");
    for setting in ["SupplementaryGroups", "LoadCredential"] {
        let line = document.lines().find(|line| line.starts_with(&format!("{setting}=")));
        let line = line.unwrap_or_else(|| panic!("{setting} is not in docs/certbot.md"));
        let folder = Folder::new("unit-keys");
        folder.write("pinion.service", unit.replace(INSTALLED, &pinion().display().to_string()));
        let override_conf = "pinion.service.d/override.conf";
        folder.write(override_conf, format!("[Service]\n{line}\n"));
        assert_eq!(complaints(&folder, &["pinion.service"]), "", "{line}");
        // systemd reads the addition, and reports unknown settings.
        folder.write(override_conf, format!("[Service]\nOther{line}\n"));
        let output = complaints(&folder, &["pinion.service"]);
        assert!(output.contains(&format!("Other{setting}")), "{line}");
    }
}

#[test]
fn systemd_accepts_the_unit_and_rates_it_as_secure() {
    let unit = read("packaging/pinion.service");
    let folder = Folder::new("unit");
    // The program must exist.
    let own = unit.replace(INSTALLED, &pinion().display().to_string());
    folder.write("pinion.service", own);
    // The service restarts after a crash, but not so often that systemd stops restarting it.
    assert_eq!(settings(&unit, "RestartSec"), ["1"]);
    // A worker that hangs counts as a crash (systemd.service(5), the table of Restart=).
    assert_eq!(settings(&unit, "Restart"), ["on-failure"]);
    assert_eq!(complaints(&folder, &["pinion.service"]), "");
    is_locked(&folder, "pinion.service", EXPOSURE_MAX);
}

#[track_caller]
fn is_locked(folder: &Folder, unit: &str, exposure_max: u32) {
    let mut security = analyze();
    security.args(["security", "--offline=true", "--no-pager"]);
    security.arg(format!("--threshold={exposure_max}")).arg(unit);
    stdout(security.current_dir(folder.path()));
}

#[test]
fn systemd_accepts_the_unit_for_apps() {
    let unit = read("packaging/pinion-apps.service");
    let folder = Folder::new("unit-apps");
    folder.write("pinion-apps.service", unit.replace(INSTALLED, &pinion().display().to_string()));
    assert_eq!(complaints(&folder, &["pinion-apps.service"]), "");
    is_locked(&folder, "pinion-apps.service", APPS_EXPOSURE_MAX);
    // The unit runs and reloads like the other one.
    let other = read("packaging/pinion.service");
    for name in ["Type", "WatchdogSec", "TimeoutStartSec", "TimeoutStopSec", "KillMode", "Restart"]
    {
        assert_eq!(settings(&unit, name), settings(&other, name), "{name}");
    }
    // Settings that would take rights from programs which they have elsewhere, or cgroups from the
    // server.
    let absent = [
        "MemoryDenyWriteExecute",
        "ProtectControlGroups",
        "RestrictNamespaces",
        "ProtectProc",
        "ProcSubset",
        "DynamicUser",
    ];
    for name in absent {
        assert!(!unit.contains(&format!("\n{name}=")), "{name}");
    }
}

/// Returns the units in docs/installing.md: the blocks that begin with a comment of their path.
fn documented_units(folder: &Folder) -> Vec<String> {
    let document = read("docs/installing.md");
    let blocks = document.split("```ini\n# /etc/systemd/system/").skip(1);
    let unit = |block: &str| {
        let (path, rest) = block.split_once('\n').expect("a path");
        let (content, _) = rest.split_once("```").expect("an end");
        folder.write(path, content);
        path.to_owned()
    };
    blocks.map(unit).collect()
}

/// The unit of docs/installing.md works with the socket of the package, and with those of HTTPS
/// instead.
#[test]
fn systemd_accepts_the_socket_units() {
    let folder = Folder::new("unit-sockets");
    let unit = read("packaging/pinion.service");
    folder.write("pinion.service", unit.replace(INSTALLED, &pinion().display().to_string()));
    folder.write("pinion.socket", read("packaging/pinion.socket"));
    assert_eq!(complaints(&folder, &["pinion.service", "pinion.socket"]), "");
    let written = documented_units(&folder);
    assert_eq!(written, ["pinion-https.socket", "pinion.service.d/sockets.conf"]);
    let all = ["pinion.service", "pinion.socket", "pinion-https.socket"];
    assert_eq!(complaints(&folder, &all), "");
    // systemd reads the additions.
    folder.write("pinion.service.d/more.conf", "[Service]\nSocket=pinion.socket\n");
    assert!(complaints(&folder, &all).contains("Socket"));
}

/// The configuration for socket units in docs/installing.md, with sockets as in these units.
#[test]
fn the_server_accepts_the_sockets_of_the_units() {
    let document = read("docs/installing.md");
    let blocks = document.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
    let configuration = blocks.into_iter().find(|block| block.contains("\"fd:https\""));
    let configuration = configuration.expect("a configuration with sockets");
    let folder = Folder::with("units", [("public/index.html", "home")]);
    let site = folder.join("public").display().to_string();
    folder.write("pinion.toml", configuration.replace("/srv/www/example", &site));
    let named = |unit: &str| {
        let name = settings(unit, "FileDescriptorName")[0];
        let kinds = [("ListenStream", "tcp"), ("ListenDatagram", "udp")];
        let kinds =
            kinds.into_iter().filter(|(setting, _)| unit.contains(&format!("\n{setting}=")));
        kinds.map(|(_, kind)| format!("{name}={kind}")).collect::<Vec<_>>()
    };
    let units = Folder::new("unit-sockets");
    documented_units(&units);
    let https = fs::read_to_string(units.join("pinion-https.socket")).expect("a unit");
    let sockets = [named(&read("packaging/pinion.socket")), named(&https)].concat();
    assert_eq!(sockets, ["http=tcp", "https=tcp", "https=udp"]);
    let state = folder.join("state").display().to_string();
    let server = Start::configured(&folder.join("pinion.toml"))
        .flags(&["--state", &state])
        .under(passing(&sockets))
        .start();
    let lines = server.lines();
    let listening = lines.iter().filter(|line| line.starts_with("listening "));
    assert_eq!(listening.count(), 3, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("warning:")), "{lines:#?}");
    assert_eq!(server.get("/").text(), "home");
    server.stop();
}

/// Creates a configuration like that of the unit, in a folder of its own.
fn configured() -> Folder {
    let site = "[[site]]\npath = \"public\"\nwatch = true\n";
    Folder::with("unit", [("public/index.html", "home"), ("pinion.toml", site)])
}

/// Returns the arguments of a command of the unit, for the configuration in this folder.
fn words(command: &str, folder: &Folder) -> Vec<String> {
    let own = folder.join("pinion.toml").display().to_string();
    let rest = command.strip_prefix(INSTALLED).expect("the program");
    rest.split_whitespace().map(|word| word.replace(CONFIGURATION, &own)).collect()
}

#[test]
fn the_server_works_without_the_system_calls_that_the_unit_refuses() {
    let unit = read("packaging/pinion.service");
    let refused = refused_calls(&settings(&unit, "SystemCallFilter"));
    assert!(refused.len() > 50, "only {} calls are refused", refused.len());
    assert_eq!(settings(&unit, "SystemCallErrorNumber"), ["EPERM"]);
    assert_eq!(
        (settings(&unit, "Type"), settings(&unit, "WatchdogSec")),
        (vec!["notify"], vec!["60"])
    );
    for io in Io::BOTH {
        let folder = configured();
        let start = words(settings(&unit, "ExecStart")[0], &folder);
        let (verb, rest) = start.split_first().expect("a verb");
        assert_eq!(verb, "serve");
        let flags = ["--io", io.as_str(), "--stats", "1"];
        // The settings of the unit: Type=notify, and WatchdogSec= with a shorter time.
        let manager = NotifySocket::at_path();
        let mut runner = manager.runner_with_watchdog(WATCHDOG_US);
        let refusing = refusing(Errno::PERM, &refused);
        runner.arg(refusing.get_program()).args(refusing.get_args());
        let mut server = Start::serve(rest).flags(&flags).under(runner).start();
        assert_eq!(server.get("/").text(), "home");
        assert_eq!(manager.message()[0], "READY=1");
        manager.wait_for(|line| line == "WATCHDOG=1");
        // A watched folder is reloaded automatically, and on the signal that the unit sends.
        folder.write("public/index.html", "again");
        server.wait_for_line(0, |line| line.starts_with("reloaded "));
        assert_eq!(server.get("/").text(), "again");
        let [check, reload] = settings(&unit, "ExecReload")[..] else { panic!("two commands") };
        assert_eq!(run(&words(check, &folder)).code, Some(0));
        assert_eq!(reload, "kill -HUP $MAINPID");
        let lines = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(lines, |line| line.starts_with("reloaded "));
        server.wait_for_line(lines, |line| line.starts_with("stats after "));
        manager.wait_for(|line| line == "RELOADING=1");
        manager.wait_for(|line| line == "READY=1");
        server.signal(Signal::TERM);
        manager.wait_for(|line| line == "STOPPING=1");
        assert!(server.wait().success());
        let wrong = server.lines().into_iter().find(|line| line.contains("not permitted"));
        assert_eq!(wrong, None, "{io:?}");
    }
}

#[test]
fn a_wrong_configuration_causes_no_restart() {
    let unit = read("packaging/pinion.service");
    let folder = Folder::with("unit", [("pinion.toml", "[[site]]\npath = 1\n")]);
    let commands = [settings(&unit, "ExecStart")[0], settings(&unit, "ExecReload")[0]];
    for command in commands {
        let code = run(&words(command, &folder)).code.expect("a code").to_string();
        assert_eq!(settings(&unit, "RestartPreventExitStatus"), [code], "{command}");
    }
}

/// Runs logrotate with the configuration of the package; only the path of the logs and the process
/// of the signal differ.
#[test]
fn logrotate_renames_the_log_and_the_server_opens_a_new_one() {
    const NOTIFY: &str = "systemctl kill --kill-whom=main --signal=SIGUSR1 pinion.service";
    let folder = Folder::with("logrotate", [("site/index.html", "home")]);
    let log = folder.join("access.log");
    let flags = ["--access-log", log.to_str().expect("a path")];
    let server = Start::site(&folder.join("site")).flags(&flags).start();
    let has_line = |name: &str, target: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
        text.lines().count() == 1 && text.contains(&format!("GET {target} "))
    };
    assert_eq!(server.get("/before").status, 404);
    wait_for("a line", || has_line("access.log", "/before").then_some(()));
    let text = read("packaging/pinion.logrotate");
    assert!(text.contains(NOTIFY), "{text}");
    let own = text.replace("/var/log/pinion", &folder.path().display().to_string());
    folder.write("own.conf", own.replace(NOTIFY, &format!("kill -USR1 {}", server.id())));
    let mut logrotate = program("logrotate", "logrotate");
    logrotate.arg("--force").arg("--state").arg(folder.join("state")).arg(folder.join("own.conf"));
    stdout(&mut logrotate);
    wait_for("a new file", || log.exists().then_some(()));
    assert_eq!(server.get("/behind").status, 404);
    wait_for("a line", || has_line("access.log", "/behind").then_some(()));
    assert!(has_line("access.log.1", "/before"));
    server.stop();
}

/// Returns the stages of the Containerfile, each a list of instructions with their arguments.
fn stages() -> Vec<Vec<(String, String)>> {
    let text = read("packaging/Containerfile").replace("\\\n", " ");
    let mut stages: Vec<Vec<(String, String)>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').expect("an instruction");
        if word == "FROM" {
            stages.push(Vec::new());
        }
        let stage = stages.last_mut().expect("it begins with FROM");
        stage.push((word.to_owned(), rest.to_owned()));
    }
    stages
}

/// Returns the arguments of an instruction that a stage has once.
fn only<'s>(stage: &'s [(String, String)], name: &str) -> &'s str {
    let mut found = stage.iter().filter(|(word, _)| word == name);
    let (_, rest) = found.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(found.next().is_none(), "{name} twice");
    rest
}

fn list(text: &str) -> Vec<String> {
    serde_json::from_str(text).expect("a list of words")
}

#[test]
fn the_image_is_built_from_existing_files() {
    let [build, _] = &stages()[..] else { panic!("two stages") };
    let workspace = read("Cargo.toml");
    let image = only(build, "FROM").strip_suffix(" AS build").expect("a name");
    let rust = image.strip_prefix("rust:").expect("an image with Rust");
    assert!(workspace.contains(&format!("rust-version = \"{rust}\"")), "{rust}");
    let site = only(build, "ARG").strip_prefix("SITE=").expect("a site");
    assert!(source_root().join(site).join("index.html").is_file());
    // Files that are excluded from the build context are not needed.
    for left_out in read(".dockerignore").lines().filter(|line| line.starts_with('/')) {
        let is_ignored = read(".gitignore").lines().any(|line| line == left_out);
        assert!(is_ignored || left_out == "/.git", "{left_out}");
    }
}

#[test]
fn the_image_serves_its_site_as_an_unprivileged_user() {
    let [build, image] = &stages()[..] else { panic!("two stages") };
    assert_eq!(only(image, "FROM"), "scratch");
    let runs: Vec<&str> =
        build.iter().filter(|(word, _)| word == "RUN").map(|(_, rest)| rest.as_str()).collect();
    let entry = list(only(image, "ENTRYPOINT"));
    let [path] = &entry[..] else { panic!("{entry:?}") };
    let root = EmptyRoot::with_program(path);
    for (_, copy) in image.iter().filter(|(word, _)| word == "COPY") {
        let (from, to) = copy
            .strip_prefix("--from=build ")
            .expect("from the build")
            .split_once(' ')
            .expect("from and to");
        match runs.iter().find_map(|run| run.strip_suffix(&format!(" -o {from}"))) {
            Some(command) => {
                assert_eq!(command, "pinion build \"$SITE\"");
                let site = source_root().join("examples/site");
                pinion_tests::server::build(&site, &root.outside(to), &[]);
            }
            None => {
                assert!(runs.iter().any(|run| run.ends_with(&format!(" {from}"))), "{from}");
                assert_eq!(to, path);
            }
        }
    }
    let command = list(only(image, "CMD"));
    let [verb, archive, listen, address] = &command[..] else { panic!("{command:?}") };
    assert_eq!([verb.as_str(), listen.as_str()], ["serve", "--listen"]);
    assert_eq!(address.strip_prefix(':'), Some(only(image, "EXPOSE")));
    let user = only(image, "USER");
    assert!(!user.starts_with('0'), "{user}");
    for io in Io::BOTH {
        let start = Start::serve(&[archive]).flags(&["--io", io.as_str()]);
        let start = start.under(root.runner(user)).found_at(path.as_ref());
        let server = start.start();
        let page = fs::read(source_root().join("examples/site/index.html")).expect("the page");
        assert_eq!(server.get("/").body, page);
        assert_eq!(server.get("/assets/style.css").status, 200);
        server.stop();
    }
}

/// An image of docs/installing.md that is based on another one, and adds a site.
#[test]
fn a_site_is_built_in_a_root_with_only_the_program() {
    let root = EmptyRoot::with_program("/pinion");
    for path in ["index.html", "about.html"] {
        root.copy(&source_root().join("examples/site").join(path), &format!("/public/{path}"));
    }
    // The base image has the file already.
    pinion_tests::server::build(&source_root().join("docs"), &root.outside("/site.pinion"), &[]);
    let page = read("docs/installing.md");
    let words = page.lines().find_map(|line| line.strip_prefix("RUN ")).expect("what it runs");
    stdout(root.runner("0:0").args(list(words)));
    // The container runtime provides this file.
    let hosts = Folder::with("hosts", [("hosts", "127.0.0.1 localhost\n")]);
    root.copy(&hosts.join("hosts"), "/etc/hosts");
    let start = Start::serve(&["/site.pinion", "--listen", "localhost:0"]);
    let server = start.under(root.runner("65532:65532")).found_at("/pinion".as_ref()).start();
    assert_eq!(server.get("/about").status, 200);
    server.stop();
}
