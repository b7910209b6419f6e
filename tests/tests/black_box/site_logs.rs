//! Access logs of single sites, in addition to that of the server.

use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::path::Path;

const SITES: [&str; 4] = ["a", "b", "c", "d"];

/// Creates sites a to d, each for the host of its name.
fn sites(name: &str) -> Folder {
    let folder = Folder::new(name);
    for site in SITES {
        folder.write(format!("{site}/index.html"), site);
    }
    folder
}

/// Returns a configuration with these keys for each site, and additional lines.
fn configuration(keys: [&str; 4], more: &str) -> String {
    let site = |(site, keys): (&str, &str)| {
        format!("[[site]]\npath = \"{site}\"\nhosts = [\"{site}.test\"]\n{keys}\n")
    };
    let sites: String = SITES.into_iter().zip(keys).map(site).collect();
    format!("[[listen]]\naddress = \"127.0.0.1:0\"\n{sites}{more}")
}

const OWN: [&str; 4] = [
    "access-log = \"a.log\"\nlog-format = \"json\"",
    "access-log = \"shared.log\"\nlog-format = \"vhost-combined\"",
    "access-log = \"./shared.log\"\nlog-format = \"vhost-combined\"",
    "",
];
const OF_SERVER: &str = "[log]\naccess = \"server.log\"\n";

/// Sends requests to each site, and to an unknown host.
fn ask_all(server: &Server, target: &str) {
    for site in SITES {
        let response = server.exchange(&Request::get(target).host(&format!("{site}.test")));
        assert_eq!(response.status, 200);
    }
    let response = server.exchange(&Request::get(target).host("other.test"));
    assert_eq!(response.status, 421);
}

/// Waits until a log has this many lines with a target, and returns them.
#[track_caller]
fn lines(path: &Path, target: &str, count: usize) -> Vec<String> {
    let lines = wait_for("lines in the log", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains(target)).map(str::to_owned);
        let lines: Vec<String> = lines.collect();
        (text.ends_with('\n') && lines.len() >= count).then_some(lines)
    });
    assert_eq!(lines.len(), count, "{}: {lines:#?}", path.display());
    lines
}

/// Returns how often a file is open.
fn open_count(server: &Server, path: &Path) -> usize {
    let path = path.to_str().expect("text");
    server.open_files().iter().filter(|file| **file == path).count()
}

#[test]
fn each_site_writes_to_its_own_log() {
    let folder = sites("site-logs");
    folder.write("pinion.toml", configuration(OWN, OF_SERVER));
    let server = Start::configured(&folder.join("pinion.toml")).start();
    ask_all(&server, "/?first");
    let a = lines(&folder.join("a.log"), "/?first", 1);
    assert!(a[0].starts_with('{') && a[0].contains("\"host\":\"a.test\""), "{a:?}");
    let shared = lines(&folder.join("shared.log"), "/?first", 2);
    for (line, host) in shared.iter().zip(["b.test ", "c.test "]) {
        assert!(shared.iter().any(|line| line.starts_with(host)), "{line}");
    }
    // Requests to sites without a log of their own, and to no site.
    let of_server = lines(&folder.join("server.log"), "/?first", 2);
    assert!(of_server.iter().any(|line| line.contains("\" 421 ")), "{of_server:?}");
    assert_eq!(open_count(&server, &folder.join("shared.log")), 1);

    // One signal reopens all of them.
    for name in ["a.log", "shared.log", "server.log"] {
        fs::rename(folder.join(name), folder.join(format!("{name}.1"))).expect("renamed");
    }
    server.signal(Signal::USR1);
    for name in ["a.log", "shared.log", "server.log"] {
        wait_for(name, || folder.join(name).exists().then_some(()));
    }
    ask_all(&server, "/?second");
    for (name, count) in [("a.log", 1), ("shared.log", 2), ("server.log", 2)] {
        lines(&folder.join(name), "/?second", count);
        lines(&folder.join(format!("{name}.1")), "/?first", count);
    }
    // No site is loaded again for this.
    let printed = server.lines();
    assert!(printed.iter().all(|line| !line.contains("reloaded")), "{printed:?}");
    server.stop();
}

#[test]
fn a_reload_opens_and_closes_changed_logs() {
    let folder = sites("site-logs-reload");
    folder.write("pinion.toml", configuration(OWN, OF_SERVER));
    let server = Start::configured(&folder.join("pinion.toml")).flags(&["--workers", "1"]).start();
    ask_all(&server, "/?first");
    lines(&folder.join("a.log"), "/?first", 1);
    let others = ["", OWN[1], OWN[2], "access-log = \"d.log\""];
    folder.write("pinion.toml", configuration(others, OF_SERVER));
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.contains("pinion.toml: "));
    // The worker has the log from its next pass on.
    wait_for("the log of d", || {
        server.exchange(&Request::get("/").host("d.test"));
        folder.join("d.log").metadata().is_ok_and(|log| log.len() > 0).then_some(())
    });
    ask_all(&server, "/?second");
    lines(&folder.join("d.log"), "/?second", 1);
    lines(&folder.join("server.log"), "/?second", 2);
    lines(&folder.join("a.log"), "/?first", 1);
    wait_for("the log of a is closed", || {
        server.exchange(&Request::get("/").host("b.test"));
        (open_count(&server, &folder.join("a.log")) == 0).then_some(())
    });
    server.stop();
}

#[test]
fn one_site_may_have_a_log_without_a_log_of_the_server() {
    let folder = sites("site-logs-alone");
    folder.write("pinion.toml", configuration([OWN[0], "", "", ""], ""));
    let server = Start::configured(&folder.join("pinion.toml")).start();
    ask_all(&server, "/?first");
    ask_all(&server, "/?second");
    let log = folder.join("a.log");
    lines(&log, "/?second", 1);
    lines(&log, "/?first", 1);
    server.stop();
    assert_eq!(fs::read_to_string(log).expect("a log").lines().count(), 2);
}

#[test]
fn a_log_that_cannot_be_opened_is_an_error_of_its_site() {
    let folder = sites("site-logs-wrong");
    folder.write("folder/file", "");
    for (keys, code, said) in [
        (["access-log = \"a/index.html/x.log\"", "", "", ""], 1, "the access log of"),
        (["access-log = \"folder\"", "", "", ""], 1, "folder, the access log of"),
        (["log-format = \"json\"", "", "", ""], 2, "no effect without access-log"),
        (["access-log = \"a.log\"\nlog-format = \"xml\"", "", "", ""], 2, "xml"),
        (
            ["access-log = \"a.log\"", "access-log = \"a.log\"\nlog-format = \"json\"", "", ""],
            1,
            "writes it in the format combined; write log-format = \"combined\" here too",
        ),
    ] {
        folder.write("pinion.toml", configuration(keys, ""));
        let file = folder.join("pinion.toml");
        let ended = run(&["serve".as_ref(), file.as_os_str()]);
        assert_eq!(ended.code, Some(code), "{keys:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{keys:?}: {}", ended.stderr);
    }
    // The check examines folders, as for the log of the server.
    folder.write("pinion.toml", configuration(["access-log = \"folder\"", "", "", ""], ""));
    let file = folder.join("pinion.toml");
    let ended = run(&["check".as_ref(), file.as_os_str()]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("pinion.toml:6:") && said.contains("is a folder"), "{said}");
}

#[test]
fn a_server_without_a_log_needs_a_restart_for_the_first_one() {
    let folder = sites("site-logs-none");
    folder.write("pinion.toml", configuration(["", "", "", ""], ""));
    let server = Start::configured(&folder.join("pinion.toml")).start();
    folder.write("pinion.toml", configuration(OWN, ""));
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.contains("a.log") && line.contains("restart"));
    ask_all(&server, "/");
    server.stop();
}
